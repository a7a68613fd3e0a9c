//! Urgent data between our stack and the kernel: each end finds the urgent mark where the other end
//! set it.

use std::io::{Read, Write};
use std::thread;

use socket2::SockRef;
use testbed::Case;
use wirespeed_net::{Net, blocking};

use crate::ends::{SOON, kernel_listener, stack};

pub(crate) const CASES: &[Case] = &[
    ("the_kernels_urgent_data_is_marked_here", &[], from_kernel),
    ("our_urgent_data_is_marked_in_the_kernel", &[], to_kernel),
];

fn connected(net: &Net) -> (blocking::TcpStream, std::net::TcpStream) {
    let (listener, at) = kernel_listener();
    let accepted = thread::spawn(move || listener.accept().expect("our stack connects").0);
    let ours = blocking::TcpStream::connect_timeout(net, at, SOON).expect("it listens");
    ours.set_read_timeout(Some(SOON)).expect("not zero");
    let theirs = accepted.join().expect("it accepted");
    theirs.set_read_timeout(Some(SOON)).expect("not zero");
    (ours, theirs)
}

fn from_kernel() {
    let (net, driver) = Net::spawn_thread(stack().0).expect("the thread starts");
    let (mut ours, mut theirs) = connected(&net);
    theirs.write_all(b"before").expect("open");
    assert_eq!(SockRef::from(&theirs).send_out_of_band(b"now!").expect("open"), 4);
    theirs.write_all(b"behind").expect("open");
    assert_eq!(ours.wait_urgent().expect("open"), 10);
    let mut into = [0; 64];
    let mut got = Vec::new();
    while !ours.at_mark().expect("open") {
        let n = ours.read(&mut into).expect("data");
        got.extend_from_slice(&into[..n]);
    }
    assert_eq!(got, b"beforenow");
    assert_eq!(ours.urgent_pending().expect("open"), 1);
    ours.read_exact(&mut into[..7]).expect("data");
    assert_eq!(&into[..7], b"!behind");
    assert_eq!(ours.urgent_pending().expect("open"), 0);
    drop((ours, theirs));
    driver.stop().expect("it did not panic");
}

fn to_kernel() {
    let (net, driver) = Net::spawn_thread(stack().0).expect("the thread starts");
    let (mut ours, mut theirs) = connected(&net);
    SockRef::from(&theirs).set_out_of_band_inline(true).expect("any socket");
    ours.write_all(b"before").expect("open");
    ours.send_urgent(b"now!").expect("open");
    ours.write_all(b"behind").expect("open");
    let mut into = [0; 64];
    let mut got = Vec::new();
    // One read of the kernel ends at the mark.
    while got != b"beforenow" {
        let n = theirs.read(&mut into).expect("data");
        got.extend_from_slice(&into[..n]);
        assert!(b"beforenow".starts_with(&got), "read past the mark: {got:?}");
    }
    theirs.read_exact(&mut into[..7]).expect("data");
    assert_eq!(&into[..7], b"!behind");
    drop((ours, theirs));
    driver.stop().expect("it did not panic");
}
