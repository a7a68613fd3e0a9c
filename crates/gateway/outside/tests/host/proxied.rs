//! Clients of the proxy: threads with sockets of the standard library, which speak SOCKS5 and HTTP.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use base::Limit;
use gateway::{Config, Credentials, End, NamesConfig, Protocol};
use host::dns::{ForwarderConfig, Hosts};

use crate::world::{SERVER, SERVER_V6, World, at, set_up};

pub(crate) const CASES: &[testbed::Case] = &[
    ("the proxy connects by SOCKS5 and HTTP, by name and address", &[], connects),
    ("the proxy says why it does not connect", &[], refuses),
    ("halves of a proxied connection end one by one, and a reset is a reset", &[], ends),
    ("a slow reader holds its peer back, and waits in little memory", &[], slow),
    ("the proxy relays datagrams of both versions, by name and address", &[], datagrams),
    ("clients without a password, without a request, and too many of them", &[], strangers),
];

/// A world with a proxy, which knows a name without asking.
fn world() -> (World, SocketAddr) {
    set_up();
    let (mut hosts, _) = Hosts::from_text(&format!("{SERVER} server.test\n"));
    hosts.add("broken.test", at("192.0.2.1", 0).ip()).expect("a name");
    hosts.add("broken.test", at(SERVER, 0).ip()).expect("a name");
    let secret = base::KeyedHash::new(1, 2);
    let names = Some(NamesConfig { forwarder: ForwarderConfig::new(Vec::new()), hosts, secret });
    let mut world = World::with(Config { names, ..Config::default() }, 256);
    let listener = world.host.listen(&"127.0.0.1/0".parse().expect("a place")).expect("it is free");
    let proxy = world.host.listens_at(listener).expect("it listens");
    world.is_proxy = true;
    (world, proxy)
}

/// Let somebody act in a thread while the world turns.
#[track_caller]
fn during<R: Send + 'static>(world: &mut World, act: impl FnOnce() -> R + Send + 'static) -> R {
    let thread = std::thread::spawn(act);
    world.until(|_| thread.is_finished());
    thread.join().expect("no panic")
}

fn open(proxy: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(proxy).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a time");
    stream
}

/// Ask by SOCKS5; returns the connection and the code of the reply.
fn socks(proxy: SocketAddr, command: u8, address: &[u8]) -> (TcpStream, u8, SocketAddr) {
    let mut stream = open(proxy);
    let mut reply = [0; 10];
    stream.write_all(&[5, 1, 0]).expect("it is open");
    stream.read_exact(&mut reply[..2]).expect("an answer");
    assert_eq!(reply[..2], [5, 0]);
    stream.write_all(&[&[5, command, 0][..], address].concat()).expect("it is open");
    stream.read_exact(&mut reply).expect("an answer");
    let ip: [u8; 4] = reply[4..8].try_into().expect("four bytes");
    (stream, reply[1], SocketAddr::from((ip, u16::from_be_bytes([reply[8], reply[9]]))))
}

fn named(name: &str, port: u16) -> Vec<u8> {
    [&[3, name.len() as u8][..], name.as_bytes(), &port.to_be_bytes()].concat()
}

fn numbered(to: SocketAddr) -> Vec<u8> {
    let port = to.port().to_be_bytes();
    match to.ip() {
        std::net::IpAddr::V4(ip) => [&[1][..], &ip.octets(), &port].concat(),
        std::net::IpAddr::V6(ip) => [&[4][..], &ip.octets(), &port].concat(),
    }
}

/// A server that sends back everything, and then ends.
fn echo(ip: &str) -> SocketAddr {
    let listener = TcpListener::bind(at(ip, 0)).expect("a free port");
    let address = listener.local_addr().expect("it listens");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("somebody comes");
            let mut all = Vec::new();
            // A client may reset it.
            if stream.read_to_end(&mut all).is_ok() {
                let _ = stream.write_all(&all);
            }
        }
    });
    address
}

/// Send something, end, and read all.
fn exchange(mut stream: TcpStream, bytes: &[u8]) -> Vec<u8> {
    stream.write_all(bytes).expect("it is open");
    stream.shutdown(Shutdown::Write).expect("it is open");
    let mut all = Vec::new();
    stream.read_to_end(&mut all).expect("an end");
    all
}

