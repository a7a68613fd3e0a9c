//! The guest behind a WireGuard tunnel. The peer is not ours: crate boringtun's protocol in a
//! thread, in front of an interface of the kernel, whose address has the servers.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use base::LinkKind;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use boringtun::noise::{Tunn, TunnResult};
use boringtun::x25519::{PublicKey, StaticSecret};
use device::Device;
use device::tap::{Config, Setup, Tap};
use gateway::{Ends, Failure, Outside, Token};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use stack::Unreachable;
use testbed::Need;
use wirespeed_outside::{Tunnel, TunnelConfig};

use crate::via::refused;
use crate::world::{GUEST, SERVER, World, at, set_up};

pub(crate) const CASES: &[testbed::Case] = &[
    ("a tunnel carries connections, datagrams and echoes of both versions", &[TUN], carries),
    ("a tunnel follows a peer that moves", &[TUN], moves),
    ("a tunnel whose peer is silent, and an address behind no peer", &[], fails),
];

/// An interface for the peer.
const TUN: Need = Need::Other(|| {
    let there = std::fs::File::options().read(true).write(true).open("/dev/net/tun").is_ok();
    (!there).then(|| "/dev/net/tun cannot be opened".to_owned())
});

/// The peer's addresses in the tunnel.
const PEER: &str = "10.9.0.1";
const PEER_V6: &str = "fd09::1";
const PORT: u16 = 51_820;

fn keys(seed: u8) -> (StaticSecret, PublicKey) {
    let secret = StaticSecret::from([seed; 32]);
    let public = PublicKey::from(&secret);
    (secret, public)
}

fn text(key: impl AsRef<[u8]>) -> String {
    STANDARD.encode(key)
}

/// Open our end of the tunnel.
fn open(world: &mut World, peer: &PublicKey, patience: Option<Duration>) {
    let own = text(keys(1).0.to_bytes());
    let file = format!(
        "[Interface]\nPrivateKey={own}\nAddress=10.9.0.2/24,fd09::2/64\n[Peer]\nPublicKey={}\n\
         AllowedIPs=10.9.0.0/24,fd09::/64\nEndpoint={SERVER}:{PORT}\n",
        text(peer.as_bytes())
    );
    let config = TunnelConfig::parse(&file).expect("it is right");
    let endpoints = config.resolve().expect("an address");
    let clock = Box::new(world.clock());
    let mut tunnel = Tunnel::open(&config, &endpoints, [5, 6], clock).expect("sockets");
    patience.into_iter().for_each(|patience| tunnel.set_patience(patience.into()));
    world.host.set_tunnel(tunnel).expect("an epoll");
}

/// What the peer does.
const RUNS: u8 = 0;
/// It goes on from another port.
const MOVES: u8 = 1;
const ENDS: u8 = 2;

/// A peer in a thread, which ends with this.
struct Peer(Arc<AtomicU8>, Option<std::thread::JoinHandle<()>>);

impl Drop for Peer {
    fn drop(&mut self) {
        self.0.store(ENDS, Ordering::Relaxed);
        self.1.take().into_iter().for_each(|thread| drop(thread.join()));
    }
}

impl Peer {
    fn begin() -> Peer {
        let config =
            Config { name: Some("wg0".to_owned()), link: LinkKind::Ip, ..Config::default() };
        let mut tap =
            Tap::open(&Config { vnet_hdr: false, io_uring: false, ..config }).expect("TUN");
        let addresses = [format!("{PEER}/24"), format!("{PEER_V6}/64")];
        let addresses = addresses.map(|text| text.parse().expect("an address")).to_vec();
        let mtu = base::Mtu::new(1_420);
        tap.configure(&Setup { addresses, mtu, up: true, ..Setup::default() }).expect("rights");
        let order = Arc::new(AtomicU8::new(RUNS));
        let own = order.clone();
        Peer(order, Some(std::thread::spawn(move || run(&tap, &own))))
    }
}

struct Running {
    fd: OwnedFd,
    socket: UdpSocket,
    tunn: Tunn,
    endpoint: Option<SocketAddr>,
    out: Vec<u8>,
}

impl Running {
    /// Do what the protocol says; `true` if there may be more of it.
    fn act(&mut self, packet: Option<&[u8]>, datagram: &[u8]) -> bool {
        let result = match packet {
            Some(packet) => self.tunn.encapsulate(packet, &mut self.out),
            None => self.tunn.decapsulate(None, datagram, &mut self.out),
        };
        match result {
            TunnResult::WriteToNetwork(datagram) => {
                // The kernel has something to say before we do.
                if let Some(to) = self.endpoint {
                    let _ = self.socket.send_to(datagram, to);
                }
                packet.is_none()
            }
            TunnResult::WriteToTunnelV4(packet, _) | TunnResult::WriteToTunnelV6(packet, _) => {
                let _ = rustix::io::write(&self.fd, packet);
                false
            }
            _ => false,
        }
    }
}

