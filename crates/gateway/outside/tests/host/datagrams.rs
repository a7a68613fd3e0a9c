//! Datagrams and echoes to servers of the kernel, and the errors of the network about them.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use base::Owner;
use gateway::{Outgoing, Outside, Problem, Ready, SessionKey, Token};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use stack::{Echo, EchoError, ErrorKind, PingHandle, UdpErrorReport, UdpHandle, Unreachable};
use testbed::Namespace;
use wirespeed_outside::{Host, Wake};

use crate::world::{GUEST, SERVER, SERVER_V6, World, at, set_up};

pub(crate) const CASES: &[testbed::Case] = &[
    ("a datagram and its answer, of both versions, from the guest's own port", &[], answers),
    ("a port that the host uses is replaced", &[], other_port),
    ("bursts keep their datagrams, sizes and order both ways", &[], bursts),
    ("segments of a guest leave in their order, and nothing is lost at a close", &[], segments),
    ("datagrams of 20,000 bytes go both ways", &[], large),
    ("the TTL and the type of service arrive at both ends", &[], ttl_and_tos),
    ("a port where nobody is: the guest hears of it, other peers go on", &[], no_port),
    ("a network without a route: the guest hears of it at once", &[], no_route),
    ("an echo comes back with its sequence number and bytes", &[], echoes),
    ("without permission there are no echoes, and one sentence says so", &[], no_echoes),
    ("a TTL of 1 shows the router, for datagrams and echoes", &[], routers),
    ("a path of small packets is reported with its MTU", &[], small_path),
];

fn server(ip: &str) -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind(at(ip, 0)).expect("a free port");
    let address = socket.local_addr().expect("it is bound");
    socket.set_nonblocking(true).expect("a socket");
    (socket, address)
}

/// Receive at a server.
#[track_caller]
fn take(world: &mut World, server: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut into = vec![0; 65_536];
    let mut got = None;
    world.until(|_| {
        got = server.recv_from(&mut into).ok();
        got.is_some()
    });
    let (bytes, from) = got.expect("it has come");
    into.truncate(bytes);
    (into, from)
}

/// Receive at the guest.
#[track_caller]
fn receive(world: &mut World, socket: UdpHandle) -> (Vec<u8>, SocketAddr) {
    let mut got = None;
    world.until(|w| {
        got = w.guest.udp_receive(socket);
        got.is_some()
    });
    let got = got.expect("it has come");
    let bytes = got.payload.as_slice().to_vec();
    world.guest.give_back(got.payload);
    (bytes, got.from)
}

fn send(world: &mut World, socket: UdpHandle, to: SocketAddr, payload: &[u8]) {
    let now = world.now();
    world.guest.udp_send(socket, to, payload, now).expect("there is a route");
}

/// The next error at a socket of the guest.
#[track_caller]
fn error(world: &mut World, socket: UdpHandle) -> UdpErrorReport {
    let mut all = Vec::new();
    world.until(|w| {
        all = w.guest.udp_take_errors(socket);
        !all.is_empty()
    });
    all.remove(0)
}

fn bind(world: &mut World, port: u16) -> UdpHandle {
    bind_at(world, at("0.0.0.0", port))
}

fn bind_at(world: &mut World, own: SocketAddr) -> UdpHandle {
    let socket = world.guest.udp_bind(own, Owner::program()).expect("a free port");
    let mut options = world.guest.udp_options(socket).expect("it is open");
    options.error_queue = true;
    world.guest.udp_set_options(socket, options).expect("it is open");
    socket
}

fn answers() {
    set_up();
    let mut world = World::new();
    for ip in [SERVER, SERVER_V6] {
        let (server, to) = server(ip);
        let any = if to.is_ipv4() { at("0.0.0.0", 5_555) } else { at("::", 5_556) };
        let socket = bind_at(&mut world, any);
        for payload in [&b"question"[..], b"", b"another"] {
            send(&mut world, socket, to, payload);
            let (got, from) = take(&mut world, &server);
            assert_eq!((got.as_slice(), from.ip()), (payload, to.ip()));
            assert!(matches!(from.port(), 5_555 | 5_556), "{from}");
            server.send_to(payload, from).expect("a way back");
            assert_eq!(receive(&mut world, socket), (payload.to_vec(), to));
        }
        // Nobody else gets in.
        let stranger = UdpSocket::bind(at(ip, 0)).expect("a free port");
        let own = SocketAddr::new(to.ip(), if to.is_ipv4() { 5_555 } else { 5_556 });
        stranger.send_to(b"hello", own).expect("it is bound");
        world.until(|w| w.engine.counts().datagrams_filtered == 1 + u64::from(to.is_ipv6()));
    }
    assert_eq!(world.engine.session_counts(), (2, 0));
}

