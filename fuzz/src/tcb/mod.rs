//! One connection brought anywhere by a script of segments, calls and time, and judged after each
//! step.
//!
//! Called by: the targets `tcb` and `predict`. `script.rs` decodes and plays, `laws.rs` judges, and
//! this file holds the connection, its peer's view and what both streams have to be.

mod laws;
mod script;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};

use base::{Budget, Counters, Duration, Instant, KeyedHash, Limit, Mss, SeqNumber, Switches};
use mbuf::{Mbuf, Pool};
use tcp::handshake::passive_open;
use tcp::{Config, Cx, Opening, Segment, State, Tcb, output, timer, usrreq};
use wire::checksum::{Ladder, Sum};
use wire::tcp::{Flags, Header, Options, timestamps_only};

use laws::Laws;

/// Frames that a device may hold at a time: a connection that sends again meanwhile must copy.
const HELD_MAX: usize = 32;
/// Segments that one visit may send; a connection that goes on for longer goes on for ever.
const VISIT_MAX: usize = 20_000;

/// After this many bytes either stream begins again: a prime, so that a misplaced segment shows.
const PERIOD: usize = 65_521;
/// The most of it that is looked at in one piece.
const PIECE_MAX: usize = 1 << 18;

/// The bytes of either stream at a position. They come from a table, because a loop over bytes is
/// slow when each of its comparisons is watched.
fn stream(at: u64, len: usize) -> &'static [u8] {
    static TABLE: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let mut rng = device::fault::Rng::new(7);
        let once: Vec<u8> = (0..PERIOD).map(|_| rng.below(256) as u8).collect();
        once.iter().copied().cycle().take(PERIOD + PIECE_MAX).collect()
    });
    // Bytes before the beginning, which a segment may claim, end where the stream begins.
    let from = (at as i64).rem_euclid(PERIOD as i64) as usize;
    &TABLE[from..from + len]
}

/// Any bytes as a script.
pub fn any_state(data: &[u8]) {
    script::play(data, false);
}

/// The same script twice, once with header prediction: not a byte of the sent segments may differ.
pub fn predict_equals_input(data: &[u8]) {
    let (plain, predicted) = (script::play(data, false), script::play(data, true));
    for (number, (plain, predicted)) in plain.rows.iter().zip(&predicted.rows).enumerate() {
        assert_eq!(plain, predicted, "prediction differs in row {number}");
    }
    assert_eq!(plain.rows.len(), predicted.rows.len(), "one goes on where the other ends");
}

/// The record of a run: a line for each segment sent and each answer to a call.
#[derive(Default)]
pub(crate) struct Transcript {
    rows: Vec<String>,
}

/// A connection and all that is known of it outside.
pub(crate) struct Bench {
    cx: Cx,
    tcb: Tcb,
    laws: Laws,
    predict: bool,
    /// Where the peer's stream begins, once its SYN was taken.
    irs: Option<SeqNumber>,
    written: u64,
    read: u64,
    /// Frames that the device has not sent yet.
    held: VecDeque<Mbuf>,
    /// Buffers that are withheld from the connection.
    withheld: Vec<Mbuf>,
    transcript: Transcript,
}

/// The start of a bench.
pub(crate) struct Start {
    config: Config,
    opening: Opening,
    switches: Switches,
    pool_bytes: usize,
    predict: bool,
    now: Instant,
}

impl Bench {
    fn cx(start: &Start) -> Cx {
        let mut budget = Budget::default();
        budget.set(Limit::MbufBytes, start.pool_bytes);
        budget.set(Limit::ReassemblySegments, 64);
        budget.set(Limit::SackRanges, 32);
        Cx {
            now: start.now,
            now_ms: start.now.as_millis() as u32,
            pool: Pool::new(start.pool_bytes),
            counters: Counters::default(),
            budget,
            switches: start.switches,
            ladder: Ladder::Word64,
            secret: KeyedHash::new(1, 2),
        }
    }

    fn around(start: &Start, cx: Cx, tcb: Tcb, irs: Option<SeqNumber>) -> Bench {
        Bench {
            laws: Laws::new(&start.opening, &start.config),
            cx,
            tcb,
            predict: start.predict,
            irs,
            written: 0,
            read: 0,
            held: VecDeque::new(),
            withheld: Vec::new(),
            transcript: Transcript::default(),
        }
    }

