//! Ports of different kinds in one stack. While one port waits for a time, another port's
//! descriptor still wakes the driver, or the thread that drives the stack.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use device::tap::{Declared, Tap};
use device::{Burst, Device, nic};
use mbuf::Pool;
use stack::PortConfig;
use stack::pair::{End, PairConfig, end};
use wirespeed_net::{Net, TcpListener, TcpStream, blocking};

use crate::common::{SOON, on_each_runtime};

/// Client and server are joined by a socket pair, which has descriptors but cannot call a waker.
/// The server has a second port, on a link on which a frame takes an hour. The third value is the
/// far end of that link.
fn ends() -> (End, End, nic::Nic) {
    let (theirs, ours) = UnixDatagram::pair().expect("a pair of sockets");
    let config = PairConfig::new([3, 19]);
    let over = |socket: UnixDatagram, number| {
        let tap = Tap::adopt(socket.into(), &Declared::default()).expect("a datagram socket");
        end(&config, tap, number)
    };
    let (client, mut server) = (over(theirs, 1), over(ours, 2));
    let slow = nic::Config { delay: base::Duration::from_secs(3_600), ..nic::Config::default() };
    let clock = Arc::new(|| base::Instant::from_nanos(1));
    let (near, mut far) = nic::pair(&slow, clock).expect("a link");
    let mut pool = Pool::new(1 << 20);
    let mut burst = Burst::from_iter([pool.copy_of(&[0; 60]).expect("memory")]);
    assert_eq!(far.tx_burst(&mut pool, &mut burst), 1);
    server.stack.add_port(Box::new(near), PortConfig::default());
    (client, server, far)
}

#[test]
fn threads_hear_a_descriptor_while_another_port_waits_for_a_time() {
    let (client, server, _far) = ends();
    let to = SocketAddr::new(server.addr, 7);
    let (client, _clients_driver) = Net::spawn_thread(client.stack).expect("the thread starts");
    let (server, _servers_driver) = Net::spawn_thread(server.stack).expect("the thread starts");
    let listener = blocking::TcpListener::bind(&server, to).expect("free");
    // After this time the server's driver sleeps, and no thread waits in a call.
    thread::sleep(Duration::from_millis(100));
    let connected = blocking::TcpStream::connect_timeout(&client, to, SOON);
    let mut stream = connected.expect("the driver hears of it");
    let (mut accepted, _) = listener.accept().expect("it is there");
    accepted.set_read_timeout(Some(SOON)).expect("a time");
    let reading = thread::spawn(move || {
        let mut message = [0; 4];
        accepted.read_exact(&mut message).map(|()| message)
    });
    // After this time the thread that reads drives the stack.
    thread::sleep(Duration::from_millis(100));
    stream.write_all(b"news").expect("room");
    assert_eq!(reading.join().expect("no panic").expect("it hears of it"), *b"news");
}

#[test]
fn tasks_hear_it_too() {
    on_each_runtime(|| async {
        let (client, server, _far) = ends();
        let to = SocketAddr::new(server.addr, 7);
        let ((client, _), (server, _)) =
            (Net::spawn_tokio(client.stack), Net::spawn_tokio(server.stack));
        let _listener = TcpListener::bind(&server, to).expect("free");
        tokio::time::sleep(Duration::from_millis(100)).await;
        let connected = tokio::time::timeout(SOON, TcpStream::connect(&client, to)).await;
        drop(connected.expect("in time").expect("the driver hears of it"));
        client.shut_down();
        server.shut_down();
    });
}
