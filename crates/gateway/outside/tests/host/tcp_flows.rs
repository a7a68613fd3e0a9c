//! TCP flows to servers of the kernel.

use std::io::{IoSliceMut, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

use gateway::{End, Ends, Failure, Outcome, Outside, Token};
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};
use stack::{CallError, Unreachable};
use tcp::{Error, State};
use wirespeed_outside::Host;

use crate::world::{GUEST, SERVER, SERVER_V6, World, at, set_up};

pub(crate) const CASES: &[testbed::Case] = &[
    ("a megabyte goes each way at once, of both versions", &[], both_ways),
    ("many flows at once carry their bytes", &[], many),
    ("a refusal is a reset, and no route is no route", &[], refusals),
    ("halves close one after the other", &[], halves),
    ("a reset is a reset both ways", &[], resets),
    ("an urgent byte stays urgent both ways", &[], urgent),
    ("an urgent byte that comes first and alone stays urgent", &[], urgent_alone),
    ("an urgent byte that nobody has heard of is not lost", &[], urgent_unheard),
    ("a server that does not read closes the guest's window", &[], slow_reader),
    ("without IPv6 its connects fail and those of IPv4 work", &[], without_v6),
];

fn listen(ip: &str) -> (TcpListener, u16) {
    let listener = TcpListener::bind(at(ip, 0)).expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    (listener, port)
}

/// Connect the guest to a server.
fn connected(world: &mut World) -> (stack::TcpHandle, TcpStream) {
    let (listener, port) = listen(SERVER);
    let client = world.open(at(SERVER, port));
    let (there, _) = listener.accept().expect("the gateway is connected");
    (client, there)
}

/// Bytes in which each position is different from its neighbours.
fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|n| (n as u8).wrapping_mul(31) ^ (n >> 8) as u8 ^ (n >> 16) as u8 ^ seed).collect()
}

fn both_ways() {
    set_up();
    let mut world = World::new();
    for server in [SERVER, SERVER_V6] {
        let (listener, port) = listen(server);
        let (up, down) = (pattern(1 << 20, 1), pattern(1 << 20, 2));
        let client = world.open(at(server, port));
        let (mut there, _) = listener.accept().expect("the gateway is connected");
        let mut writer = there.try_clone().expect("a descriptor");
        let sent = down.clone();
        let writing = thread::spawn(move || {
            writer.write_all(&sent).expect("it is open");
            writer.shutdown(Shutdown::Write).expect("it is open");
        });
        let reading = thread::spawn(move || {
            let mut all = Vec::new();
            there.read_to_end(&mut all).expect("it ends well");
            all
        });
        let (mut written, mut got, mut is_over) = (0, Vec::new(), false);
        world.until(|w| {
            while let Ok(n @ 1..) = w.guest.tcp_write(client, &up[written..]) {
                written += n;
            }
            if written == up.len() {
                w.guest.tcp_shutdown_write(client);
            }
            let mut into = [0; 65_536];
            loop {
                match w.guest.tcp_read(client, &mut into) {
                    Ok(0) => break is_over = true,
                    Ok(n) => got.extend_from_slice(&into[..n]),
                    Err(_) => break,
                }
            }
            is_over && written == up.len()
        });
        assert!(got == down, "the guest got something else");
        // The rest of what was written is still under way.
        world.until(|_| reading.is_finished() && writing.is_finished());
        assert!(reading.join().expect("no panic") == up, "the server got something else");
        writing.join().expect("no panic");
        world.until(|w| w.is_empty());
    }
    assert_eq!(world.engine.counts().finished, 2);
    assert_eq!(world.engine.counts().bytes_up, 2 << 20);
}

fn many() {
    set_up();
    let mut world = World::new();
    let (listener, port) = listen(SERVER);
    let server = thread::spawn(move || {
        for _ in 0..100 {
            let (mut there, _) = listener.accept().expect("a client");
            let mut into = [0; 16];
            let n = there.read(&mut into).expect("it is open");
            there.write_all(&into[..n]).expect("it is open");
        }
    });
    let clients: Vec<_> = (0..100).map(|_| world.connect(at(SERVER, port))).collect();
    world.until(|w| clients.iter().all(|&c| w.state(c) == (State::Established, None)));
    for (n, &client) in clients.iter().enumerate() {
        assert_eq!(world.guest.tcp_write(client, &n.to_be_bytes()), Ok(8));
    }
    for (n, &client) in clients.iter().enumerate() {
        assert_eq!(world.read(client, 9), n.to_be_bytes());
        world.guest.tcp_close(client);
    }
    server.join().expect("no panic");
    world.until(|w| w.is_empty());
    assert_eq!(world.engine.counts().finished, 100);
}

