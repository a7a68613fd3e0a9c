//! Connections of the guest through real proxies: microsocks for SOCKS5, tinyproxy for HTTP, and
//! ssh, whose `-D` is SOCKS5, too.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use gateway::{End, Ends, Failure, Outside, Token};
use stack::Unreachable;
use testbed::Need;

use crate::world::{GUEST, SERVER, SERVER_V6, World, at, set_up};

const MICROSOCKS: Need = Need::Program("microsocks", "microsocks");
const TINYPROXY: Need = Need::Program("tinyproxy", "tinyproxy-bin");

pub(crate) const CASES: &[testbed::Case] = &[
    ("through SOCKS5 of microsocks", &[MICROSOCKS], socks),
    ("through SOCKS5 with a password, and with a wrong one", &[MICROSOCKS], password),
    ("through HTTP of tinyproxy", &[TINYPROXY], http),
    ("a proxy that is not there, and one that speaks something else", &[], no_proxy),
    ("datagrams and echoes do not pass a proxy, and one sentence says so", &[], datagrams),
    ("datagrams through SOCKS5 that relays them", &[], associated),
    ("datagrams through SOCKS5 that does not", &[MICROSOCKS], unassociated),
];

/// A process that ends with its case.
struct Proxy(Child);

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Start a proxy that listens at this port of the loopback address.
fn proxy(program: &str, arguments: &[&str], port: u16) -> Proxy {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let proxy = Proxy(command.spawn().expect("it is on the path"));
    let listens = || TcpStream::connect(at("127.0.0.1", port)).is_ok();
    assert!(testbed::until(Duration::from_secs(10), listens), "{program} does not listen");
    proxy
}

fn via(world: &mut World, text: &str) {
    let via: wirespeed_outside::Via = text.parse().expect(text);
    let at = via.resolve().expect("an address");
    world.host.set_via(via, at);
}

/// A server that speaks first, echoes a line, and ends; it reports who has come.
fn server(ip: &str) -> (SocketAddr, std::thread::JoinHandle<SocketAddr>) {
    let listener = TcpListener::bind(at(ip, 0)).expect("a free port");
    let address = listener.local_addr().expect("it listens");
    let serve = move || {
        let (mut socket, from) = listener.accept().expect("somebody comes");
        socket.write_all(b"220 hello\r\n").expect("it is open");
        let mut line = [0; 6];
        socket.read_exact(&mut line).expect("a line");
        socket.write_all(&line).expect("it is open");
        from
    };
    (address, std::thread::spawn(serve))
}

/// Talk to a server of each version from the guest.
fn talk(world: &mut World) {
    for ip in [SERVER, SERVER_V6] {
        let (to, served) = server(ip);
        let client = world.open(to);
        assert_eq!(world.guest.tcp_write(client, b"hello\n"), Ok(6));
        assert_eq!(world.read(client, 64), b"220 hello\r\nhello\n");
        world.guest.tcp_close(client);
        served.join().expect("it was served");
    }
    world.until(|w| w.is_empty());
}

/// Connect from the guest, and return why that fails.
pub(crate) fn refused(world: &mut World, to: SocketAddr) -> Failure {
    while world.engine.next_report().is_some() {}
    let client = world.connect(to);
    let end = world.end();
    // Most failures are soft errors for the guest, which would try again (RFC 1122).
    world.guest.tcp_abort(client);
    match end {
        End::NotConnected(why) => why,
        end => panic!("it ended otherwise: {end:?}"),
    }
}

const PROHIBITED: Failure = Failure::Unreachable(Unreachable::Prohibited);
const NO_HOST: Failure = Failure::Unreachable(Unreachable::Host);
const NO_NET: Failure = Failure::Unreachable(Unreachable::Net);

