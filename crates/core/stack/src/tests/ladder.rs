//! Ladder tests: one real stack; the script is the other end of the wire, a line for each segment.
//!
//! A script calls `t.send(seg().seq(1).ack(1).data(1000))`, `t.expect(seg().seq(1).ack(1001))` and
//! `t.silence(ms)`, and makes user calls in between. Time is virtual. An expectation that fails
//! prints the wanted segment, the segment seen, and the ladder so far. Each test is named after the
//! feature that it shows.

mod acks;
mod buffers;
mod congestion;
mod duplicates;
mod ecn;
mod fast_open;
mod losses;
mod opening;
mod options;
mod pacing;
mod path_mtu;
mod persist;
mod recovery;
mod requirements;
mod resets;
mod seg;
mod states;
mod statistics;
mod supers;
mod time_wait;
mod timers;
mod units;
mod urgent;
mod user;
mod user_timeout;
mod windows;
mod wire_end;
mod writes;

use core::net::SocketAddr;
use std::collections::VecDeque;

use base::{Counter, DropReason, Duration, Instant, IpVersion, Limit, Owner, Switch, WindowScale};
use tcp::usrreq::CallError;
use tcp::{Info, State};

use crate::pair::{End, PairConfig};
use crate::{Event, ListenConfig, ListenerHandle, TcpHandle};
use seg::{Seg, seg, syn, syn_ack};
use wire_end::WireEnd;

/// The script's port. The stack listens on port 80, and connects from a random port.
const PEER_PORT: u16 = 4000;
const LISTEN_PORT: u16 = 80;

/// The settings at the start of a ladder: no options, MTU 1500, and an MSS of 1000 from the peer.
struct Setup {
    pair: PairConfig,
    tcp: tcp::Config,
    backlog: usize,
    /// The peer's SYN.
    syn: Seg,
    /// The handshake's round trip in milliseconds.
    rtt: u64,
}

impl Setup {
    fn plain() -> Setup {
        let mut pair = PairConfig::new([0x1d, 0x2e]);
        pair.wire.link = base::LinkKind::Ip;
        let tcp = tcp::Config {
            timestamps: false,
            sack: false,
            window_scaling: false,
            receive_buffer_bytes: 65_535,
            receive_buffer_max_bytes: 0,
            send_buffer_max_bytes: 0,
            ..tcp::Config::default()
        };
        Setup { pair, tcp, backlog: 8, syn: syn().win(65_535).mss(1000), rtt: 0 }
    }

    fn sack(mut self) -> Setup {
        self.tcp.sack = true;
        self.syn = self.syn.sack_ok(true);
        self
    }

    /// Timestamps: the MSS option grows so that segments still hold 1000 bytes.
    fn ts(mut self) -> Setup {
        self.tcp.timestamps = true;
        self.syn = self.syn.ts(1000, 0).mss(1012);
        self
    }

    fn ws(mut self, shift: u8) -> Setup {
        self.tcp.window_scaling = true;
        self.syn = self.syn.ws(shift);
        self
    }

    fn peer_window(mut self, bytes: u16) -> Setup {
        self.syn = self.syn.win(bytes);
        self
    }

    /// A path with a long round trip and without pacing, which has its tests in `pacing.rs`.
    fn rtt(mut self, ms: u64) -> Setup {
        self.rtt = ms;
        self.off(Switch::Pacing)
    }

    fn tcp(mut self, change: impl FnOnce(&mut tcp::Config)) -> Setup {
        change(&mut self.tcp);
        self
    }

    fn limit(mut self, limit: Limit, value: usize) -> Setup {
        self.pair.stack.budget.set(limit, value);
        self
    }

    fn off(mut self, switch: Switch) -> Setup {
        self.pair.stack.switches = self.pair.stack.switches.with(switch, false);
        self
    }

    fn ladder(self) -> Ladder {
        Ladder::new(self)
    }

    /// A connection that the peer opened and the stack's user accepted.
    fn established(self) -> Ladder {
        let mut t = self.ladder();
        t.listen();
        t.handshake();
        t.accept();
        t
    }
}