fn refusals() {
    set_up();
    assert!(testbed::ip("route add unreachable 203.0.113.0/24"));
    assert!(testbed::ip("route add prohibit 192.0.2.0/24"));
    let mut world = World::new();
    let unreachable = |why| End::NotConnected(Failure::Unreachable(why));
    let refused = End::NotConnected(Failure::Refused);
    for (to, end) in [
        (at(SERVER, 1), refused),
        (at(SERVER_V6, 1), refused),
        (at("203.0.113.1", 80), unreachable(Unreachable::Host)),
        (at("192.0.2.1", 80), unreachable(Unreachable::Prohibited)),
        (at("198.18.0.1", 80), unreachable(Unreachable::Net)),
        (at("2001:db8:9::1", 80), unreachable(Unreachable::Net)),
    ] {
        let client = world.connect(to);
        assert_eq!(world.end(), end, "{to}");
        if end == refused {
            world.until(|w| w.state(client).1 == Some(Error::Refused));
        } else {
            let errors = |w: &World| w.guest.counters().of(base::Counter::IcmpErrorsIn);
            let before = errors(&world);
            world.until(|w| errors(w) > before);
        }
        world.guest.tcp_abort(client);
    }
    assert!(world.is_empty());
}

fn halves() {
    set_up();
    let mut world = World::new();
    let (client, mut there) = connected(&mut world);
    assert_eq!(world.guest.tcp_write(client, b"question"), Ok(8));
    world.guest.tcp_shutdown_write(client);
    there.set_nonblocking(true).expect("a socket");
    let (mut got, mut into) = (Vec::new(), [0; 64]);
    world.until(|_| match there.read(&mut into) {
        Ok(0) => true,
        Ok(n) => {
            got.extend_from_slice(&into[..n]);
            false
        }
        Err(_) => false,
    });
    assert_eq!(got, b"question");
    assert_eq!(world.engine.flow_count(), 1);
    there.write_all(b"answer").expect("this half is open");
    assert_eq!(world.read(client, 6), b"answer");
    drop(there);
    assert_eq!(world.read(client, 1), b"");
    world.until(|w| w.is_empty());
    assert_eq!(world.engine.counts().finished, 1);
}

fn resets() {
    set_up();
    let mut world = World::new();
    let (client, mut there) = connected(&mut world);
    world.guest.tcp_abort(client);
    world.until(|w| w.is_empty());
    let error = there.read(&mut [0]).expect_err("it was reset");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);

    let (client, there) = connected(&mut world);
    sockopt::set_socket_linger(&there, Some(std::time::Duration::ZERO)).expect("a socket");
    drop(there);
    world.until(|w| w.state(client).1.is_some());
    let got = world.guest.tcp_read(client, &mut [0]);
    assert_eq!(got, Err(CallError::Failed(Error::Reset)));
    world.until(|w| w.is_empty());
    let counts = world.engine.counts();
    assert_eq!((counts.reset_by_guest, counts.reset_by_outside), (1, 1));
}

fn urgent() {
    set_up();
    let mut world = World::new();
    let (client, mut there) = connected(&mut world);
    // From the server: three bytes, the urgent one, three more, all there before the gateway reads.
    there.write_all(b"uvw").expect("it is open");
    assert_eq!(send(&there, b"?", SendFlags::OOB), Ok(1));
    there.write_all(b"xyz").expect("it is open");
    assert_eq!(world.read(client, 3), b"uvw");
    world.until(|w| w.guest.tcp_at_mark(client) == Some(true));
    assert_eq!(world.read(client, 4), b"?xyz");
    // From the guest.
    assert_eq!(world.guest.tcp_write_urgent(client, b"abc!"), Ok(4));
    assert_eq!(world.guest.tcp_write(client, b"def"), Ok(3));
    let mut byte = [0];
    world.until(|_| recv(&there, &mut byte, RecvFlags::OOB) == Ok((1, 1)));
    assert_eq!(&byte, b"!");
    let mut into = [0; 16];
    let n = there.read(&mut into).expect("it is open");
    assert_eq!(&into[..n], b"abc", "a read ends before the mark");
    there.set_nonblocking(true).expect("a socket");
    let mut rest = Vec::new();
    world.until(|_| {
        if let Ok(n) = there.read(&mut into) {
            rest.extend_from_slice(&into[..n]);
        }
        rest.len() == 3
    });
    assert_eq!(rest, b"def");
}

