//! Drops every kind of handle in every state of RFC 9293, and checks that no connection and no
//! buffer is left. A peer made of raw segments brings the connection into each state.

use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4};
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use base::{Cidr, LinkKind};
use device::channel::{Config, End, pair};
use stack::{PortConfig, Stack, StackConfig};
use tcp::State;
use wirespeed_net::{DriverThread, Net, TcpListener, TcpSocket, TcpStream, UdpSocket, blocking};

use crate::flood::segment::{ACK, FIN, RST, SYN, Segment};

const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const THEIRS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const PORT: u16 = 7;
const SOON: Duration = Duration::from_secs(20);

/// A stack, and the far end of its link, where the peer's packets are sent.
struct Bench {
    net: Net,
    driver: DriverThread,
    wire: End,
}

impl Bench {
    fn new() -> Bench {
        let (device, wire) = pair(&Config { link: LinkKind::Ip, depth: 1024, ..Config::default() });
        let mut stack = Stack::new(StackConfig::new([9, 9]));
        let addresses = vec![Cidr::new(OURS.into(), 8).expect("a short prefix")];
        stack.add_port(Box::new(device), PortConfig { addresses, ..PortConfig::default() });
        let (net, driver) = Net::spawn_thread(stack).expect("the thread starts");
        Bench { net, driver, wire }
    }

    /// Wait until the stack sends a segment for which `wanted` is true.
    fn hears(&self, wanted: impl Fn(&Segment) -> bool) -> Segment {
        let end = Instant::now() + SOON;
        let mut room = [0; 2_000];
        while Instant::now() < end {
            let Ok(n) = self.wire.recv_timeout(&mut room, SOON) else { break };
            if let Some(segment) = Segment::of(&room[..n]).filter(&wanted) {
                return segment;
            }
        }
        panic!("the stack did not send the expected segment in time");
    }

    /// Number of connections, buffers and sockets of the stack.
    fn held(&self) -> [usize; 3] {
        let count =
            |s: &mut Stack| [s.connection_count(), s.pool().outstanding(), s.snapshot().sockets];
        self.net.with_stack(count).expect("the driver runs")
    }

    /// Wait until the stack holds as much as in `before`.
    fn drained(&self, before: [usize; 3], what: &str) {
        let end = Instant::now() + SOON;
        let mut room = [0; 2_000];
        while self.held() != before {
            assert!(
                Instant::now() < end,
                "{what}: connections, buffers, sockets {:?} instead of {before:?}",
                self.held()
            );
            let _ = self.wire.recv_timeout(&mut room, Duration::from_millis(1));
        }
    }

    fn end(self) {
        self.driver.stop().expect("no panic");
    }
}

/// The peer of one connection, with the header of the next segment that it sends.
struct Peer<'a> {
    bench: &'a Bench,
    next: Segment,
}

