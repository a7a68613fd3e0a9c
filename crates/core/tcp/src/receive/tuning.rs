//! Receive buffer auto-tuning: the buffer grows while the program reads as much per round trip as
//! arrives.
//!
//! Called by: usrreq, after each read; handshake. predict and input store the echo of the last
//! segment here. After Fisk and Feng, "Dynamic right-sizing in TCP" (2001); RFC 7323 (echoes); RFC
//! 9293 section 3.8.6 (an offered window is not taken back). Limit: `receive_buffer_bytes`.
//! Decision 0027.

use base::{Instant, Limit};

use crate::Cx;
use mbuf::Pool;

use crate::config::Config;
use crate::marks::Marks;
use crate::tcb::Tcb;

/// Minimum of a tuned receive buffer: the window of a SYN is of this size, and a unit of the
/// largest window scale (RFC 7323) is a quarter of it.
const LEAST_BYTES: u32 = 64 * 1024;

/// The part of the buffer that must take longer than a round trip to arrive: a quarter. A sender in
/// slow start sends twice as much in the next round trip, and twice that again before our larger
/// window reaches it.
const PART: u32 = 4;

/// When the measured round trip is longer than the estimate, only this part of the difference is
/// added. So the estimate follows a growing queue but not a pause of the sending program.
const RISE_PART: u64 = 16;

/// Echoes have millisecond resolution: below 2 ms they are not a measurement.
const CLEAR_MS: u32 = 2;

/// The round trip assumed when nothing is known: there are no timestamps, and a SYN was lost.
const UNKNOWN_US: u64 = 100_000;

/// How much the reader of a connection has taken, and how fast.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tuning {
    /// When the current part began to arrive.
    since: Instant,
    /// Bytes received by `since`, modulo 2^32.
    arrived_then: u32,
    /// The part, in bytes.
    part_bytes: u32,
    /// The round trip estimated by the receiver, in microseconds; 0 if unknown.
    rtt_us: u32,
    /// TSecr of the last segment: the TSval of the ACK that triggered it.
    pub(crate) echo: u32,
}

impl Tuning {
    /// Before any measurement.
    pub(crate) fn new(config: &Config) -> Tuning {
        let part_bytes = start_bytes(config) / PART;
        Tuning { since: Instant::ZERO, arrived_then: 0, part_bytes, rtt_us: 0, echo: 0 }
    }
}

/// The initial receive buffer in bytes.
pub(crate) fn start_bytes(config: &Config) -> u32 {
    let least = if receive_most(config) > 0 { LEAST_BYTES } else { 0 };
    config.receive_buffer_bytes.max(least)
}

/// The maximum receive buffer in bytes; 0 if its size is fixed.
fn receive_most(config: &Config) -> u32 {
    let most = config.receive_buffer_max_bytes;
    if most > config.receive_buffer_bytes.max(LEAST_BYTES) { most } else { 0 }
}

/// The user has read data. Once a part of the buffer has arrived since the last tuning look, take
/// another.
#[inline(always)]
pub(crate) fn after_read(tcb: &mut Tcb, cx: &mut Cx) {
    let arrived = tcb.stats.bytes_received as u32;
    if arrived.wrapping_sub(tcb.tuning.arrived_then) >= tcb.tuning.part_bytes {
        look(tcb, cx);
    }
}