fn socks() {
    set_up();
    let _proxy = proxy("microsocks", &["-i", "127.0.0.1", "-p", "1080"], 1080);
    let mut world = World::new();
    via(&mut world, "socks5://127.0.0.1:1080");
    talk(&mut world);
    assert_eq!(refused(&mut world, at(SERVER, 1)), Failure::Refused);
    assert_eq!(world.host.take_notice(), None);
    // The host's loopback addresses are reached without it.
    let listener = TcpListener::bind(at("127.0.0.1", 0)).expect("a free port");
    let to = listener.local_addr().expect("it listens");
    let guest = at(GUEST, 0);
    let ends = Ends { guest, remote: to };
    let direct = world.host.tcp_connect(Token(2), &ends, to).expect("it listens");
    let own = rustix::net::getpeername(direct.host().expect("it is the host's"))
        .expect("it is connected");
    assert_eq!(own.and_then(|own| SocketAddr::try_from(own).ok()), Some(to));
    world.host.tcp_abort(direct);
}

fn password() {
    set_up();
    let arguments = ["-i", "127.0.0.1", "-p", "1080", "-u", "me", "-P", "a:b@c"];
    let _proxy = proxy("microsocks", &arguments, 1080);
    let mut world = World::new();
    via(&mut world, "socks5://me:a%3Ab%40c@127.0.0.1:1080");
    talk(&mut world);
    assert_eq!(world.host.take_notice(), None);
    for text in ["socks5://127.0.0.1:1080", "socks5://me:wrong@127.0.0.1:1080"] {
        let mut world = World::new();
        via(&mut world, text);
        assert_eq!(refused(&mut world, at(SERVER, 80)), PROHIBITED, "{text}");
        let notice = world.host.take_notice().expect("the user has to know");
        assert!(notice.contains("USER:PASSWORD"), "{notice}");
    }
}

fn http() {
    set_up();
    let file = std::env::temp_dir().join(format!("wirespeed-tinyproxy-{}", std::process::id()));
    let text = "Port 8888\nListen 127.0.0.1\nTimeout 60\nAllow 127.0.0.1\nBasicAuth me secret\n";
    fs::write(&file, text).expect("a temporary file");
    let path = file.to_str().expect("UTF-8");
    let running = proxy("tinyproxy", &["-d", "-c", path], 8888);
    fs::remove_file(&file).expect("it is there");
    let mut world = World::new();
    via(&mut world, "http://me:secret@127.0.0.1:8888");
    talk(&mut world);
    // It does not say why.
    assert_eq!(refused(&mut world, at(SERVER, 1)), NO_HOST);
    assert_eq!(world.host.take_notice(), None);
    let mut world = World::new();
    via(&mut world, "http://127.0.0.1:8888");
    assert_eq!(refused(&mut world, at(SERVER, 80)), PROHIBITED);
    assert!(world.host.take_notice().is_some_and(|notice| notice.contains("USER:PASSWORD")));
    drop(running);
}

fn no_proxy() {
    set_up();
    let mut world = World::new();
    via(&mut world, "socks5://127.0.0.1:1080");
    // Nobody has refused this but the proxy.
    assert_eq!(refused(&mut world, at(SERVER, 80)), NO_NET);
    assert!(world.host.take_notice().is_some_and(|notice| notice.contains("does not answer")));
    let listener = TcpListener::bind(at("127.0.0.1", 1080)).expect("a free port");
    let serve = move || {
        let (mut socket, _) = listener.accept().expect("somebody comes");
        socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").expect("it is open");
        assert_ne!(socket.read(&mut [0; 64]).expect("a hello"), 0);
    };
    let served = std::thread::spawn(serve);
    assert_eq!(refused(&mut world, at(SERVER, 80)), NO_NET);
    assert!(world.host.take_notice().is_some_and(|notice| notice.contains("another protocol")));
    served.join().expect("it was served");
    assert!(world.is_empty());
}

fn datagrams() {
    set_up();
    let mut world = World::new();
    via(&mut world, "http://127.0.0.1:1080");
    refuses_datagrams(&mut world);
    assert!(world.is_empty());
}

/// A datagram of the guest is refused, and a sentence says so.
fn refuses_datagrams(world: &mut World) {
    let own = world.guest.udp_bind(at("0.0.0.0", 5_555), base::Owner::program()).expect("free");
    let now = world.now();
    world.guest.udp_send(own, at(SERVER, 9), b"hello", now).expect("a route");
    let mut error = None;
    world.until(|w| {
        error = w.guest.udp_take_error(own);
        error.is_some()
    });
    assert_eq!(error, Some((at(SERVER, 9), Unreachable::Prohibited)));
    let notice = world.host.take_notice().expect("the user has to know");
    assert!(notice.contains("TCP only"), "{notice}");
    world.guest.udp_close(own);
}