/// The script's end of a connection, and the stack at the other end.
struct Ladder {
    end: End,
    wire: WireEnd,
    setup: Setup,
    now: Instant,
    start: Instant,
    listener: Option<ListenerHandle>,
    handle: Option<TcpHandle>,
    seen: VecDeque<(Instant, Seg)>,
    events: Vec<Event>,
    log: Vec<String>,
    /// The window field of sent segments that set none.
    win: u16,
    written: usize,
    read: usize,
}

impl Ladder {
    fn new(setup: Setup) -> Ladder {
        let (end, wire) = WireEnd::new(&setup.pair);
        let start = Instant::from_nanos(5_000_000_000);
        let win = setup.syn.win.unwrap_or(65_535);
        let mut t = Ladder {
            end,
            wire,
            setup,
            now: start,
            start,
            listener: None,
            handle: None,
            seen: VecDeque::new(),
            events: Vec::new(),
            log: Vec::new(),
            win,
            written: 0,
            read: 0,
        };
        t.poll();
        t
    }

    // Segments on the wire.

    /// Sends one segment.
    fn send(&mut self, line: Seg) {
        self.burst(&[line]);
    }

    /// Sends several segments, which arrive in one burst.
    fn burst(&mut self, lines: &[Seg]) {
        for line in lines {
            let line = self.wire.complete(line, self.win, self.now);
            self.note(&format!("> {line}"));
            self.wire.send(&line);
        }
        self.poll();
    }

    /// Asserts that the next segment that the stack sent is this one.
    #[track_caller]
    fn expect(&mut self, wanted: Seg) -> Seg {
        match self.seen.pop_front() {
            Some((_, seen)) if wanted.holds_for(&seen) => seen,
            Some((_, seen)) => self.fail(&format!("expected {wanted}\n    seen {seen}")),
            None => self.fail(&format!("expected {wanted}\n    seen nothing")),
        }
    }

    /// Asserts that the stack sent no (more) segments.
    #[track_caller]
    fn nothing(&mut self) {
        if let Some((_, seen)) = self.seen.pop_front() {
            self.fail(&format!("expected nothing\n    seen {seen}"));
        }
    }

    /// Asserts that the stack sends no segment for `ms` milliseconds.
    #[track_caller]
    fn silence(&mut self, ms: u64) {
        self.nothing();
        self.run_until(self.now + Duration::from_millis(ms), true);
        self.nothing();
    }

    /// Lets time pass.
    fn pass(&mut self, ms: u64) {
        self.run_until(self.now + Duration::from_millis(ms), false);
    }

    /// Asserts that no segment is sent for `ms` milliseconds, and then this one, at most three
    /// timer ticks later.
    #[track_caller]
    fn expect_after(&mut self, ms: u64, wanted: Seg) -> Seg {
        self.nothing();
        let from = self.now;
        self.run_until(from + Duration::from_millis(ms + 4), true);
        let waited = self.now.since(from).as_millis();
        let seen = self.expect(wanted);
        if waited < ms {
            self.fail(&format!("expected after {ms} ms, seen after {waited}: {seen}"));
        }
        seen
    }

    /// All segments that the stack has sent and that the script has not expected yet.
    fn take_seen(&mut self) -> Vec<Seg> {
        self.seen.drain(..).map(|(_, s)| s).collect()
    }

    fn run_until(&mut self, until: Instant, stop_when_seen: bool) {
        loop {
            let next = self.end.stack.next_deadline();
            if next > until {
                break;
            }
            self.now = self.now.max(next);
            self.poll();
            if stop_when_seen && !self.seen.is_empty() {
                return;
            }
        }
        self.now = until;
        self.poll();
    }

    fn poll(&mut self) {
        self.end.stack.poll(self.now);
        self.collect();
    }

    fn collect(&mut self) {
        while let Some(event) = self.end.stack.next_event() {
            self.events.push(event);
        }
        for seen in {
            self.end.stack.flush();
            self.wire.receive()
        } {
            self.note(&format!("< {seen}"));
            self.seen.push_back((self.now, seen));
        }
    }

    fn note(&mut self, line: &str) {
        let at = self.now.since(self.start).as_micros();
        self.log.push(format!("{:>6}.{:03} {line}", at / 1000, at % 1000));
    }

    #[track_caller]
    fn fail(&self, why: &str) -> ! {
        panic!("{why}\n  the ladder so far:\n    {}", self.log.join("\n    "));
    }
}
