//! Devices that disappear while connections use them. Each connection fails with the device's
//! reason, the driver does not spin, and another device can replace the old one.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use device::mem;
use stack::pair::{PairConfig, end};
use stack::{PortConfig, PortId};
use testbed::Case;
use wirespeed_net::{Net, TcpStream, blocking};

use crate::ends::{
    OURS, SOON, assert_reads, cidr, ip, kernel_listener, pattern, processor_time, stack, tun,
};

pub(crate) const CASES: &[Case] = &[
    ("an_interface_deleted_under_a_transfer_fails_it_and_is_replaced", &[], deleted),
    ("an_interface_deleted_under_tasks_fails_them", &[], deleted_under_tasks),
    ("a_wire_in_memory_that_is_dropped_fails_its_connections", &[], wire_dropped),
    ("a_port_removed_at_run_time_fails_its_connections_and_a_new_one_serves", &[], removed),
    ("ports_replaced_for_ever_take_no_memory", &[], again_and_again),
];

/// The driver of a stack with a dead device sleeps. Before that it cleans up the device's
/// connections, and the stacks of earlier cases, which run in this process, end.
fn assert_asleep() {
    let mut shares = Vec::new();
    while shares.len() < 10 {
        let (before, began) = (processor_time(), Instant::now());
        thread::sleep(Duration::from_secs(1));
        let share = (processor_time() - before).as_secs_f64() / began.elapsed().as_secs_f64();
        if share < 0.01 {
            return;
        }
        shares.push(share * 100.0);
    }
    panic!("no sleep in ten seconds with a dead device; percent of a core: {shares:.1?}");
}

/// Checks that a transfer over `net` to the kernel succeeds.
fn assert_works(net: &Net) {
    let (listener, at) = kernel_listener();
    let data = pattern(100_000);
    thread::scope(|scope| {
        scope.spawn(|| assert_reads(&mut listener.accept().expect("our stack connects").0, &data));
        let mut stream = blocking::TcpStream::connect_timeout(net, at, SOON).expect("it listens");
        stream.write_all(&data).expect("the kernel reads");
    });
}

fn deleted() {
    let (stack, port) = stack();
    let (net, _driver) = Net::spawn_thread(stack).expect("the thread starts");
    let (listener, at) = kernel_listener();
    let mut stream = blocking::TcpStream::connect_timeout(&net, at, SOON).expect("it listens");
    let (_peer, _) = listener.accept().expect("our stack connects");
    let mut idle = blocking::TcpStream::connect_timeout(&net, at, SOON).expect("it listens");
    let (_other_peer, _) = listener.accept().expect("our stack connects");
    let waiting = thread::spawn(move || idle.read(&mut [0]));
    let writing = thread::spawn(move || {
        // Nobody reads at the kernel's end, so the write blocks midway.
        stream.write_all(&pattern(64 << 20)).map(|()| stream)
    });
    thread::sleep(Duration::from_millis(300));
    ip("link delete ws0");
    for error in [
        writing.join().expect("no panic").map(drop).expect_err("its interface is deleted"),
        waiting.join().expect("no panic").map(drop).expect_err("its interface is deleted"),
    ] {
        assert_eq!(error.kind(), ErrorKind::NetworkDown, "{error}");
        assert!(error.to_string().contains("ws0"), "{error}");
    }
    let refused = blocking::TcpStream::connect(&net, at).map(drop).expect_err("no way there");
    assert_eq!(refused.kind(), ErrorKind::NetworkDown, "{refused}");
    assert_asleep();
    let old = net.replace_port(port, Box::new(tun())).expect("the same kind of link");
    assert!(old.is_gone());
    drop(old);
    assert_works(&net);
}

fn deleted_under_tasks() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let (stack, port) = stack();
        let (net, _driver) = Net::spawn_tokio(stack);
        let (listener, at) = kernel_listener();
        let stream = TcpStream::connect(&net, at).await.expect("it listens");
        let _peer = listener.accept().expect("our stack connects");
        let reading = async {
            let mut room = [0; 10];
            stream.readable().await?;
            stream.try_read(&mut room)
        };
        let deleting = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            ip("link delete ws0");
        };
        let read = tokio::time::timeout(SOON, async { tokio::join!(reading, deleting).0 });
        let error = read.await.expect("in time").expect_err("its interface is deleted");
        assert_eq!(error.kind(), ErrorKind::NetworkDown, "{error}");
        drop(net.replace_port(port, Box::new(tun())).expect("the same kind of link"));
        let (_listener, at) = kernel_listener();
        TcpStream::connect(&net, at).await.expect("it listens, and the new device carries it");
    });
}

fn wire_dropped() {
    let (left, right) = mem::pair(&mem::Config::default());
    let settings = PairConfig::new([8, 8]);
    let (left, right) = (end(&settings, left, 1), end(&settings, right, 2));
    let at = SocketAddr::new(right.addr, 7);
    let (net, _driver) = Net::spawn_thread(left.stack).expect("the thread starts");
    let (other, other_driver) = Net::spawn_thread(right.stack).expect("the thread starts");
    let listener = blocking::TcpListener::bind(&other, at).expect("free");
    let mut stream = blocking::TcpStream::connect_timeout(&net, at, SOON).expect("it listens");
    let peer = listener.accept().expect("our stack connects");
    let reading = thread::spawn(move || stream.read(&mut [0]));
    thread::sleep(Duration::from_millis(100));
    other_driver.stop().expect("no panic");
    drop((peer, listener, other));
    let error = reading.join().expect("no panic").expect_err("the other end is gone");
    assert_eq!(error.kind(), ErrorKind::NetworkDown, "{error}");
    assert!(error.to_string().contains("Make a new pair"), "{error}");
    assert_asleep();
}

fn removed() {
    let (stack, port) = stack();
    let (net, _driver) = Net::spawn_thread(stack).expect("the thread starts");
    let (listener, at) = kernel_listener();
    let mut stream = blocking::TcpStream::connect_timeout(&net, at, SOON).expect("it listens");
    let _peer = listener.accept().expect("our stack connects");
    let reading = thread::spawn(move || stream.read(&mut [0]));
    thread::sleep(Duration::from_millis(100));
    let device = net.remove_port(port).expect("it is there");
    let error = reading.join().expect("no panic").expect_err("its port was removed");
    assert_eq!(error.kind(), ErrorKind::NetworkDown, "{error}");
    assert_eq!(net.remove_port(port).err().map(|e| e.kind()), Some(ErrorKind::NotFound));
    // The device lives on, and its descriptor is readable. No thread may wait on that descriptor
    // any more.
    let _ = std::net::UdpSocket::bind("0.0.0.0:0").expect("free").send_to(b"x", (OURS, 9));
    assert_asleep();
    let addresses = vec![cidr(OURS)];
    let config = PortConfig { addresses, ..PortConfig::default() };
    assert_eq!(net.add_port(device, config).expect("the driver runs"), port);
    assert_works(&net);
}

fn again_and_again() {
    let (net, _driver) = Net::spawn_thread(stack().0).expect("the thread starts");
    for _ in 0..70_000 {
        let (device, _peer) = mem::pair(&mem::Config { depth: 1, ..mem::Config::default() });
        let port = net.add_port(Box::new(device), PortConfig::default()).expect("the driver runs");
        assert_eq!(port, PortId(1));
        net.remove_port(port).expect("it is there");
    }
    assert_works(&net);
}
