//! Random traffic for the twins: mostly that of a correct peer, often with one fault.

use base::{Counter, Duration, Instant, IpVersion, Limit, Mtu, SeqNumber, Switch};
use wire::tcp::Flags;

use super::guards::{GUARDS, refusals};
use super::twins::Twins;
use crate::pair::PairConfig;
use crate::tests::craft::{Rng, Tcp, parse_tcp, timestamps_option};
use crate::{Event, ListenConfig, TcpHandle};

mod segments;
mod users;

/// Counts of the cases that a traffic has exercised.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) predicted: u64,
    pub(super) followed: u64,
    /// Segments that followed a leader although frames of other flows arrived in between.
    pub(super) followed_apart: u64,
    pub(super) stamped: u64,
    pub(super) refused_alone: [u64; GUARDS.len()],
    /// Connections whose receive or send sequence numbers passed zero.
    pub(super) wrapped: [u64; 2],
}

impl Seen {
    pub(super) fn add(&mut self, other: &Seen) {
        self.predicted += other.predicted;
        self.followed += other.followed;
        self.followed_apart += other.followed_apart;
        self.stamped += other.stamped;
        let sums = self.refused_alone.iter_mut().chain(&mut self.wrapped);
        for (sum, n) in sums.zip(other.refused_alone.iter().chain(&other.wrapped)) {
            *sum += n;
        }
    }
}

/// The peer's side of one connection.
struct Peer {
    handle: TcpHandle,
    /// The peer's port and the stack's, as in segments from the peer.
    ports: (u16, u16),
    irs: SeqNumber,
    iss: SeqNumber,
    timestamps: bool,
    window: u16,
    /// The user still holds the handle.
    held: bool,
    late: u32,
}

pub(super) struct Traffic {
    rng: Rng,
    twins: Twins,
    peer: Option<Peer>,
    handles: Vec<TcpHandle>,
    config: tcp::Config,
    next_port: u16,
    clock_offset: u32,
    seen: Seen,
}

impl Traffic {
    pub(super) fn new(seed: u64) -> Traffic {
        let mut rng = Rng(seed.wrapping_mul(0x1234_5678_9abc_def1));
        let mut config = PairConfig::new([seed, 7]);
        config.version = if rng.one_in(4) { IpVersion::V6 } else { IpVersion::V4 };
        config.wire.mtu = Mtu::new(rng.pick(&[1280, 1500, 1500, 9000])).expect("in range");
        config.wire.depth = rng.pick(&[4, 64, 1024]);
        for switch in [Switch::BurstAck, Switch::SendSpace, Switch::FlowCache] {
            let on = !rng.one_in(4);
            config.stack.switches = config.stack.switches.with(switch, on);
        }
        let mut tcp = tcp::Config {
            receive_buffer_bytes: rng.pick(&[2_000, 8_000, 60_000, 512 * 1024]),
            receive_buffer_max_bytes: 0,
            no_delay: rng.one_in(2),
            keepalive_idle: rng.one_in(4).then_some(Duration::from_secs(3)),
            ..tcp::Config::default()
        };
        config.stack.budget.set(Limit::ReassemblySegments, rng.pick(&[3, 100]));
        tcp.algorithm = rng.pick(tcp::cc::Algorithm::ALL);
        let listen = ListenConfig { tcp, ..ListenConfig::default() };
        let mut twins = Twins::new(&config, &listen, Instant::from_nanos(1));
        twins.seed = seed;
        let next_port = 1_000 + rng.below(1_000) as u16;
        twins.now = start(&mut rng, &twins, next_port + 1);
        let wrap_ms: u32 = rng.pick(&[0, 1 << 31, 12_345]);
        let now_ms = twins.now.as_millis() as u32;
        let clock_offset = wrap_ms.wrapping_sub(now_ms).wrapping_sub(rng.below(500));
        Traffic {
            rng,
            twins,
            peer: None,
            handles: Vec::new(),
            config: tcp,
            next_port,
            clock_offset,
            seen: Seen::default(),
        }
    }