    /// A bench whose connection connects.
    fn connect(start: &Start) -> Bench {
        let mut cx = Bench::cx(start);
        let tcb = usrreq::connect(&Arc::new(start.config), &start.opening, &mut cx);
        Bench::around(start, cx, tcb, None)
    }

    /// A bench whose connection accepts this SYN.
    fn listen(start: &Start, syn: &Segment, options: &Options) -> Bench {
        let mut cx = Bench::cx(start);
        let config = Arc::new(start.config);
        let tcb = passive_open(&config, &start.opening, syn, options, &mut cx);
        Bench::around(start, cx, tcb, Some(syn.seq))
    }

    fn note(&mut self, what: impl FnOnce() -> String) {
        self.transcript.rows.push(what());
    }

    /// A segment comes; its payload is what the peer's stream has at that place.
    fn segment(&mut self, seg: &Segment, options: &Options) {
        let is_syn = seg.flags.contains(Flags::SYN);
        let first = seg.seq + u32::from(is_syn);
        let distance = i64::from(first.since(self.next_in_stream(seg)));
        let offset = self.tcb.info().bytes_received.wrapping_add_signed(distance);
        let Some(m) = self.cx.pool.copy_of(stream(offset, seg.len as usize)) else { return };
        let was_waiting = self.tcb.state == State::SynSent;
        let plain = options.sack.is_empty()
            && options.mss.is_none()
            && options.window_scale.is_none()
            && !options.sack_permitted;
        if self.predict && plain && tcp::predict::matches(&self.tcb, seg) {
            tcp::predict::accept(&mut self.tcb, seg, m, &mut self.cx);
        } else {
            let fate = tcp::input(&mut self.tcb, seg, options, m, &mut self.cx);
            if fate.is_err() {
                self.note(|| format!("dropped: {fate:?}"));
            }
        }
        if was_waiting && self.tcb.state != State::SynSent && is_syn {
            self.irs = Some(seg.seq);
        }
        if self.tcb.is_embryonic() && self.tcb.state != State::SynReceived {
            self.tcb.handshake_ended();
        }
    }

    /// The sequence number of the next byte of the peer's stream: RCV.NXT without its FIN; before
    /// its SYN was taken, the number by `seg`, if that is the SYN.
    fn next_in_stream(&self, seg: &Segment) -> SeqNumber {
        match self.irs {
            None => seg.seq + 1,
            Some(_) => self.tcb.rcv_nxt - u32::from(self.tcb.receive_finished()),
        }
    }

    /// A part of a write behind which this many bytes follow.
    fn write(&mut self, len: usize, behind: usize) {
        let done = usrreq::write(&mut self.tcb, stream(self.written, len), behind, &mut self.cx);
        if done.is_ok() && behind > 0 {
            usrreq::rest_follows(&mut self.tcb);
        }
        self.written += done.unwrap_or(0) as u64;
        self.note(|| format!("write {len}, {behind} behind it: {done:?}"));
    }

    fn write_mbuf(&mut self, len: usize) {
        let len = len.min(usrreq::unit_bytes(&self.tcb)).min(65_000);
        let Some(m) = self.cx.pool.copy_of(stream(self.written, len)) else { return };
        match usrreq::write_mbuf(&mut self.tcb, m, None, &mut self.cx) {
            Ok(()) => self.written += len as u64,
            Err((_, m)) => self.cx.pool.free(m),
        }
    }

    fn read(&mut self, len: usize) {
        let mut into = vec![0; len];
        if let Ok(n) = usrreq::peek(&mut self.tcb, &mut into) {
            self.expect(&into[..n]);
        }
        let done = usrreq::read(&mut self.tcb, &mut into, &mut self.cx);
        let n = done.unwrap_or(0);
        self.expect(&into[..n]);
        self.read += n as u64;
        self.note(|| format!("read {len}: {done:?}"));
    }

    fn read_mbuf(&mut self) {
        if let Ok(Some(m)) = usrreq::read_mbuf(&mut self.tcb, &mut self.cx) {
            self.expect(m.as_slice());
            self.read += m.len() as u64;
            self.cx.pool.free(m);
        }
    }

    /// Check that the bytes that were read are those of the peer's stream.
    fn expect(&self, bytes: &[u8]) {
        let right = bytes == stream(self.read, bytes.len());
        assert!(right, "{} bytes at {} of the peer's stream", bytes.len(), self.read);
    }