fn urgent_alone() {
    set_up();
    let mut world = World::new();
    let (client, mut there) = connected(&mut world);
    for round in 0..3 {
        assert_eq!(send(&there, b"!", SendFlags::OOB), Ok(1));
        world.until(|w| w.guest.tcp_at_mark(client) == Some(true));
        assert_eq!(world.read(client, 1), b"!", "round {round}");
        there.write_all(b"after").expect("it is open");
        assert_eq!(world.read(client, 5), b"after", "round {round}");
    }
    drop(there);
    assert_eq!(world.read(client, 1), b"");
}

/// The engine may receive before it hears of urgent data. Then the byte is an ordinary one.
fn urgent_unheard() {
    set_up();
    let (listener, port) = listen(SERVER);
    let mut host = Host::new(1).expect("a descriptor");
    let ends = Ends { guest: at(GUEST, 1), remote: at(SERVER, port) };
    let mut tcp = host.tcp_connect(Token(1), &ends, ends.remote).expect("it listens");
    let (mut there, _) = listener.accept().expect("it was connected to");
    there.write_all(b"abc").expect("it is open");
    assert_eq!(send(&there, b"!", SendFlags::OOB), Ok(1));
    there.write_all(b"def").expect("it is open");
    assert_eq!(host.tcp_outcome(&mut tcp), Ok(Outcome::Connected));
    let mut all = Vec::new();
    for _ in 0..8 {
        let mut into = [0; 16];
        let got = host.tcp_receive(&mut tcp, &mut [IoSliceMut::new(&mut into)]);
        all.extend_from_slice(&into[..got.map_or(0, |got| got.bytes)]);
    }
    assert_eq!(all, b"abc!def");
    assert_eq!(host.tcp_at_mark(&mut tcp), None);
    host.tcp_close(tcp);
    assert_eq!(host.open_count(), 0);
}

fn slow_reader() {
    set_up();
    let mut world = World::new();
    let (client, mut there) = connected(&mut world);
    let data = pattern(1 << 20, 3);
    let (mut written, mut quiet) = (0, 0);
    // Nobody reads: the buffers of all ends become full, and no more is taken.
    world.until(|w| {
        let before = written;
        while let Ok(n @ 1..) = w.guest.tcp_write(client, &data[written % data.len()..]) {
            written += n;
        }
        quiet = if written == before { quiet + 1 } else { 0 };
        quiet > 20
    });
    assert!(written < 32 << 20, "{written}");
    let held = world.inner.pool().in_use_bytes();
    assert!(held < 4 << 20, "the gateway holds {held} bytes");
    let all = written;
    let reading = thread::spawn(move || {
        let mut got = vec![0; all];
        there.read_exact(&mut got).expect("it is open");
        got
    });
    world.until(|_| reading.is_finished());
    let got = reading.join().expect("no panic");
    assert!(got.chunks(data.len()).all(|part| part == &data[..part.len()]), "other bytes");
}

fn without_v6() {
    set_up();
    let file = "/proc/sys/net/ipv6/conf/all/disable_ipv6";
    std::fs::write(file, "1").expect("root in a namespace of its own");
    let mut world = World::new();
    let nowhere = Failure::Unreachable(Unreachable::Net);
    for to in [at(SERVER_V6, 80), at("2001:db8:9::1", 80)] {
        let client = world.connect(to);
        assert_eq!(world.end(), End::NotConnected(nowhere), "{to}");
        world.guest.tcp_abort(client);
    }
    // No guest can ask for this one; a redirection can.
    assert_eq!(failure_of_connect(&mut world.host, at("::1", 80)), Some(nowhere));
    let (client, mut there) = connected(&mut world);
    there.write_all(b"here").expect("it is open");
    assert_eq!(world.read(client, 4), b"here");
}

fn failure_of_connect(host: &mut Host, to: std::net::SocketAddr) -> Option<Failure> {
    let ends = Ends { guest: at(GUEST, 1), remote: to };
    host.tcp_connect(Token(1), &ends, to).err()
}