    /// Takes one random step; both stacks must show the same results.
    pub(super) fn step(&mut self) {
        match self.peer.is_some() {
            false => self.open(),
            true => match self.rng.below(100) {
                0..70 => self.segments(),
                70..90 => self.user(),
                _ => self.pass_time(),
            },
        }
        let drain = !self.rng.one_in(10);
        let events = self.twins.compare(&self.handles, drain);
        for event in events {
            if let Event::Accept(listener) = event {
                // A stray SYN may have opened a connection.
                let stray = self.twins.call("accept", |stack| stack.tcp_accept(listener));
                self.handles.extend(stray);
            }
        }
        self.forget_the_dead();
    }

    fn pass_time(&mut self) {
        let ms = match self.rng.below(100) {
            0..60 => self.rng.below(3),
            60..85 => 45,
            85..96 => 250 + self.rng.below(1_000),
            96..99 => 4_000,
            _ => 130_000,
        };
        self.twins.now += Duration::from_millis(u64::from(ms)) + Duration::from_micros(70);
        self.twins.log.push(format!("{ms} ms"));
        self.twins.poll();
    }

    /// Opens a connection, from the peer or from the stack, and establishes it within this step.
    fn open(&mut self) {
        self.next_port += 1;
        let passive = !self.rng.one_in(4);
        let irs = SeqNumber(self.rng.pick(&[0, 0x7fff_ffff, 77])) - self.rng.below(40_000);
        let timestamps = !self.rng.one_in(3);
        let mut syn = Tcp {
            ports: (self.next_port, 80),
            seq: irs,
            ack: SeqNumber(0),
            flags: self.rng.pick(&[Flags::SYN, Flags::SYN | Flags::ECE | Flags::CWR]),
            window: self.rng.pick(&[500, 3_000, 65_535]),
            urgent: 0,
            options: self.syn_options(timestamps),
            payload: Vec::new(),
        };
        let mut handle = None;
        if !passive {
            let config = self.config;
            handle = self.twins.connect(&config);
            let Some((header, _)) = self.newest() else { return };
            syn.ports = (header.dst_port, header.src_port);
            (syn.flags, syn.ack) = (Flags::SYN | Flags::ACK, header.seq + 1);
        }
        let frame = self.twins.on.tcp_frame(&syn);
        self.twins.inject(&frame);
        self.twins.poll();
        let Some((answer, _)) = self.newest() else { return };
        let iss = if passive { answer.seq } else { answer.seq - 1 };
        if passive {
            let ack = Tcp { seq: irs + 1, ack: iss + 1, flags: Flags::ACK, ..syn.clone() };
            let options = self.timestamps(timestamps);
            let frame = self.twins.on.tcp_frame(&Tcp { options, ..ack });
            self.twins.inject(&frame);
            self.twins.poll();
            let listener = self.twins.listener;
            handle = self.twins.call("accept", |stack| stack.tcp_accept(listener));
        }
        let Some(handle) = handle else { return };
        self.handles.push(handle);
        let (ports, window) = (syn.ports, syn.window);
        let (held, late) = (true, 0);
        let peer = Peer { handle, ports, irs, iss, timestamps, window, held, late };
        self.peer = Some(peer);
    }

    /// The newest segment that both stacks have sent.
    fn newest(&mut self) -> Option<(wire::tcp::Header, Vec<u8>)> {
        let (on, off) = (self.twins.on.sent(), self.twins.off.sent());
        assert_eq!(on, off);
        parse_tcp(on.last()?)
    }

    fn syn_options(&mut self, timestamps: bool) -> Vec<u8> {
        let mss = self.rng.pick(&[100u16, 536, 1_220, 1_460]).to_be_bytes();
        let mut options = vec![2, 4, mss[0], mss[1]];
        if !self.rng.one_in(3) {
            options.extend_from_slice(&[1, 1, 4, 2]);
        }
        if !self.rng.one_in(3) {
            options.extend_from_slice(&[1, 3, 3, self.rng.below(5) as u8]);
        }
        options.extend(self.timestamps(timestamps));
        options
    }

    fn timestamps(&self, agreed: bool) -> Vec<u8> {
        if agreed { timestamps_option(self.clock(), 0) } else { Vec::new() }
    }

    /// The peer's timestamp clock.
    fn clock(&self) -> u32 {
        (self.twins.now.as_millis() as u32).wrapping_add(self.clock_offset)
    }