fn other_port() {
    set_up();
    let mut world = World::new();
    let _used = UdpSocket::bind("0.0.0.0:5555").expect("a free port");
    let (server, to) = server(SERVER);
    let socket = bind(&mut world, 5_555);
    send(&mut world, socket, to, b"question");
    let (_, from) = take(&mut world, &server);
    assert_ne!(from.port(), 5_555);
    server.send_to(b"answer", from).expect("a way back");
    assert_eq!(receive(&mut world, socket), (b"answer".to_vec(), to));
}

/// Datagrams of these sizes, each with its own bytes.
fn datagrams(sizes: &[usize]) -> Vec<Vec<u8>> {
    sizes.iter().enumerate().map(|(n, &size)| vec![n as u8; size]).collect()
}

fn bursts() {
    set_up();
    let mut world = World::new();
    let (server, to) = server(SERVER);
    let (other, elsewhere) = self::server(SERVER);
    let socket = bind(&mut world, 5_555);
    // Of one size, then a shorter one, then longer ones, an empty one, and again; as many as the
    // server's buffer takes.
    let mut sizes = vec![1_200; 40];
    sizes.extend([700, 1_000, 1_001, 0, 1, 1, 1]);
    sizes.extend([64; 70]);
    let all = datagrams(&sizes);
    for round in 0..3 {
        for one in &all {
            send(&mut world, socket, to, one);
        }
        send(&mut world, socket, elsewhere, b"elsewhere");
        let mut from = to;
        for (n, one) in all.iter().enumerate() {
            let (got, source) = take(&mut world, &server);
            assert_eq!((got.len(), &got), (one.len(), one), "datagram {n} of round {round}");
            from = source;
        }
        assert_eq!(take(&mut world, &other).0, b"elsewhere");
        for one in &all {
            server.send_to(one, from).expect("a way back");
        }
        for (n, one) in all.iter().enumerate() {
            let (got, source) = receive(&mut world, socket);
            assert_eq!((got.len(), &got), (one.len(), one), "answer {n} of round {round}");
            assert_eq!(source, to);
        }
    }
    let counts = world.host.counts();
    assert!(counts.segmented_sends > 3, "{counts:?}");
    assert_eq!(counts.gathered_not_sent, 0);
}

fn segments() {
    set_up();
    let (server, to) = server(SERVER);
    let mut host = Host::new(1).expect("a descriptor");
    let key = SessionKey::Udp(at(GUEST, 5_555));
    let mut socket = host.open(Token(2), &key).expect("a free port");
    let big: Vec<u8> = (0..10_000_u32).map(|n| (n / 3) as u8).collect();
    let (first, more) = ((&b"first"[..], 0), (&b"gathered"[..], 0));
    for (payload, segment_size) in [first, more, (&big, 1_000), more, (&big, 9_999), more] {
        let what = Outgoing { to, ttl: 64, tos: 0, seq: 0, segment_size, payload };
        host.send(&mut socket, &what).expect("a route");
    }
    host.close(socket);
    let mut into = [0; 65_536];
    let mut expected: Vec<&[u8]> = vec![b"first", b"gathered"];
    expected.extend(big.chunks(1_000));
    expected.push(b"gathered");
    expected.extend(big.chunks(9_999));
    expected.push(b"gathered");
    for one in expected {
        let (len, _) = server.recv_from(&mut into).expect("it is there already");
        assert!(into[..len] == *one, "{len} bytes, not {}", one.len());
    }
}