/// A part of the buffer has arrived. If that took less than a round trip and the reader keeps up,
/// the buffer limits the throughput: double it.
#[cold]
#[inline(never)]
fn look(tcb: &mut Tcb, cx: &mut Cx) {
    let elapsed_us = cx.now.since(tcb.tuning.since).as_micros();
    if elapsed_us == 0 {
        // The clock does not advance within a burst: no measurement yet.
        return;
    }
    let first = tcb.tuning.since == Instant::ZERO;
    tcb.tuning.since = cx.now;
    tcb.tuning.arrived_then = tcb.stats.bytes_received as u32;
    if receive_most(&tcb.config) == 0 {
        return;
    }
    measure(tcb, cx);
    // Without window scaling a larger buffer is of no use.
    let most = receive_most(&tcb.config).min(tcb.rcv_wscale.unscale(u16::MAX));
    let limit = tcb.receive.limit_bytes() as u32;
    let fast = !first && elapsed_us <= u64::from(tcb.tuning.rtt_us);
    let keeps_up = tcb.receive.len() <= limit as usize / 2;
    if under_memory_pressure(&cx.pool) {
        // An offered window is not taken back: the right edge stays until the smaller window fits.
        resize(tcb, (limit / 2).max(LEAST_BYTES), cx);
    } else if fast && keeps_up && limit < most {
        resize(tcb, limit.saturating_mul(2).min(most), cx);
    }
}

/// Is more than three quarters of the buffer memory in use?
fn under_memory_pressure(pool: &Pool) -> bool {
    pool.in_use_bytes() > pool.limit_bytes() / 4 * 3
}

/// Update the round trip estimate: at first from the handshake or data of ours, then from the echo
/// of the last segment. Without timestamps the first estimate stays.
fn measure(tcb: &mut Tcb, cx: &Cx) {
    let known = match tcb.tuning.rtt_us {
        0 => tcb.rtt.min().as_nanos().div_ceil(1000),
        us => u64::from(us),
    };
    let echo_ms = tcb.ts_value(cx).wrapping_sub(tcb.tuning.echo);
    let sample = match (tcb.marks.has(Marks::TIMESTAMPS), known) {
        (true, _) if echo_ms >= CLEAR_MS => u64::from(echo_ms) * 1000,
        // The echo is too coarse; the handshake measured better.
        (true, 0) => 1000,
        (true, known) => known.min(1000),
        (false, 0) => UNKNOWN_US,
        (false, known) => known,
    };
    let rtt = if known == 0 || sample < known {
        sample
    } else {
        known + (sample.min(2 * known) - known).div_ceil(RISE_PART)
    };
    tcb.tuning.rtt_us = u32::try_from(rtt).unwrap_or(u32::MAX);
}

/// Receive buffer bytes reserved in the stack's budget: what tuning added.
fn added(tcb: &Tcb) -> usize {
    if receive_most(&tcb.config) == 0 {
        return 0;
    }
    tcb.receive.limit_bytes().saturating_sub(start_bytes(&tcb.config) as usize)
}

/// Resize the receive buffer, if the budget admits it.
fn resize(tcb: &mut Tcb, bytes: u32, cx: &mut Cx) {
    let before = added(tcb);
    let after = bytes.saturating_sub(start_bytes(&tcb.config)) as usize;
    if after > before {
        let most = cx.budget.of(Limit::MbufBytes) / 2;
        if !cx.budget.reserve(Limit::ReceiveBufferBytes, after - before, most) {
            return;
        }
    } else {
        cx.budget.give_back(Limit::ReceiveBufferBytes, before - after);
    }
    set_limit(tcb, bytes);
}

fn set_limit(tcb: &mut Tcb, bytes: u32) {
    tcb.receive.set_limit(bytes as usize);
    tcb.tuning.part_bytes = bytes / PART;
}

/// Return what tuning reserved in the budget: the connection ended, or its buffer gets another
/// size.
pub(crate) fn release(tcb: &mut Tcb, cx: &mut Cx) {
    cx.budget.give_back(Limit::ReceiveBufferBytes, added(tcb));
    start(tcb);
}

/// Set the configured initial buffer.
pub(crate) fn start(tcb: &mut Tcb) {
    set_limit(tcb, start_bytes(&tcb.config));
}

/// A connection opened under memory pressure begins with the minimum window.
pub(crate) fn opened(tcb: &mut Tcb, cx: &Cx) {
    if receive_most(&tcb.config) > 0 && under_memory_pressure(&cx.pool) {
        set_limit(tcb, LEAST_BYTES);
    }
}
