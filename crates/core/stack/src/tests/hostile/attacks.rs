//! One test for each named TCP attack, under the attack's name; docs/attacks.md lists them. Each
//! asserts the answer, the drop reason, that memory stays bounded, and that a second connection is
//! not affected.

mod blind;
mod closes;
mod extension;
mod fragments;
mod lists;
mod malformed;
mod martians;
mod names;
mod peers;

use base::{DropReason, Duration, Instant};
use wire::tcp::{Flags, Header, Options};

use super::{NOW, account, nothing_is_left, syn};
use crate::pair::PairConfig;
use crate::tests::craft::{Bench, Tcp, parse_tcp, timestamps_option};
use crate::{ListenConfig, ListenerHandle, TcpHandle};

/// The ports of two peers: of the attacked connection's, and of the connection beside it.
const VICTIM: u16 = 2_000;
const BESIDE: u16 = 3_000;

/// The option MSS 1460.
const MSS: [u8; 4] = [2, 4, 0x05, 0xb4];
/// The options MSS 1460 and "SACK permitted".
const SACK: [u8; 8] = [2, 4, 0x05, 0xb4, 4, 2, 1, 1];

/// A stack with a connection that is attacked and one that must not be affected.
struct Scene {
    bench: Bench,
    listener: ListenerHandle,
    victim: TcpHandle,
    /// The next segment of the victim's peer.
    next: Tcp,
    beside: TcpHandle,
    beside_next: Tcp,
    now: Instant,
}

impl Scene {
    /// The victim's peer has these options in its SYN; every setting of the stack is the default.
    fn new(options: &[u8]) -> Scene {
        Scene::with(&PairConfig::new([41, 42]), tcp::Config::default(), options)
    }

    fn with(config: &PairConfig, tcp: tcp::Config, options: &[u8]) -> Scene {
        let mut bench = Bench::new(config);
        let listen = ListenConfig { tcp, backlog: 10_000, ..ListenConfig::default() };
        let listener = bench.stack.tcp_listen(bench.listen_at(80), listen).expect("free");
        let next = open(&mut bench, VICTIM, 60_000, options, NOW);
        let victim = bench.stack.tcp_accept(listener).expect("established");
        let beside_next = open(&mut bench, BESIDE, 60_000, &MSS, NOW);
        let beside = bench.stack.tcp_accept(listener).expect("established");
        Scene { bench, listener, victim, next, beside, beside_next, now: NOW }
    }

    /// Gives the stack a segment; returns all frames that the stack sent in answer, to whomever.
    /// The segment is either delivered or dropped under one reason.
    fn give(&mut self, segment: &Tcp) -> Vec<(Header, Vec<u8>)> {
        let frame = self.bench.tcp_frame(segment);
        parsed(&account(&mut self.bench, &frame, self.now))
    }

    /// Gives a segment that the victim must answer with one bare ACK, which only states the
    /// victim's own position.
    #[track_caller]
    fn is_challenged(&mut self, segment: &Tcp) {
        let answers = self.give(segment);
        assert_eq!(answers.len(), 1, "{segment:?}");
        let (header, payload) = &answers[0];
        assert_eq!((header.flags, header.ack), (Flags::ACK, self.next.seq), "{segment:?}");
        assert_eq!((header.seq, payload.len()), (self.next.ack, 0));
        // Lets the limit of answers in a second recover, since these tests are not about it.
        self.pass(1_001);
    }

    #[track_caller]
    fn is_ignored(&mut self, segment: &Tcp) {
        assert!(self.give(segment).is_empty(), "{segment:?}");
    }

    /// Lets `ms` milliseconds pass; returns what the stack sent meanwhile.
    fn pass(&mut self, ms: u64) -> Vec<(Header, Vec<u8>)> {
        self.now += Duration::from_millis(ms);
        parsed(&self.bench.poll(self.now))
    }

    fn dropped(&self, reason: DropReason) -> u64 {
        self.bench.stack.drops().of(reason)
    }

    fn state(&self) -> tcp::State {
        self.bench.stack.tcp_info(self.victim).expect("kept").state
    }

