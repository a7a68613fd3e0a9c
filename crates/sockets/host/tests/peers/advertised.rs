//! Router advertisements to the kernel's own autoconfiguration, and to rdisc6. RFC 4861, RFC 8106.

use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::sync::{Arc, Mutex};

use base::{Duration, Instant, KeyedHash, MacAddr};
use socket2::{Domain, Protocol, Socket, Type};
use testbed::{Case, Need};
use wirespeed_host::ra::{ALL_ROUTERS, Config, HOP_LIMIT, Prefix, Router};

use crate::link::{Link, SOON, Serving};

const RDISC6: Need = Need::Program("rdisc6", "ndisc6");

pub(crate) const CASES: &[Case] = &[
    ("the_kernel_configures_itself_and_forgets_the_router_at_once", &[], kernel),
    ("rdisc6_reads_our_advertisement", &[RDISC6], rdisc6),
];

const SOURCE: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

/// The router, and the time that its thread has last seen.
struct Served {
    router: Router,
    now: Instant,
}

fn router() -> Arc<Mutex<Served>> {
    let network = "fd00:1:2:3::".parse().expect("a network");
    let config = Config {
        mtu: Some(1_400),
        dns_servers: vec!["fd00:1:2:3::3".parse().expect("an address")],
        search: vec!["mill.example".to_owned()],
        router_lifetime: Duration::from_secs(9_000),
        ..Config::new(SOURCE, MacAddr([2, 0, 0, 0, 0, 9]), Prefix::new(network, 64))
    };
    let now = Instant::ZERO + Duration::from_secs(1);
    let router = Router::new(config, KeyedHash::new(1, 2), now).expect("a good configuration");
    Arc::new(Mutex::new(Served { router, now }))
}

/// The index of an interface of this namespace.
fn index_of(name: &str) -> u32 {
    let output = std::process::Command::new("ip").args(["-o", "link", "show", name]).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let text = text.expect("ip runs");
    text.split(':').next().and_then(|index| index.trim().parse().ok()).expect("an index")
}

fn serve(served: Arc<Mutex<Served>>) -> Serving {
    let socket = Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::ICMPV6)).expect("root's");
    socket.bind_device(Some(b"ws0")).expect("root binds to a device");
    socket.set_nonblocking(true).expect("a socket");
    socket.set_multicast_hops_v6(HOP_LIMIT.into()).expect("a socket");
    socket.set_unicast_hops_v6(HOP_LIMIT.into()).expect("a socket");
    let index = index_of("ws0");
    socket.join_multicast_v6(&ALL_ROUTERS, index).expect("a group");
    // Its calls are those of a raw socket too.
    let socket = UdpSocket::from(socket);
    Serving::start(move |now| {
        let mut served = served.lock().expect("no panic");
        served.now = now;
        let mut bytes = [0; 1_500];
        let mut is_busy = false;
        if let Ok((length, SocketAddr::V6(from))) = socket.recv_from(&mut bytes) {
            let text = &bytes[..length];
            // The kernel has checked the checksum; other messages are for other programs.
            if text.first() == Some(&133) {
                served.router.receive(now, *from.ip(), HOP_LIMIT, text).expect("a good one");
            }
            is_busy = true;
        }
        while let Some(sent) = served.router.poll(now) {
            let to = SocketAddrV6::new(sent.destination, 0, 0, index);
            socket.send_to(&sent.message, to).expect("sent");
        }
        is_busy
    })
}

fn kernel() {
    let (link, served) = (Link::new("kernel-ra"), router());
    let _serving = serve(served.clone());
    let address = || link.run("ip -6 addr show dev eth0 scope global");
    let has = || address().contains("fd00:1:2:3:") && !address().contains("tentative");
    assert!(testbed::until(SOON, has), "{}", address());
    let route = || link.run("ip -6 route show default");
    assert!(route().contains("via fe80::1 dev eth0"), "{}", route());
    assert!(route().contains("mtu 1400"), "{}", route());
    let mut now = served.lock().expect("no panic").now;
    let mut set = |seconds| {
        let mut served = served.lock().expect("no panic");
        now = served.now;
        served.router.set_lifetime(Duration::from_secs(seconds), now).expect("allowed");
    };
    set(0);
    assert!(testbed::until(SOON, || route().is_empty()), "{}", route());
    assert!(address().contains("fd00:1:2:3:"), "addresses stay");
    set(600);
    assert!(testbed::until(SOON, || route().contains("via fe80::1")), "{}", route());
    let mut served = served.lock().expect("no panic");
    let now = served.now;
    served.router.stop(now);
    drop(served);
    assert!(testbed::until(SOON, || route().is_empty()), "{}", route());
}

fn rdisc6() {
    let (link, served) = (Link::new("rdisc6"), router());
    let _serving = serve(served);
    let usable = || {
        let text = link.run("ip -6 addr show dev eth0 scope link");
        text.contains("fe80::") && !text.contains("tentative")
    };
    assert!(testbed::until(SOON, usable));
    let printed = link.run("rdisc6 -1 -w 3000 eth0");
    let words = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    for text in [
        "Hop limit : 64",
        "Router lifetime : 9000",
        "Source link-layer address: 02:00:00:00:00:09",
        "MTU : 1400 bytes",
        "Prefix : fd00:1:2:3::/64",
        "On-link : Yes",
        "Autonomous address conf.: Yes",
        "Valid time : infinite (0xffffffff)",
        "Recursive DNS server : fd00:1:2:3::3",
        "DNS search list : mill.example",
        "from fe80::1",
    ] {
        assert!(words.contains(text), "{text} in {words}");
    }
}
