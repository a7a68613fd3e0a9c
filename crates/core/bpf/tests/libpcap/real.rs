//! Real frames: the traffic of two kernels over a veth, in TCP, UDP, ICMP, ARP and neighbour
//! discovery, including super-segments and unfinished checksums.
//!
//! Called by: `main.rs`. The two hosts are network namespaces.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use device::packet::{Seen, Watch};
use testbed::{Namespace, Need, until};

use crate::shared::Frame;

/// Root is needed, to make network namespaces and to capture.
pub(crate) const ROOT: Need = Need::Other(|| {
    let refused = || "needs root and iproute2: `ip netns add` was refused".to_owned();
    Namespace::new().is_none().then(refused)
});

/// How long a test waits; only a failing test waits so long.
const PATIENCE: Duration = Duration::from_secs(20);
/// The IPv4 and IPv6 addresses of the two hosts.
const HOSTS: [[&str; 2]; 2] = [["10.77.0.1", "fd77::1"], ["10.77.0.2", "fd77::2"]];
/// Requests and replies per TCP connection, and per UDP socket.
const ROUNDS: usize = 60;
/// Enough bytes that the kernel sends super-segments.
const BULK_BYTES: usize = 200_000;

/// The frames at one end of the veth while the two hosts exchange traffic.
pub(crate) fn frames() -> Vec<Frame> {
    let hosts = [(); 2].map(|()| Namespace::new().expect("root makes a namespace"));
    let [near, far] = &hosts;
    assert!(near.ip(&format!("link add va type veth peer name vb netns {}", far.name())));
    for (host, link, [v4, v6]) in [(near, "va", HOSTS[0]), (far, "vb", HOSTS[1])] {
        assert!(host.ip(&format!("addr add {v4}/24 dev {link}")));
        assert!(host.ip(&format!("addr add {v6}/64 dev {link} nodad")));
        assert!(host.ip(&format!("link set {link} up")));
    }
    // The links are up a little later; frames sent before are lost.
    assert!(until(PATIENCE, || is_up(near, "va") && is_up(far, "vb")));
    let mut watch = at(near, || Watch::open("va", true).expect("root captures"));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let watching = scope.spawn(|| collect(&mut watch, &is_over));
        let talked = thread::scope(|scope| scope.spawn(|| talk(near, far)).join());
        // Set the flag also after a panic, or the watching thread would never end.
        is_over.store(true, Ordering::Release);
        let frames = watching.join().expect("the watching thread did not panic");
        if let Err(panic) = talked {
            std::panic::resume_unwind(panic);
        }
        frames
    })
}

fn is_up(host: &Namespace, link: &str) -> bool {
    let shown = Command::new("ip").args(["-n", host.name(), "link", "show", link]).output();
    shown.is_ok_and(|shown| String::from_utf8_lossy(&shown.stdout).contains("state UP"))
}

/// Run `what` on a thread in the host's network namespace.
fn at<T: Send>(host: &Namespace, what: impl FnOnce() -> T + Send) -> T {
    match host.inside(what) {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn collect(watch: &mut Watch, is_over: &AtomicBool) -> Vec<Frame> {
    let copy = |seen: &Seen<'_>| Frame {
        bytes: [seen.front(), seen.rest].concat(),
        wire_len: seen.wire_len as u32,
    };
    let mut frames = Vec::new();
    loop {
        // Read the flag first: frames that were received before it was set are in the ring now.
        let was_over = is_over.load(Ordering::Acquire);
        while let Some(frame) = watch.next(copy) {
            frames.push(frame);
        }
        if was_over {
            return frames;
        }
        thread::sleep(Duration::from_micros(200));
    }
}

fn talk(near: &Namespace, far: &Namespace) {
    for version in [0, 1] {
        let [ours, theirs] = HOSTS.map(|host| host[version].parse().expect("an address"));
        streams(near, far, theirs);
        datagrams(near, far, ours, theirs);
    }
    // Joining a group sends an IGMP report.
    let group = at(near, || UdpSocket::bind("10.77.0.1:0").expect("a port is free"));
    let _ = group.join_multicast_v4(&Ipv4Addr::new(239, 1, 2, 3), &Ipv4Addr::new(10, 77, 0, 1));
    if Need::PING.is_there() {
        for to in HOSTS[1] {
            let _ = near.command("ping").args(["-n", "-c", "3", "-i", "0.2", to]).output();
        }
    }
    // A frame reaches us up to a millisecond after it passed (the block timeout of the ring).
    thread::sleep(Duration::from_millis(100));
}

/// Short requests and replies, then a bulk transfer.
fn streams(near: &Namespace, far: &Namespace, theirs: IpAddr) {
    let to = SocketAddr::new(theirs, 80);
    let listener = at(far, || TcpListener::bind(to).expect("the port is free"));
    let mut client = at(near, || TcpStream::connect(to).expect("the client connects"));
    let (mut server, _) = listener.accept().expect("the server accepts");
    for stream in [&client, &server] {
        stream.set_nodelay(true).expect("the option is set");
        stream.set_read_timeout(Some(PATIENCE)).expect("the option is set");
        stream.set_write_timeout(Some(PATIENCE)).expect("the option is set");
    }
    for round in 0..ROUNDS {
        let mut said = vec![round as u8; 1 + 31 * round];
        client.write_all(&said).expect("the request is sent");
        server.read_exact(&mut said).expect("the request is received");
        server.write_all(b"HTTP/1.1 200 OK\r\n\r\n").expect("the reply is sent");
        client.read_exact(&mut [0; 19]).expect("the reply is received");
    }
    thread::scope(|scope| {
        scope.spawn(|| client.write_all(&vec![7; BULK_BYTES]).expect("the bulk data is sent"));
        server.read_exact(&mut vec![0; BULK_BYTES]).expect("the bulk data is received");
    });
}

/// Requests and replies, and a request to a port without a socket.
fn datagrams(near: &Namespace, far: &Namespace, ours: IpAddr, theirs: IpAddr) {
    let (from, to) = (SocketAddr::new(ours, 40_000), SocketAddr::new(theirs, 53));
    let client = at(near, || UdpSocket::bind(from).expect("the port is free"));
    let server = at(far, || UdpSocket::bind(to).expect("the port is free"));
    for socket in [&client, &server] {
        socket.set_read_timeout(Some(PATIENCE)).expect("the option is set");
    }
    let mut buffer = [0; 2_000];
    for round in 0..ROUNDS {
        client.send_to(&vec![round as u8; 20 * round], to).expect("the datagram is sent");
        let (len, who) = server.recv_from(&mut buffer).expect("the datagram is received");
        server.send_to(&buffer[..len], who).expect("the reply is sent");
        assert_eq!(client.recv(&mut buffer).expect("the reply is received"), len);
    }
    client.connect(SocketAddr::new(theirs, 9)).expect("there is a route");
    client.send(b"is anybody there?").expect("the datagram is sent");
    // The error is ICMP port unreachable.
    assert!(client.recv(&mut buffer).is_err());
}