fn large() {
    set_up();
    let mut world = World::new();
    let (server, to) = server(SERVER);
    let socket = bind(&mut world, 5_555);
    let payload: Vec<u8> = (0..20_000_u32).map(|n| (n / 7) as u8).collect();
    for _ in 0..3 {
        send(&mut world, socket, to, &payload);
        let (got, from) = take(&mut world, &server);
        assert!(got == payload, "other bytes");
        server.send_to(&payload, from).expect("a way back");
        assert!(receive(&mut world, socket).0 == payload, "other bytes");
    }
}

fn ttl_and_tos() {
    use std::os::fd::AsRawFd;
    set_up();
    let mut world = World::new();
    let (server, to) = server(SERVER);
    setsockopt(&server, sockopt::Ipv4RecvTtl, &true).expect("a socket");
    setsockopt(&server, sockopt::IpRecvTos, &true).expect("a socket");
    let socket = bind(&mut world, 5_555);
    for (ttl, tos) in [(64, 0), (33, 0), (33, 0xb8), (64, 0)] {
        let ip = world.guest.udp_ip_mut(socket).expect("it is open");
        (ip.ttl, ip.tos) = (ttl, tos);
        send(&mut world, socket, to, b"question");
        let mut told = (0, 0);
        world.until(|_| {
            let (mut into, mut control) = ([0; 64], vec![0; 256]);
            let mut parts = [std::io::IoSliceMut::new(&mut into)];
            let got = recvmsg::<nix::sys::socket::SockaddrStorage>(
                server.as_raw_fd(),
                &mut parts,
                Some(&mut control),
                MsgFlags::MSG_DONTWAIT,
            );
            let Ok(got) = got else { return false };
            for message in got.cmsgs().expect("room") {
                match message {
                    ControlMessageOwned::Ipv4Ttl(n) => told.0 = n as u8,
                    ControlMessageOwned::Ipv4Tos(n) => told.1 = n,
                    _ => {}
                }
            }
            true
        });
        assert_eq!(told, (ttl, tos));
    }
    // Towards the guest, whose sockets do not show it: ask the outside itself.
    server.set_ttl(77).expect("a socket");
    let mut host = Host::new(1).expect("a descriptor");
    let key = SessionKey::Udp(at(GUEST, 5_557));
    let mut socket = host.open(Token(2), &key).expect("a free port");
    server.send_to(b"answer", at(SERVER, 5_557)).expect("it is bound");
    assert_eq!(wait(&mut host), [Wake::Outside(Token(2), Ready::READABLE)]);
    let got = host.receive(&mut socket, &mut [0; 64]).expect("it has come");
    assert_eq!((got.bytes, got.ttl, got.from), (6, 77, to));
}

/// Wait for the host alone.
#[track_caller]
fn wait(host: &mut Host) -> Vec<Wake> {
    let now = base::Instant::ZERO;
    host.wait(now, now + base::Duration::from_secs(10)).expect("the descriptors are ours");
    core::iter::from_fn(|| host.next_wake()).collect()
}

fn no_port() {
    set_up();
    let mut world = World::new();
    let (server, to) = server(SERVER);
    let socket = bind(&mut world, 5_555);
    let socket_v6 = bind_at(&mut world, at("::", 5_556));
    for ip in [SERVER, SERVER_V6, SERVER] {
        let nobody = at(ip, 1);
        let socket = if nobody.is_ipv4() { socket } else { socket_v6 };
        send(&mut world, socket, nobody, b"anybody?");
        let report = error(&mut world, socket);
        assert_eq!(report.kind, ErrorKind::Unreachable(Unreachable::Port));
        assert_eq!((report.remote, report.from), (nobody, nobody.ip()));
        assert_eq!(report.payload_len, 8);
    }
    let nobody = at(SERVER, 1);
    // Errors that are not read yet are nothing for others: both leave in one turn.
    send(&mut world, socket, nobody, b"anybody?");
    for payload in [b"one", b"two"] {
        send(&mut world, socket, to, payload);
    }
    assert_eq!(take(&mut world, &server).0, b"one");
    assert_eq!(take(&mut world, &server).0, b"two");
    error(&mut world, socket);
    // Nor for what is received: an error and an answer wait together, and the first call after
    // them fails once.
    send(&mut world, socket, to, b"question");
    let (_, from) = take(&mut world, &server);
    send(&mut world, socket, nobody, b"anybody?");
    world.turn(Duration::ZERO);
    server.send_to(b"answer", from).expect("a way back");
    assert_eq!(receive(&mut world, socket).0, b"answer");
    error(&mut world, socket);
    assert_eq!(world.engine.session_counts(), (2, 0));
    assert_eq!(world.engine.counts().datagrams_not_sent, 0);
}

