//! UDP with the kernel of this machine as the peer: refused datagrams and the error queue,
//! datagrams without a checksum, many datagrams in one call, paths narrower than the link. RFC 1122
//! section 4.1.3.3, RFC 6935, RFC 8899.

use std::io::IoSliceMut;
use std::net::{IpAddr, SocketAddr};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use base::{Counter, DropReason};
use testbed::{Case, Need};
use wirespeed_net::{MtuDiscovery, Net, UdpErrorReport, UdpOptions, blocking};

use crate::ends::{SOON, pattern};
use crate::frag::{Plan, V4, V6};

/// Python sets socket options for which the standard library has no call.
const PYTHON: Need = Need::Program("python3", "python3");

pub(crate) const CASES: &[Case] = &[
    ("the_kernel_refuses_a_datagram_v4", &[], || refused(&V4)),
    ("the_kernel_refuses_a_datagram_v6", &[], || refused(&V6)),
    ("the_kernel_sends_without_a_checksum_over_ipv6", &[PYTHON], kernel_sends_zero),
    ("the_kernel_takes_what_has_no_checksum", &[PYTHON], kernel_takes_zero),
    ("segments_and_rows_pass_the_kernel_v4", &[], || segments(&V4)),
    ("segments_and_rows_pass_the_kernel_v6", &[], || segments(&V6)),
];

fn kernel_socket(plan: &Plan) -> (std::net::UdpSocket, SocketAddr) {
    let socket = std::net::UdpSocket::bind((plan.kernel(), 0)).expect("the kernel's address");
    socket.set_read_timeout(Some(SOON)).expect("not zero");
    let at = socket.local_addr().expect("bound");
    (socket, at)
}

fn our_socket(net: &Net, plan: &Plan, options: UdpOptions) -> blocking::UdpSocket {
    let socket = blocking::UdpSocket::bind(net, SocketAddr::new(plan.ours(), 0)).expect("free");
    socket.set_read_timeout(Some(SOON)).expect("not zero");
    socket.set_options(options).expect("the driver runs");
    socket
}

fn first_error(socket: &blocking::UdpSocket) -> UdpErrorReport {
    let mut found = Vec::new();
    let came = testbed::until(SOON, || {
        found = socket.take_errors().expect("the driver runs");
        !found.is_empty()
    });
    assert!(came, "the kernel's ICMP error did not come in time");
    found.remove(0)
}

/// A connected socket gets the error once. A socket with an error queue also learns which datagram
/// the error is about.
fn refused(plan: &Plan) {
    let (net, driver) = plan.net();
    let closed = kernel_socket(plan).1;
    let connected = our_socket(&net, plan, UdpOptions::default());
    connected.connect(closed).expect("no other peer");
    connected.send(b"hello").expect("sent");
    let mut into = [0; 100];
    let error = connected.recv(&mut into).expect_err("refused");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    let options = UdpOptions { error_queue: true, ..UdpOptions::default() };
    let queued = our_socket(&net, plan, options);
    queued.send_to(b"hello", closed).expect("sent");
    let error = first_error(&queued);
    let code = if plan.kernel().is_ipv4() { (3, 3) } else { (1, 4) };
    assert_eq!((error.icmp, error.from, error.remote), (Some(code), plan.kernel(), closed));
    assert_eq!((&error.payload[..], error.payload_len), (&b"hello"[..], 5));
    // A socket without an error queue gets no error.
    let plain = our_socket(&net, plan, UdpOptions::default());
    plain.send_to(b"hello", closed).expect("sent");
    thread::sleep(Duration::from_millis(50));
    plain.send_to(b"hello", closed).expect("no pending error");
    driver.stop().expect("no panic");
}

/// Run a Python program of a few lines in this namespace.
fn python(program: &str) -> std::process::Child {
    let mut command = Command::new("python3");
    command.args(["-c", program]).stdout(Stdio::piped());
    command.spawn().expect("python3 runs")
}

/// The kernel sends datagrams without a checksum (socket option UDP_NO_CHECK6_TX, 101). Our sockets
/// accept them only if their options say so.
fn kernel_sends_zero() {
    let (net, driver) = V6.net();
    let plain = our_socket(&net, &V6, UdpOptions::default());
    let options = UdpOptions { accepts_zero_checksum: true, ..UdpOptions::default() };
    let asking = our_socket(&net, &V6, options);
    let ports = [&plain, &asking].map(|s| s.local_addr().expect("bound").port());
    let program = format!(
        "import socket\n\
         s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)\n\
         s.setsockopt(17, 101, 1)\n\
         for port in ({}, {}): s.sendto(b'no checksum', ('{}', port))\n",
        ports[0], ports[1], V6.ours
    );
    assert!(python(&program).wait().expect("it ends").success());
    let mut into = [0; 100];
    let (n, _) = asking.recv_from(&mut into).expect("it arrives");
    assert_eq!(&into[..n], b"no checksum");
    let dropped =
        net.with_stack(|s| s.drops().of(DropReason::UdpZeroChecksum)).expect("the driver runs");
    assert_eq!(dropped, 1, "datagrams without a checksum dropped; one socket does not accept them");
    driver.stop().expect("no panic");
}

