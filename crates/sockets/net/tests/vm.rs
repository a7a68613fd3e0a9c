//! A stack listens on a Unix socket for virtual machines. Each machine is a stack of its own;
//! machines connect and disconnect, and each is served.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use device::vm;
use stack::pair::{PairConfig, end};
use wirespeed_net::Net;
use wirespeed_net::blocking::{TcpListener, TcpStream};

use crate::common::{SOON, pattern};

/// Send `data`, and read the echo until the stream ends.
fn echoed(net: &Net, to: SocketAddr, data: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect_timeout(net, to, SOON).expect("it is heard, and listens");
    let mut writer = stream.try_clone().expect("it is open");
    stream.set_read_timeout(Some(SOON)).expect("not zero");
    writer.set_write_timeout(Some(SOON)).expect("not zero");
    let mut back = Vec::new();
    thread::scope(|scope| {
        scope.spawn(move || {
            writer.write_all(data).expect("it is read");
            writer.shutdown(Shutdown::Write).expect("it is open");
        });
        stream.read_to_end(&mut back).expect("until the end");
    });
    back
}

/// Wait until no connection is left.
fn ended(net: &Net) {
    let end = Instant::now() + SOON;
    while net.with_stack(|stack| stack.connection_count()).expect("the driver runs") > 0 {
        assert!(Instant::now() < end, "a connection did not end in time");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn one_machine_after_the_other_is_served() {
    let name = format!("wsvm-net-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let config = |seed| PairConfig::new([seed, 42]);
    let waiting = vm::Stream::listen(&path).expect("a place");
    let ours = end(&config(1), waiting, 2);
    let to = SocketAddr::new(ours.addr, 7);
    let (server, driver) = Net::spawn_thread(ours.stack).expect("the thread starts");
    let listener = TcpListener::bind(&server, to).expect("nobody has the port");
    // The second and the fourth machine connect while another machine is connected. The stack then
    // closes one socket and opens the next without sleeping in between.
    let mut next = None;
    // The thread is not scoped, because it never ends if a machine is not served.
    let echo = thread::spawn(move || {
        for _ in 0..4 {
            let (mut stream, _) = listener.accept().expect("the stack runs");
            std::io::copy(&mut stream.try_clone().expect("it is open"), &mut stream)
                .expect("the machine reads");
        }
    });
    let data = pattern(3_000_000);
    let connected = || vm::Stream::connect(&path).expect("it listens");
    for round in 1..=4 {
        let device = next.take().unwrap_or_else(connected);
        if round % 2 == 1 {
            next = Some(connected());
        }
        let machine = end(&config(10 + round), device, 1);
        let (client, driver) = Net::spawn_thread(machine.stack).expect("the thread starts");
        let back = echoed(&client, to, &data);
        assert!(back == data, "{} bytes of {} in round {round}", back.len(), data.len());
        ended(&client);
        ended(&server);
        driver.stop().expect("no panic");
    }
    echo.join().expect("no panic");
    driver.stop().expect("no panic");
}