fn no_route() {
    set_up();
    assert!(testbed::ip("route add prohibit 192.0.2.0/24"));
    let mut world = World::new();
    let socket = bind(&mut world, 5_555);
    let socket_v6 = bind_at(&mut world, at("::", 5_556));
    for (to, why) in [
        ("198.18.0.1", Unreachable::Net),
        ("192.0.2.1", Unreachable::Prohibited),
        ("2001:db8:9::1", Unreachable::Net),
    ] {
        let socket = if to.contains(':') { socket_v6 } else { socket };
        send(&mut world, socket, at(to, 9), b"question");
        assert_eq!(error(&mut world, socket).kind, ErrorKind::Unreachable(why));
    }
    assert_eq!(world.engine.counts().datagrams_not_sent, 3);
}

fn permit_echoes() {
    let file = "/proc/sys/net/ipv4/ping_group_range";
    std::fs::write(file, "0 2147483647").expect("root in a namespace of its own");
}

fn ping(world: &mut World, to: &str, seq: u16, payload: &[u8]) -> PingHandle {
    let socket = world.guest.ping_open(Owner::program()).expect("room for a socket");
    let now = world.now();
    let to = to.parse().expect("an address");
    world.guest.ping_send(socket, to, seq, payload, now).expect("there is a route");
    socket
}

#[track_caller]
fn echo(world: &mut World, socket: PingHandle) -> Echo {
    let mut got = None;
    world.until(|w| {
        got = w.guest.ping_receive(socket);
        got.is_some()
    });
    got.expect("it has come")
}

fn echoes() {
    set_up();
    permit_echoes();
    let mut world = World::new();
    for ip in [SERVER, SERVER_V6] {
        for (seq, payload) in [(1, vec![5; 56]), (65_535, vec![]), (7, vec![9; 1_000])] {
            let socket = ping(&mut world, ip, seq, &payload);
            let echo = echo(&mut world, socket);
            assert_eq!((echo.seq, echo.ttl), (seq, 64));
            assert_eq!(echo.from.to_string(), ip);
            let got = echo.outcome.expect("a reply");
            assert_eq!(got.as_slice(), payload);
            world.guest.give_back(got);
            world.guest.ping_close(socket);
        }
    }
    assert_eq!(world.engine.session_counts(), (0, 6));
    assert_eq!(world.host.take_notice(), None);
}

fn no_echoes() {
    set_up();
    let mut world = World::new();
    for _ in 0..2 {
        let socket = ping(&mut world, SERVER, 1, b"hello");
        let echo = echo(&mut world, socket);
        let error = echo.outcome.err();
        assert_eq!(error, Some(EchoError::Unreachable(Unreachable::Prohibited)));
    }
    let notice = world.host.take_notice().expect("the user has to know");
    assert!(notice.contains("net.ipv4.ping_group_range"), "{notice}");
    assert_eq!(world.host.take_notice(), None);
}