/// microsocks knows no UDP ASSOCIATE: what the guest sends is refused, later at once.
fn unassociated() {
    set_up();
    let _proxy = proxy("microsocks", &["-i", "127.0.0.1", "-p", "1080"], 1080);
    let mut world = World::new();
    via(&mut world, "socks5://127.0.0.1:1080");
    refuses_datagrams(&mut world);
    let own = world.guest.udp_bind(at("0.0.0.0", 5_556), base::Owner::program()).expect("free");
    let now = world.now();
    world.guest.udp_send(own, at(SERVER, 9), b"hello", now).expect("a route");
    world.until(|w| w.guest.udp_take_error(own).is_some());
}

/// A proxy that relays the datagrams of one client to one server.
fn relay() -> std::thread::JoinHandle<()> {
    let listener = TcpListener::bind(at("127.0.0.1", 1080)).expect("a free port");
    std::thread::spawn(move || {
        let (mut control, _) = listener.accept().expect("somebody comes");
        let socket = UdpSocket::bind(at("127.0.0.1", 0)).expect("a free port");
        let mut bytes = [0; 2_048];
        control.read_exact(&mut bytes[..3]).expect("a greeting");
        control.write_all(&[5, 0]).expect("it is open");
        control.read_exact(&mut bytes[..10]).expect("a request");
        assert_eq!(bytes[..10], [5, 3, 0, 1, 0, 0, 0, 0, 0, 0]);
        let port = socket.local_addr().expect("it is bound").port().to_be_bytes();
        // Its address is the proxy's.
        let reply = [5, 0, 0, 1, 0, 0, 0, 0, port[0], port[1]];
        control.write_all(&reply).expect("it is open");
        for _ in 0..2 {
            let (count, client) = socket.recv_from(&mut bytes).expect("a datagram");
            let head = bytes[..10].to_vec();
            let ip: [u8; 4] = head[4..8].try_into().expect("four bytes");
            let server = SocketAddr::from((ip, u16::from_be_bytes([head[8], head[9]])));
            let outer = UdpSocket::bind(at(SERVER, 0)).expect("a free port");
            outer.send_to(&bytes[10..count], server).expect("a route");
            let (count, _) = outer.recv_from(&mut bytes).expect("an answer");
            let answer = [&head[..], &bytes[..count]].concat();
            socket.send_to(&answer, client).expect("it is there");
        }
        assert_eq!(control.read(&mut bytes).unwrap_or(0), 0, "the session has ended");
    })
}

fn associated() {
    set_up();
    let relay = relay();
    let mut world = World::new();
    via(&mut world, "socks5://127.0.0.1:1080");
    let server = UdpSocket::bind(at(SERVER, 0)).expect("a free port");
    let to = server.local_addr().expect("it is bound");
    server.set_nonblocking(true).expect("a socket");
    let own = world.guest.udp_bind(at("0.0.0.0", 5_555), base::Owner::program()).expect("free");
    // The first waits for the proxy.
    for text in [&b"first"[..], b"second"] {
        let now = world.now();
        world.guest.udp_send(own, to, text, now).expect("a route");
        let (mut bytes, mut got) = ([0; 16], None);
        world.until(|_| {
            got = server.recv_from(&mut bytes).ok();
            got.is_some()
        });
        let (count, from) = got.expect("it has come");
        assert_eq!(&bytes[..count], text);
        server.send_to(text, from).expect("it is open");
        world.until(|w| w.guest.udp_readable(own));
        let answer = world.guest.udp_receive(own).expect("it is readable");
        assert_eq!((answer.from, answer.payload.as_slice()), (to, text));
        world.guest.give_back(answer.payload);
    }
    assert_eq!(world.host.take_notice(), None);
    let World { inner, engine, host, .. } = &mut world;
    let now = base::Instant::from_nanos(u64::MAX / 2);
    let policy = &mut gateway::AllowAll;
    engine.shut_down(&mut gateway::Around { stack: inner, outside: host, policy, now });
    relay.join().expect("it ends with the session");
}