    fn wait(&mut self, by: Duration) {
        self.cx.now += by;
        self.cx.now_ms = self.cx.now.as_millis() as u32;
        // One timer may start another, as a probe that is turned off starts the time-out.
        for _ in 0..4 {
            if self.tcb.next_deadline() > self.cx.now {
                return;
            }
            timer::expire(&mut self.tcb, &mut self.cx);
        }
        assert!(self.tcb.next_deadline() > self.cx.now, "a deadline that stays due");
    }

    /// Wait for the next deadline, if there is one.
    fn wait_for_deadline(&mut self) {
        let next = self.tcb.next_deadline();
        if next != Instant::NEVER {
            self.wait(next.since(self.cx.now));
        }
    }

    /// A visit, as the stack makes one after a burst: everything that may leave leaves.
    fn visit(&mut self) {
        let mut run = output::Run::default();
        let window = self.tcb.snd_una + self.tcb.snd_wnd;
        let fresh = self.tcb.snd_nxt;
        let mut count = 0;
        while let Some(m) = output::next(&mut self.tcb, &mut run, &mut self.cx) {
            self.sent(&m, window, fresh);
            self.hold(m);
            count += 1;
            assert!(count < VISIT_MAX, "a connection that sends for ever");
        }
        output::close(&mut self.tcb, run.segments(), &mut self.cx);
        let events = self.tcb.events.take();
        if events.0 != 0 {
            self.note(|| format!("events {:#x}", events.0));
        }
    }

    fn sent(&mut self, m: &Mbuf, window: SeqNumber, fresh: SeqNumber) {
        let header = Header::parse(m.as_slice()).expect("a TCP header");
        let area = header.options(m.as_slice());
        let options = Options::parse(area).expect("options");
        assert!(timestamps_only(area).is_none_or(|ts| options.timestamps == Some(ts)));
        let payload = &m.as_slice()[header.header_len..];
        self.laws.sent(&self.tcb, &self.cx, m, &header, &options, (window, fresh));
        if !payload.is_empty() {
            let at = self.laws.place(header.seq);
            assert!(at + payload.len() as u64 <= self.written, "more than was written, at {at}");
            let right = payload == stream(at, payload.len());
            assert!(right, "{} bytes at {at} of our stream", payload.len());
        }
        let size = m.segment_size();
        let len = payload.len();
        self.note(|| format!("sent {header:?} {options:?} {len} bytes by {size}"));
    }

    /// Give a frame to the device.
    fn hold(&mut self, m: Mbuf) {
        self.held.push_back(m);
        if self.held.len() > HELD_MAX {
            self.device_sends(1);
        }
    }

    fn device_sends(&mut self, count: usize) {
        for _ in 0..count {
            let Some(m) = self.held.pop_front() else { return };
            self.cx.pool.free(m);
        }
    }

    /// Take all buffers that are left, or give them back.
    fn exhaust(&mut self, take: bool) {
        if take {
            while let Some(m) = self.cx.pool.alloc(2_000) {
                self.withheld.push(m);
                if self.withheld.len() > 1_000 {
                    break;
                }
            }
        } else {
            self.withheld.drain(..).for_each(|m| self.cx.pool.free(m));
        }
    }

    fn check(&mut self) {
        self.laws.check(&self.tcb, &self.cx);
    }

    /// The end: everything is given back.
    fn finish(mut self) -> Transcript {
        let info = self.tcb.info();
        self.note(|| format!("at the end {info:?}"));
        usrreq::clear(&mut self.tcb, &mut self.cx);
        self.device_sends(usize::MAX);
        self.exhaust(false);
        drop(self.tcb);
        assert_eq!(self.cx.pool.outstanding(), 0, "buffers that nobody gave back");
        assert_eq!(self.cx.budget.reserved(Limit::ReceiveBufferBytes), 0, "budget not given back");
        self.transcript
    }
}

/// The opening of every connection here, but for a script's changes.
pub(crate) fn opening() -> Opening {
    Opening {
        mss: Mss(1460),
        link_mss: Mss(1460),
        path: None,
        default_mss: Mss::DEFAULT_V4,
        super_max_bytes: 0,
        offload_checksum: false,
        pseudo_sum: Sum::of_be16(0x1357),
        ports: (80, 4_000),
        ts_offset: 0x8000_0000,
        iss: SeqNumber(u32::MAX - 2_000),
    }
}