impl<'a> Peer<'a> {
    /// Open a connection from `port`, including the last segment of the handshake.
    fn open(bench: &'a Bench, port: u16) -> Peer<'a> {
        let mut peer = Peer::half_open(bench, port);
        peer.send(ACK, b"");
        peer
    }

    fn half_open(bench: &'a Bench, port: u16) -> Peer<'a> {
        let src = SocketAddrV4::new(THEIRS, port);
        let dst = SocketAddrV4::new(OURS, PORT);
        let next = Segment { src, dst, seq: 100, ack: 0, flags: SYN };
        let mut peer = Peer { bench, next };
        peer.send(SYN, b"");
        let answer = bench.hears(|s| s.flags == SYN | ACK && s.dst == src);
        peer.next.ack = answer.seq.wrapping_add(1);
        peer
    }

    fn send(&mut self, flags: u8, payload: &[u8]) {
        self.next.flags = flags;
        self.bench.wire.send(&self.next.packet(payload)).expect("the stack is there");
        let phantom = u32::from(flags & (SYN | FIN) != 0);
        self.next.seq = self.next.seq.wrapping_add(payload.len() as u32 + phantom);
    }

    /// Wait for the stack's FIN, which follows no data, and acknowledge it in the next segment.
    fn ack_fin(&mut self) {
        let us = self.next.src;
        let fin = self.bench.hears(|s| s.flags & FIN != 0 && s.dst == us);
        self.next.ack = fin.seq.wrapping_add(1);
    }
}

type Script = fn(&TcpStream, &mut Peer<'_>);

/// The states in which an accepted connection can be dropped, and how to reach each.
const STATES: &[(State, &str, Script)] = &[
    (State::Established, "with nothing", |_, _| {}),
    (State::Established, "with unread data", |_, peer| peer.send(ACK, &[7; 900])),
    (State::Established, "with unsent data", |us, _| {
        us.try_write(&[7; 300_000]).expect("there is room for some");
    }),
    (State::FinWait1, "", |us, _| shut(us)),
    // The FIN cannot be sent, because data before it exceeds the peer's window.
    (State::Established, "with unsent data, shut down", |us, _| {
        us.try_write(&[7; 300_000]).expect("there is room for some");
        shut(us);
    }),
    (State::FinWait2, "", |us, peer| {
        shut(us);
        peer.ack_fin();
        peer.send(ACK, b"");
    }),
    (State::FinWait2, "with unread data", |us, peer| {
        shut(us);
        peer.ack_fin();
        peer.send(ACK, &[7; 900]);
    }),
    (State::CloseWait, "", |_, peer| peer.send(ACK | FIN, b"")),
    (State::CloseWait, "with unread data", |_, peer| peer.send(ACK | FIN, &[7; 900])),
    (State::LastAck, "", |us, peer| {
        peer.send(ACK | FIN, b"");
        reach(us, State::CloseWait, "before");
        shut(us);
    }),
    (State::Closing, "", |us, peer| {
        shut(us);
        peer.send(ACK | FIN, b"");
    }),
    (State::TimeWait, "", |us, peer| {
        shut(us);
        peer.ack_fin();
        peer.send(ACK | FIN, b"");
    }),
    (State::TimeWait, "with unread data", |us, peer| {
        shut(us);
        peer.ack_fin();
        peer.send(ACK | FIN, &[7; 900]);
    }),
    (State::Closed, "by a reset", |_, peer| peer.send(ACK | RST, b"")),
];

fn shut(us: &TcpStream) {
    us.shut_down(Shutdown::Write).expect("it is open");
}

/// Wait until our end is in `state`.
fn reach(us: &TcpStream, state: State, what: &str) {
    let end = Instant::now() + SOON;
    loop {
        let now = us.tcp_info().expect("it is held").state;
        if now == state {
            return;
        }
        assert!(Instant::now() < end, "{} instead of {} {what}", now.name(), state.name());
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Poll a future once, then drop it.
fn once<F: Future>(future: F) {
    let _ = pin!(future).poll(&mut Context::from_waker(Waker::noop()));
}

type LetGo = fn(TcpStream);

/// The ways to drop a connection's handles.
const DROPS: &[(&str, LetGo)] = &[
    ("dropped", drop),
    ("halves dropped, reading first", |stream| {
        let (read, write) = stream.into_split();
        drop(read);
        drop(write);
    }),
    ("halves dropped, writing first", |stream| {
        let (read, write) = stream.into_split();
        drop(write);
        drop(read);
    }),
    ("blocking", |stream| drop(blocking::TcpStream::from(stream))),
    ("blocking, with a clone", |stream| {
        let stream = blocking::TcpStream::from(stream);
        let clone = stream.try_clone().expect("a handle");
        drop(stream);
        drop(clone);
    }),
    ("blocking, lingering", |stream| {
        stream.set_linger(Some(Duration::from_millis(10))).expect("the driver runs");
        drop(blocking::TcpStream::from(stream));
    }),
    ("reset", |stream| {
        stream.set_linger(Some(Duration::ZERO)).expect("the driver runs");
        drop(stream);
    }),
    ("with loans both ways, which outlive it", |stream| {
        let loan = stream.loan().ok();
        let received = stream.try_read_loan().ok().flatten();
        drop(stream);
        drop((loan, received));
    }),
    ("with every future begun", |stream| {
        let mut room = [0; 10];
        once(stream.readable());
        once(stream.writable());
        once(stream.peek(&mut room));
        once(stream.read_loan());
        if let Ok(loan) = stream.loan() {
            once(stream.send_loan(loan));
        }
        once(std::future::poll_fn(|cx| stream.poll_read(cx, &mut room)));
        once(std::future::poll_fn(|cx| stream.poll_write(cx, &[7; 400_000])));
        once(std::future::poll_fn(|cx| stream.poll_read_ready(cx)));
        once(std::future::poll_fn(|cx| stream.poll_write_ready(cx)));
        drop(stream);
    }),
    ("while closing", |stream| once(stream.close())),
    ("while closing, with a time", |stream| {
        stream.set_linger(Some(SOON)).expect("the driver runs");
        once(stream.close());
    }),
];

#[test]
fn every_handle_is_dropped_in_every_state() {
    let bench = Bench::new();
    let listener =
        blocking::TcpListener::bind(&bench.net, SocketAddr::new(OURS.into(), PORT)).unwrap();
    let before = bench.held();
    let mut port = 1_000;
    for (state, with, script) in STATES {
        for (how, let_go) in DROPS {
            port += 1;
            let what = format!("{} {with}, {how}", state.name());
            let mut peer = Peer::open(&bench, port);
            let (stream, _) = listener.accept().expect("it was opened");
            let Ok(stream) = stream.into_async() else { panic!("it is the only handle") };
            script(&stream, &mut peer);
            reach(&stream, *state, &what);
            // The state may be reached before the data arrives.
            if with.contains("unread") {
                while stream.tcp_info().expect("it is held").unread == 0 {
                    std::thread::yield_now();
                }
            }
            let_go(stream);
            // A RST ends a connection at once that timers would end after minutes. The stack's own
            // tests cover these timers.
            peer.send(RST, b"");
            bench.drained(before, &what);
        }
    }
    drop(listener);
    bench.end();
}

/// Drop a SYN-SENT socket that got no answer, and connections in SYN-RECEIVED that were not
/// accepted, before and after the last segment of the handshake.
#[test]
fn what_is_half_open_is_dropped() {
    let bench = Bench::new();
    let before = bench.held();
    let nobody = SocketAddr::new(THEIRS.into(), 9);
    let others = [nobody, SocketAddr::new(THEIRS.into(), 10)];
    let socket = TcpSocket::new(&bench.net);
    once(TcpStream::connect(&bench.net, nobody));
    once(socket.connect_any(&others));
    let late = blocking::TcpStream::connect_timeout(&bench.net, nobody, Duration::from_millis(10));
    assert!(late.is_err());
    bench.drained(before, "SYN-SENT");
    for opened in [false, true] {
        for port in 2_000..2_010 {
            let at = SocketAddr::new(OURS.into(), PORT);
            let listener = TcpListener::bind(&bench.net, at).expect("free");
            once(listener.accept());
            let mut peer = Peer::half_open(&bench, port);
            if opened {
                peer.send(ACK, b"");
                peer.send(ACK, &[7; 100]);
            }
            drop(listener);
            peer.send(RST, b"");
            bench.drained(before, if opened { "to be accepted" } else { "SYN-RECEIVED" });
        }
    }
    bench.end();
}

#[test]
fn futures_of_datagrams_are_dropped_at_every_await() {
    let bench = Bench::new();
    let before = bench.held();
    let to = SocketAddr::new(THEIRS.into(), 9);
    for _ in 0..100 {
        let socket = UdpSocket::bind(&bench.net, SocketAddr::new(OURS.into(), 0)).expect("free");
        let mut room = [0; 10];
        once(socket.recv_from(&mut room));
        once(socket.peek_from(&mut room));
        once(socket.readable());
        once(socket.send_to(&[7; 1000], to));
        socket.connect(to).expect("the first peer");
        once(socket.recv(&mut room));
        once(socket.send(&[7; 1000]));
        once(std::future::poll_fn(|cx| socket.poll_recv_from(cx, &mut room)));
    }
    bench.drained(before, "datagrams");
    // These sends wait for room in the device, because nobody takes frames from it.
    let socket = UdpSocket::bind(&bench.net, SocketAddr::new(OURS.into(), 0)).expect("free");
    for _ in 0..5_000 {
        once(socket.send_to(&[7; 1000], to));
    }
    let would_block = socket.try_send_to(&[7; 1000], to).expect_err("the device is full");
    assert_eq!(would_block.kind(), std::io::ErrorKind::WouldBlock);
    drop(socket);
    bench.drained(before, "datagrams that waited for room");
    bench.end();
}

/// If the first SYN is lost, the connect takes one retransmission time-out longer, whichever thread
/// drives the stack.
#[test]
fn a_lost_syn_is_sent_again_in_time() {
    let bench = Bench::new();
    let nobody = SocketAddr::new(THEIRS.into(), 9);
    let mut socket = TcpSocket::new(&bench.net);
    socket.config_mut().rto_initial = base::Duration::from_millis(200);
    let mut slowest = Duration::ZERO;
    for _ in 0..10 {
        std::thread::scope(|scope| {
            let connecting = scope.spawn(|| {
                let began = Instant::now();
                let stream = blocking::TcpStream::connect_with(&socket, nobody, Some(SOON));
                drop(stream.expect("it is answered"));
                began.elapsed()
            });
            let first = bench.hears(|s| s.flags == SYN);
            let again = bench.hears(|s| s.flags == SYN && s.src == first.src);
            let (src, dst) = (again.dst, again.src);
            let ack = again.seq.wrapping_add(1);
            let answer = Segment { src, dst, seq: 500, ack, flags: SYN | ACK };
            bench.wire.send(&answer.packet(&[])).expect("the stack is there");
            let took = connecting.join().expect("no panic");
            slowest = slowest.max(took);
            let reset = Segment { flags: RST, seq: 501, ..answer };
            bench.wire.send(&reset.packet(&[])).expect("the stack is there");
        });
    }
    assert!(slowest < Duration::from_secs(5), "{slowest:?}");
    bench.end();
}