    /// A closed connection gets some late segments; then the next connection is opened.
    fn forget_the_dead(&mut self) {
        let Some(peer) = &mut self.peer else { return };
        let open = self.twins.on.stack.connections.get(peer.handle).filter(|p| p.in_table);
        if let Some(pcb) = open {
            self.seen.wrapped[0] += u64::from(pcb.tcb.rcv_nxt.0 < peer.irs.0);
            self.seen.wrapped[1] += u64::from(pcb.tcb.snd_nxt.0 < peer.iss.0);
            return;
        }
        peer.late += 1;
        if peer.late < 4 {
            return;
        }
        let (handle, held) = (peer.handle, peer.held);
        if held {
            self.twins.call("close after the end", |stack| stack.tcp_close(handle));
        }
        self.peer = None;
        self.handles.retain(|h| *h != handle);
    }

    /// Records which guards refuse a segment that both stacks are about to get.
    fn note(&mut self, segment: &Tcp, ce: bool, handle: TcpHandle) -> Option<bool> {
        let ports = self.peer.as_ref()?.ports;
        let pcb = self.twins.on.stack.connections.get(handle).filter(|p| p.in_table)?;
        if segment.ports != ports {
            return None;
        }
        let refused = refusals(&pcb.tcb, segment, ce);
        if refused.iter().filter(|r| **r).count() == 1 {
            for (n, refused) in self.seen.refused_alone.iter_mut().zip(refused) {
                *n += u64::from(refused);
            }
        }
        Some(refused.contains(&true))
    }

    fn predicted(&self) -> u64 {
        self.twins.on.stack.counters().of(Counter::TcpPredicted)
    }

    /// Closes everything; no state is left in either stack.
    pub(super) fn finish(mut self) -> Seen {
        self.seen.predicted = self.predicted();
        self.seen.followed = self.twins.on.stack.counters().of(Counter::TcpFollowed);
        self.seen.stamped = self.twins.on.stack.counters().of(Counter::TcpStamped);
        assert_eq!(self.twins.off.stack.counters().of(Counter::TcpPredicted), 0);
        for handle in core::mem::take(&mut self.handles) {
            self.twins.call("abort", |stack| stack.tcp_abort(handle));
        }
        let listener = self.twins.listener;
        self.twins.call("unlisten", |stack| stack.tcp_unlisten(listener));
        // Half-open connections time out, and orphans probe for a while.
        for _ in 0..60 {
            self.twins.compare(&[], true);
            if self.twins.on.stack.connection_count() == 0 {
                break;
            }
            self.twins.now += Duration::from_secs(30);
            self.twins.poll();
        }
        // Frames that wait for their departure, or that a short ring pushed back, leave; at the end
        // of a burst the peer's buffers are returned.
        for _ in 0..8 * device::BURST {
            self.twins.now += Duration::from_millis(1);
            self.twins.poll();
            self.twins.compare(&[], true);
        }
        for bench in [&mut self.twins.on, &mut self.twins.off] {
            assert_eq!(bench.stack.connection_count(), 0, "seed {}", self.twins.seed);
            assert_eq!(bench.stack.pool().outstanding(), 0, "seed {}", self.twins.seed);
            assert_eq!(bench.peers_buffers_out(), 0, "seed {}", self.twins.seed);
        }
        self.seen
    }
}

/// When the first connection's SYN is sent: at a time when the clock of the ISNs (RFC 6528, a tick
/// is 4 us) is close to its wrap, so that the stack's sequence numbers soon wrap.
fn start(rng: &mut Rng, twins: &Twins, port: u16) -> Instant {
    let bench = &twins.on;
    let secret = &bench.stack.core.secret;
    let key = inet::FlowKey::new(bench.ours, 80, bench.theirs, port);
    let at = Instant::from_nanos(4_000_000_000);
    let iss = tcp::isn::initial_sequence_number(secret, [key.hash(secret), 1], at);
    let ticks = 0u32.wrapping_sub(iss.0).wrapping_sub(1 + rng.below(60_000));
    at + Duration::from_nanos(u64::from(ticks) * 4_000)
}