fn connects() {
    let (mut world, proxy) = world();
    let (v4, v6) = (echo(SERVER), echo(SERVER_V6));
    let (name, broken) = (named("server.test", v4.port()), named("broken.test", v4.port()));
    for address in [numbered(v4), numbered(v6), name, broken] {
        let all = during(&mut world, move || {
            let (stream, code, _) = socks(proxy, 1, &address);
            assert_eq!(code, 0);
            exchange(stream, b"hello")
        });
        assert_eq!(all, b"hello");
    }
    let answer = during(&mut world, move || {
        // The first bytes for the server come with the request.
        let head = format!("CONNECT server.test:{} HTTP/1.1\r\n\r\nhello", v4.port());
        exchange(open(proxy), head.as_bytes())
    });
    assert_eq!(answer, b"HTTP/1.1 200 Connection established\r\n\r\nhello");
    let answer = during(&mut world, move || {
        exchange(open(proxy), format!("POST http://{v4}/x HTTP/1.1\r\nA: b\r\n\r\nbody").as_bytes())
    });
    let text = String::from_utf8(answer).expect("a text");
    let head = format!("POST /x HTTP/1.1\r\nHost: {v4}\r\nA: b\r\nConnection: close\r\n\r\nbody");
    assert_eq!(text, head);
    world.until(|w| w.is_empty());
    assert_eq!((world.engine.counts().opened, world.engine.counts().finished), (6, 6));
}

fn refuses() {
    let (mut world, proxy) = world();
    let closed = TcpListener::bind(at(SERVER, 0)).expect("a free port").local_addr().expect("one");
    for (address, code) in [
        (numbered(closed), 5),
        (named("server.test", closed.port()), 5),
        (named("nobody.test", 80), 4),
        (numbered(at("192.0.2.1", 80)), 3),
    ] {
        let (rest, said) = during(&mut world, move || {
            let (mut stream, said, _) = socks(proxy, 1, &address);
            (stream.read(&mut [0; 8]).expect("an end, and no reset"), said)
        });
        assert_eq!((rest, said), (0, code));
    }
    let answer = during(&mut world, move || {
        exchange(open(proxy), format!("CONNECT {closed} HTTP/1.1\r\n\r\n").as_bytes())
    });
    assert!(answer.starts_with(b"HTTP/1.1 502 "), "{answer:?}");
    world.until(|w| w.is_empty());
}

fn ends() {
    let (mut world, proxy) = world();
    let listener = TcpListener::bind(at(SERVER, 0)).expect("a free port");
    let to = listener.local_addr().expect("it listens");
    during(&mut world, move || {
        let (mut client, _, _) = socks(proxy, 1, &numbered(to));
        let (mut server, _) = listener.accept().expect("it comes");
        server.shutdown(Shutdown::Write).expect("it is open");
        assert_eq!(client.read(&mut [0; 8]).expect("an end"), 0);
        client.write_all(b"still open").expect("one half is");
        let mut got = [0; 10];
        server.read_exact(&mut got).expect("it is open");
        assert_eq!(&got, b"still open");
        rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).expect("a socket");
        drop(client);
        assert!(server.read(&mut got).is_err(), "a reset is one for the server, too");
    });
    assert_eq!(world.end(), End::ResetByGuest);
    world.until(|w| w.is_empty());
}

fn slow() {
    let (mut world, proxy) = world();
    let listener = TcpListener::bind(at(SERVER, 0)).expect("a free port");
    let to = listener.local_addr().expect("it listens");
    let (mut client, mut server) = during(&mut world, move || {
        let (client, _, _) = socks(proxy, 1, &numbered(to));
        (client, listener.accept().expect("it comes").0)
    });
    server.set_nonblocking(true).expect("a socket");
    let (bytes, mut sent, mut idle) = (vec![7; 64 * 1024], 0, 0);
    while idle < 50 {
        match server.write(&bytes) {
            Ok(count) => (sent, idle) = (sent + count, 0),
            Err(_) => idle += 1,
        }
        world.turn(Duration::from_millis(1));
    }
    // What lies in the kernel is not ours: nothing was read that the client did not take.
    assert!(world.engine.counts().bytes_down < sent as u64, "it was held back");
    server.set_nonblocking(false).expect("a socket");
    drop(server);
    let all = during(&mut world, move || std::io::copy(&mut client, &mut std::io::sink()));
    assert_eq!(all.expect("an end"), sent as u64);
    world.until(|w| w.is_empty());
}

