//! Runs the example `bring_your_own` as written, and tests its device against the contract of
//! `Device`.
//!
//! Called by: cargo.
#![cfg(feature = "net")]

use std::net::UdpSocket;

use wirespeed::device::Burst;
use wirespeed::{Device, DropReason, Drops, Pool};

#[path = "../examples/bring_your_own.rs"]
mod example;

use example::Tunnel;

/// Both ends of a tunnel.
fn tunnel() -> (Tunnel, Tunnel) {
    let bound = || UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let (a, b) = (bound(), bound());
    let connect = |from: &UdpSocket, to: &UdpSocket| {
        from.connect(to.local_addr().expect("bound")).expect("loopback");
        from.set_nonblocking(true).expect("a socket");
    };
    connect(&a, &b);
    connect(&b, &a);
    (Tunnel(a, Drops::default()), Tunnel(b, Drops::default()))
}

#[test]
fn the_example_runs() {
    example::main().expect("a TCP connection through the tunnel");
}

/// The length that the documentation promises, in lines of code without comments and blank lines.
#[test]
fn the_device_and_its_stack_are_short() {
    let source = include_str!("../examples/bring_your_own.rs");
    let code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
    let device = source.lines().skip_while(|line| !line.starts_with("pub(crate) struct Tunnel"));
    let device = device.take_while(|line| !line.starts_with("fn host")).filter(code).count();
    assert!(device <= 60, "the device takes {device} lines: it is to be read in a minute");
}

#[test]
fn frames_cross_in_order_and_readiness_tells_the_truth() {
    let (mut a, mut b) = tunnel();
    let mut pool = Pool::new(1 << 20);
    let (mut going, mut coming) = (Burst::new(), Burst::new());
    assert!(!b.rx_ready() && b.rx_burst(&mut pool, &mut coming) == 0);
    going.extend((0..10).filter_map(|n| pool.copy_of(&[n; 60])));
    assert_eq!(a.tx_burst(&mut pool, &mut going), 10);
    assert!(going.is_empty() && b.rx_ready());
    while coming.len() < 10 {
        b.rx_burst(&mut pool, &mut coming);
    }
    assert!(coming.iter().enumerate().all(|(n, frame)| frame.as_slice() == [n as u8; 60]));
    assert!(!b.rx_ready());
}

#[test]
fn a_frame_that_can_never_go_is_taken_and_counted() {
    let (mut a, _b) = tunnel();
    let mut pool = Pool::new(1 << 20);
    let mut going = Burst::new();
    // Too long for a UDP datagram.
    let mut frame = pool.alloc(65_535).expect("room");
    frame.extend(65_535);
    going.push(frame);
    going.extend(pool.copy_of(&[1; 60]));
    assert_eq!(a.tx_burst(&mut pool, &mut going), 2);
    assert!(going.is_empty());
    assert_eq!(a.drops().map(|drops| drops.of(DropReason::DeviceRefused)), Some(1));
}