/// A router at 192.0.2.1 and 2001:db8:1::1 in a namespace of its own, with the networks
/// 203.0.113.0/24 and 2001:db8:2::/64 behind it.
fn router() -> Namespace {
    let router = Namespace::new().expect("it could be made a moment ago");
    let name = router.name();
    assert!(testbed::ip(&format!("link add out type veth peer name in netns {name}")));
    for arguments in [
        "address add 192.0.2.2/24 dev out",
        "address add 2001:db8:1::2/64 dev out nodad",
        "link set out up",
        "link set lo up",
    ] {
        assert!(testbed::ip(arguments), "{arguments}");
    }
    for arguments in [
        "address add 192.0.2.1/24 dev in",
        "address add 2001:db8:1::1/64 dev in nodad",
        "link set in up",
        "link set lo up",
        "link add far type veth peer name away",
        "address add 203.0.113.1/24 dev far",
        "address add 2001:db8:2::1/64 dev far nodad",
        "neighbour add 203.0.113.9 lladdr 02:00:00:00:00:09 dev far",
        "neighbour add 2001:db8:2::9 lladdr 02:00:00:00:00:09 dev far",
        "link set far up",
        "link set away up",
    ] {
        assert!(router.ip(arguments), "{arguments}");
    }
    let forward = || {
        let set = |name: &str, value| std::fs::write(format!("/proc/sys/net/{name}"), value);
        // Its errors have no limit.
        set("ipv4/icmp_ratelimit", "0")?;
        set("ipv6/icmp/ratelimit", "0")?;
        set("ipv6/conf/all/forwarding", "1")?;
        set("ipv4/ip_forward", "1")
    };
    router.inside(forward).expect("no panic").expect("root in a namespace of its own");
    assert!(testbed::ip("route add 203.0.113.0/24 via 192.0.2.1"));
    assert!(testbed::ip("-6 route add 2001:db8:2::/64 via 2001:db8:1::1"));
    // The kernel adds routes to its own addresses of IPv6 a little later.
    let reaches = || {
        let Ok(socket) = UdpSocket::bind(at("2001:db8:1::2", 0)) else { return false };
        socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a socket");
        // The router says that nobody is there.
        let to = at("2001:db8:1::1", 9);
        let sent = socket.connect(to).and_then(|()| socket.send(b"anybody?"));
        let heard = sent.and_then(|_| socket.recv(&mut [0]));
        heard.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
    };
    assert!(testbed::until(Duration::from_secs(10), reaches), "no route to the router");
    router
}

fn routers() {
    permit_echoes();
    let _router = router();
    let mut world = World::new();
    for (own, to, router, icmp) in [
        (at("0.0.0.0", 5_555), at("203.0.113.9", 33_434), "192.0.2.1", (11, 0)),
        (at("::", 5_556), at("2001:db8:2::9", 33_434), "2001:db8:1::1", (3, 0)),
    ] {
        let socket = bind_at(&mut world, own);
        world.guest.udp_ip_mut(socket).expect("it is open").ttl = 1;
        send(&mut world, socket, to, b"where?");
        let report = error(&mut world, socket);
        assert_eq!((report.kind, report.remote), (ErrorKind::Transient, to));
        assert_eq!((report.from.to_string().as_str(), report.icmp), (router, Some(icmp)));
        ping_at_one_hop(to, router);
    }
}

/// The guest's sockets for echoes send with one TTL: ask the outside itself.
fn ping_at_one_hop(to: SocketAddr, router: &str) {
    let mut host = Host::new(1).expect("a descriptor");
    let guest = if to.is_ipv4() { GUEST } else { "fd00::100" };
    let key = SessionKey::Echo(at(guest, 0).ip(), 1);
    let mut socket = host.open(Token(2), &key).expect("it is permitted");
    let to = SocketAddr::new(to.ip(), 0);
    let payload = b"where?";
    let what = Outgoing { to, ttl: 1, tos: 0, seq: 77, segment_size: 0, payload };
    host.send(&mut socket, &what).expect("a route");
    assert_eq!(wait(&mut host), [Wake::Outside(Token(2), Ready::ERROR)]);
    let problem = host.take_error(&mut socket).expect("it has come");
    let offender = at(router, 0).ip();
    let expected = Problem { to, seq: 77, error: ErrorKind::Transient, offender, payload_len: 6 };
    assert_eq!(problem, expected);
    assert_eq!(host.take_error(&mut socket), None);
    host.close(socket);
}

fn small_path() {
    let router = router();
    assert!(router.ip("link set far mtu 1300"));
    let mut world = World::new();
    for (own, to) in [
        (at("0.0.0.0", 5_555), at("203.0.113.9", 33_434)),
        (at("::", 5_556), at("2001:db8:2::9", 33_434)),
    ] {
        let socket = bind_at(&mut world, own);
        send(&mut world, socket, to, &[7; 1_400]);
        let report = error(&mut world, socket);
        assert_eq!((report.kind, report.remote), (ErrorKind::TooBig(1_300), to));
        // The host knows the path now, and sends fragments.
        send(&mut world, socket, to, &[7; 1_400]);
        world.turn(Duration::ZERO);
        world.turn(Duration::ZERO);
    }
    assert_eq!(world.engine.counts().datagrams_not_sent, 0);
}