    /// The bytes of all buffers that the stack holds, of its own pool and of the peer's.
    fn held_bytes(&mut self) -> usize {
        let buffers = self.bench.peers_buffers_out() + self.bench.stack.pool().outstanding();
        buffers * mbuf::Class::K2.stride()
    }

    /// Writes up to `most` bytes, as many as the connection takes; returns their number.
    fn write(&mut self, handle: TcpHandle, most: usize) -> usize {
        let data = vec![0x55; most];
        let mut taken = 0;
        while taken < most {
            match self.bench.stack.tcp_write(handle, &data[taken..]) {
                Ok(n) => taken += n,
                Err(_) => break,
            }
        }
        taken
    }

    /// Everything that was sent, including frames that wait in a burst.
    fn sent(&mut self) -> Vec<(Header, Vec<u8>)> {
        self.bench.stack.flush();
        parsed(&self.bench.sent())
    }

    /// The connection beside the victim moves 500 bytes in each direction.
    #[track_caller]
    fn beside_goes_on(&mut self) {
        let mut request = self.beside_next.clone();
        request.payload = (0..500_u32).map(|i| (i * 7) as u8).collect();
        let frame = self.bench.tcp_frame(&request);
        self.bench.exchange(&frame, self.now);
        self.beside_next.seq += 500;
        let mut into = [0; 600];
        assert_eq!(self.bench.stack.tcp_read(self.beside, &mut into), Ok(500));
        assert_eq!(into[..500], request.payload);
        assert_eq!(self.bench.stack.tcp_write(self.beside, &request.payload), Ok(500));
        let answers = self.sent();
        let ours = answers.iter().filter(|(h, _)| h.dst_port == BESIDE);
        let bytes: Vec<u8> = ours.flat_map(|(_, payload)| payload.clone()).collect();
        assert_eq!(bytes, request.payload);
        self.beside_next.ack += 500;
        let frame = self.bench.tcp_frame(&self.beside_next.clone());
        self.bench.exchange(&frame, self.now);
    }

    /// The victim moves data in both directions, like the connection beside it.
    #[track_caller]
    fn victim_goes_on(&mut self) {
        assert_eq!(self.state(), tcp::State::Established);
        let text = Tcp { payload: b"the truth".to_vec(), ..self.next.clone() };
        self.give(&text);
        self.next.seq += 9;
        let mut into = [0; 20];
        assert_eq!(self.bench.stack.tcp_read(self.victim, &mut into), Ok(9));
        assert_eq!(&into[..9], b"the truth");
    }

    /// After the attack the connection beside the victim works, and once it is closed no state is
    /// left.
    #[track_caller]
    fn end(mut self) {
        self.beside_goes_on();
        nothing_is_left(&mut self.bench, &[self.victim, self.beside], self.now);
    }
}

/// Open a connection from `port` with these options and window; returns the peer's next segment.
fn open(bench: &mut Bench, port: u16, window: u16, options: &[u8], now: Instant) -> Tcp {
    let syn = Tcp { options: options.to_vec(), window, ..syn(port) };
    let frame = bench.tcp_frame(&syn);
    let answer = bench.exchange(&frame, now);
    let (header, _) = parse_tcp(&answer[0]).expect("SYN, ACK");
    assert_eq!(header.flags, Flags::SYN | Flags::ACK);
    // The segment follows the headers of Ethernet and IPv4.
    let said = Options::parse(header.options(&answer[0][34..])).expect("well formed");
    let options = said.timestamps.map_or_else(Vec::new, |ts| timestamps_option(ts.echo, ts.value));
    let (seq, ack) = (syn.seq + 1, header.seq + 1);
    let ack = Tcp { seq, ack, flags: Flags::ACK, options, ..syn };
    let frame = bench.tcp_frame(&ack);
    assert_eq!(bench.exchange(&frame, now).len(), 0);
    ack
}

fn parsed(frames: &[Vec<u8>]) -> Vec<(Header, Vec<u8>)> {
    frames.iter().map(|frame| parse_tcp(frame).expect("TCP")).collect()
}