/// The kernel receives our datagrams without a checksum. Over IPv6 a kernel's socket accepts them
/// only with the option UDP_NO_CHECK6_RX (102).
fn kernel_takes_zero() {
    let (net, driver) = V6.net();
    let options = UdpOptions { no_checksum: true, ..UdpOptions::default() };
    let ours = our_socket(&net, &V6, options);
    let program = format!(
        "import socket, sys\n\
         s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)\n\
         s.setsockopt(17, 102, 1)\n\
         s.bind(('{}', 4242))\n\
         s.settimeout(20)\n\
         print('bound', flush=True)\n\
         sys.exit(0 if s.recv(100) == b'no checksum' else 1)\n",
        V6.kernel
    );
    let mut child = python(&program);
    let mut line = String::new();
    let stdout = child.stdout.take().expect("piped");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).expect("a line");
    assert_eq!(line, "bound\n");
    let (strict, at) = kernel_socket(&V6);
    ours.send_to(b"no checksum", at).expect("sent");
    ours.send_to(b"no checksum", SocketAddr::new(V6.kernel(), 4242)).expect("sent");
    assert!(
        child.wait().expect("it ends").success(),
        "the kernel's socket with the option did not receive the datagram"
    );
    strict.set_nonblocking(true).expect("it can");
    assert!(
        strict.recv(&mut [0; 100]).is_err(),
        "the kernel's socket without the option received a datagram"
    );
    driver.stop().expect("no panic");
}

/// Many datagrams in one call, sent and received.
fn segments(plan: &Plan) {
    let (net, driver) = plan.net();
    let options = UdpOptions { coalesces: true, ..UdpOptions::default() };
    let ours = our_socket(&net, plan, options);
    let (kernel, at) = kernel_socket(plan);
    let data = pattern(20_000);
    // A neighbour's pending queue takes three packets only. So the first datagram finds the
    // neighbour's link address.
    ours.send_to(b"first", at).expect("sent");
    assert_eq!(kernel.recv(&mut [0; 100]).expect("it arrives"), 5);
    assert_eq!(ours.send_segments(&data, 1_200, at).expect("sent"), data.len());
    let mut into = vec![0; 70_000];
    for part in data.chunks(1_200) {
        let (n, from) = kernel.recv_from(&mut into).expect("it arrives");
        assert!(&into[..n] == part, "{n} bytes of {}", part.len());
        kernel.send_to(part, from).expect("sent");
    }
    let (mut back, mut calls) = (Vec::new(), 0);
    while back.len() < data.len() {
        let mut bufs = [IoSliceMut::new(&mut into)];
        let mut received = Vec::new();
        assert_eq!(ours.recv_many(&mut bufs, &mut received).expect("it arrives"), 1);
        let one = received[0];
        assert_eq!((one.from, one.to.ip()), (at, plan.ours()));
        back.extend_from_slice(&into[..one.len]);
        calls += 1;
    }
    assert!(back == data);
    let joined =
        net.with_stack(|s| s.counters().of(Counter::UdpCoalesced)).expect("the driver runs");
    println!("17 datagrams in {calls} calls, {joined} joined");
    assert_eq!(joined as usize + calls, 17);
    // A segment that is larger than the link's MTU is refused, not fragmented.
    let error = ours.send_segments(&data, 1_500, at).expect_err("too large");
    assert_eq!(error.raw_os_error(), Some(90), "EMSGSIZE");
    let options = UdpOptions { mtu_discovery: MtuDiscovery::Do, ..options };
    ours.set_options(options).expect("the driver runs");
    let error = ours.send_to(&data[..3_000], at).expect_err("too large");
    assert_eq!(error.raw_os_error(), Some(90), "EMSGSIZE");
    assert_eq!(ours.path_mtu(at).expect("routed").bytes(), 1_500);
    // The source may be the address to which a request was sent. It may not be an address that the
    // stack does not have.
    ours.send_from(b"1", plan.ours(), at).expect("sent");
    let other: IpAddr = plan.kernel();
    let error = ours.send_from(b"1", other, at).expect_err("not ours");
    assert_eq!(error.kind(), std::io::ErrorKind::AddrNotAvailable);
    driver.stop().expect("no panic");
}