fn run(tap: &Tap, order: &AtomicU8) {
    let fd = tap.as_fd().expect("it is open").try_clone_to_owned().expect("room");
    let socket = UdpSocket::bind(at(SERVER, PORT)).expect("a free port");
    let tunn = Tunn::new(keys(2).0, keys(1).1, None, None, 7, None);
    let mut own = Running { fd, socket, tunn, endpoint: None, out: vec![0; 65_536] };
    let mut bytes = vec![0; 65_536];
    while order.load(Ordering::Relaxed) != ENDS {
        if order.swap(RUNS, Ordering::Relaxed) == MOVES {
            own.socket = UdpSocket::bind(at(SERVER, PORT + 1)).expect("a free port");
        }
        let soon = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
        let mut asked =
            [PollFd::new(&own.socket, PollFlags::IN), PollFd::new(&own.fd, PollFlags::IN)];
        let _ = poll(&mut asked, Some(&soon));
        let [udp, tun] = asked.map(|fd| fd.revents().contains(PollFlags::IN));
        if udp && let Ok((len, from)) = own.socket.recv_from(&mut bytes) {
            own.endpoint = Some(from);
            let mut more = own.act(None, &bytes[..len]);
            while more {
                more = own.act(None, &[]);
            }
        }
        if tun && let Ok(len) = rustix::io::read(&own.fd, &mut bytes[..]) {
            own.act(Some(&bytes[..len]), &[]);
        }
    }
}

/// Talk to a server of the peer's, which sends back what it gets.
fn talk(world: &mut World, ip: &str, bytes: &[u8]) {
    let listener = TcpListener::bind(at(ip, 0)).expect("a free port");
    let to = listener.local_addr().expect("it listens");
    let serve = move || {
        let (mut stream, from) = listener.accept().expect("it comes");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("an end");
        stream.write_all(&all).expect("it is open");
        from
    };
    let served = std::thread::spawn(serve);
    let client = world.open(to);
    let mut left = bytes;
    world.until(|w| {
        while let Ok(count) = w.guest.tcp_write(client, left) {
            left = &left[count..];
            if left.is_empty() {
                return true;
            }
        }
        false
    });
    world.guest.tcp_shutdown_write(client);
    assert!(world.read(client, bytes.len() + 1) == bytes, "other bytes came back");
    world.guest.tcp_close(client);
    let from = served.join().expect("it was served").ip().to_string();
    assert!(["10.9.0.2", "fd09::2"].contains(&&*from), "{from}");
}

fn carries() {
    set_up();
    let _peer = Peer::begin();
    let mut world = World::new();
    open(&mut world, &keys(2).1, None);
    let bytes: Vec<u8> = (0..2_000_000_u32).map(|n| (n >> 3) as u8).collect();
    for ip in [PEER, PEER_V6] {
        talk(&mut world, ip, &bytes);
    }
    world.until(|w| w.is_empty());
    // Datagrams: one with an answer, one to a port where nobody is.
    let server = UdpSocket::bind(at(PEER, 0)).expect("a free port");
    let to = server.local_addr().expect("it is bound");
    let own = world.guest.udp_bind(at("0.0.0.0", 5_555), base::Owner::program()).expect("free");
    let now = world.now();
    world.guest.udp_send(own, to, b"hello", now).expect("a route");
    server.set_nonblocking(true).expect("a socket");
    let mut bytes = [0; 16];
    let mut got = None;
    world.until(|_| {
        got = server.recv_from(&mut bytes).ok();
        got.is_some()
    });
    let (_, from) = got.expect("it has come");
    assert_eq!(from.ip(), at("10.9.0.2", 0).ip());
    server.send_to(b"answer", from).expect("it is open");
    world.until(|w| w.guest.udp_readable(own));
    world.guest.udp_send(own, at(PEER, 9), b"hello", now).expect("a route");
    let mut error = None;
    world.until(|w| {
        error = w.guest.udp_take_error(own);
        error.is_some()
    });
    assert_eq!(error, Some((at(PEER, 9), Unreachable::Port)));
    let ping = world.guest.ping_open(base::Owner::program()).expect("room");
    world.guest.ping_send(ping, at(PEER, 0).ip(), 3, b"ping", now).expect("a route");
    let mut echo = None;
    world.until(|w| {
        echo = w.guest.ping_receive(ping);
        echo.is_some()
    });
    assert_eq!(echo.expect("it has come").seq, 3);
    // A refusal is one.
    assert_eq!(refused(&mut world, at(PEER, 1)), Failure::Refused);
}

fn moves() {
    set_up();
    let peer = Peer::begin();
    let mut world = World::new();
    open(&mut world, &keys(2).1, None);
    talk(&mut world, PEER, b"before");
    peer.0.store(MOVES, Ordering::Relaxed);
    // What the peer sends next comes from its new port: a datagram that nobody asked for.
    let socket = UdpSocket::bind(at(PEER, 0)).expect("a free port");
    let sent = std::time::Instant::now();
    while sent.elapsed() < Duration::from_millis(300) {
        socket.send_to(b"moved", at("10.9.0.2", 9)).expect("a route");
        world.turn(Duration::from_millis(10));
    }
    talk(&mut world, PEER, b"after");
}

fn fails() {
    set_up();
    let mut world = World::new();
    open(&mut world, &keys(3).1, Some(Duration::from_millis(200)));
    let why = refused(&mut world, at("192.0.2.9", 80));
    assert_eq!(why, Failure::Unreachable(Unreachable::Net));
    assert!(world.host.take_notice().is_some_and(|notice| notice.contains("AllowedIPs")));
    let silent = Failure::Unreachable(Unreachable::Host);
    assert_eq!(refused(&mut world, at(PEER, 80)), silent);
    assert!(world.host.take_notice().is_some_and(|notice| notice.contains("does not answer")));
    // The next one fails at once.
    let ends = Ends { guest: at(GUEST, 1), remote: at(PEER, 80) };
    let next = world.host.tcp_connect(Token(2), &ends, ends.remote);
    assert_eq!(next.err(), Some(silent));
}