/// A server that sends datagrams back.
fn udp_echo(ip: &str) -> SocketAddr {
    let socket = UdpSocket::bind(at(ip, 0)).expect("a free port");
    let address = socket.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        let mut bytes = [0; 2_048];
        while let Ok((count, from)) = socket.recv_from(&mut bytes) {
            let _ = socket.send_to(&bytes[..count], from);
        }
    });
    address
}

fn datagrams() {
    let (mut world, proxy) = world();
    let (v4, v6) = (udp_echo(SERVER), udp_echo(SERVER_V6));
    let addresses = [
        (numbered(v4), numbered(v4)),
        (numbered(v6), numbered(v6)),
        (named("server.test", v4.port()), numbered(v4)),
    ];
    during(&mut world, move || {
        let any = numbered(at("0.0.0.0", 0));
        let (control, code, relay) = socks(proxy, 3, &any);
        assert_eq!((code, relay.ip()), (0, proxy.ip()));
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a time");
        let stranger = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        for (to, from) in addresses {
            let mut answer = [0; 64];
            // A fragment, which nobody takes, and a whole one.
            for (fragment, payload) in [(1, "lost"), (0, "hello")] {
                let message = [&[0, 0, fragment][..], &to, payload.as_bytes()].concat();
                socket.send_to(&message, relay).expect("it is there");
            }
            let (count, _) = socket.recv_from(&mut answer).expect("an answer");
            assert_eq!(answer[..count], [&[0, 0, 0][..], &from, b"hello"].concat());
            // The port of the first datagram is the client's.
            stranger.send_to(&[&[0, 0, 0][..], &to, b"no"].concat(), relay).expect("it is there");
        }
        stranger.set_read_timeout(Some(Duration::from_millis(50))).expect("a time");
        assert!(stranger.recv(&mut [0; 8]).is_err(), "others get nothing");
        drop(control);
    });
    world.until(|w| w.is_empty());
    let mut reports = Vec::new();
    while let Some(report) = world.engine.next_report() {
        reports.push((report.protocol, report.bytes_up, report.bytes_down));
    }
    reports.sort_unstable();
    assert_eq!(reports, [(Protocol::Udp, 5, 5), (Protocol::Udp, 10, 10)]);
    assert_eq!(world.engine.counts().datagrams_malformed, 3);
}

fn strangers() {
    let (mut world, proxy) = world();
    let (user, password) = ("me".to_owned(), "secret".to_owned());
    world.engine.set_credentials(Some(Credentials { user, password }));
    let read = during(&mut world, move || {
        let mut stream = open(proxy);
        stream.write_all(&[5, 1, 0]).expect("it is open");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("an end, and no reset");
        all
    });
    assert_eq!(read, [5, 255]);
    let read = during(&mut world, move || exchange(open(proxy), b"SSH-2.0-x\r\n\r\n"));
    assert!(read.starts_with(b"HTTP/1.1 400 "), "{read:?}");
    let read = during(&mut world, move || exchange(open(proxy), &[0; 100]));
    assert_eq!(read, b"");
    let counts = world.engine.counts();
    assert_eq!((counts.clients, counts.clients_unauthorized, counts.clients_malformed), (3, 1, 2));
    world.until(|w| w.is_empty());
    world.engine.budget_mut().set(Limit::GatewayPending, 2);
    let silent: Vec<TcpStream> = (0..4).map(|_| open(proxy)).collect();
    world.until(|w| w.engine.counts().unanswered == 2);
    assert_eq!(world.engine.client_count(), 2);
    drop(silent);
    world.until(|w| w.is_empty());
}
