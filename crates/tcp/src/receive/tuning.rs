//! How large the receive buffer of a connection has to be: it follows what arrives in a round trip
//! and is read.
//!
//! Called by: usrreq, after each read; handshake; predict and input leave the echo of the last
//! segment here. The idea of right-sizing by what the reader takes is Fisk and Feng's ("Dynamic
//! right-sizing in TCP", 2001); RFC 7323 has the echoes, RFC 9293 section 3.8.6 forbids to take
//! back what was offered. Moves the limit `receive_buffer_bytes`. Decision 0027.

use base::{Instant, Limit};

use crate::Cx;
use mbuf::Pool;

use crate::config::Config;
use crate::marks::Marks;
use crate::tcb::Tcb;

/// A tuned receive buffer is never smaller: the first window, of a SYN, is of this size, and a unit
/// of the largest shift (RFC 7323) is a quarter of it.
const LEAST_BYTES: u32 = 64 * 1024;

/// Part of the buffer that must take longer to arrive than a round trip: a sender in slow start
/// sends twice as much in the next, and twice that before our answer to it is there.
const PART: u32 = 4;

/// Of a rise of the round trip, the part that is believed at a time: a queue that fills is
/// followed, a pause of the sender's program is not.
const RISE_PART: u64 = 16;

/// An echo tells time in milliseconds: less than two say nothing.
const CLEAR_MS: u32 = 2;

/// The round trip of a path of which nothing is known: no timestamps, and a SYN was lost.
const UNKNOWN_US: u64 = 100_000;

/// What the reader of a connection has taken, and how fast.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tuning {
    /// When the part that is arriving was begun.
    since: Instant,
    /// What had arrived by then: the low bits of a count of bytes.
    arrived_then: u32,
    /// The part, in bytes.
    part_bytes: u32,
    /// The round trip as the receiver sees it, in microseconds; 0 if nothing is known.
    rtt_us: u32,
    /// TSecr of the last segment: the TSval of the ACK that let it go.
    pub(crate) echo: u32,
}

impl Tuning {
    /// Nothing known yet.
    pub(crate) fn new(config: &Config) -> Tuning {
        let part_bytes = start_bytes(config) / PART;
        Tuning { since: Instant::ZERO, arrived_then: 0, part_bytes, rtt_us: 0, echo: 0 }
    }
}

/// The receive buffer to begin with, in bytes.
pub(crate) fn start_bytes(config: &Config) -> u32 {
    let least = if receive_most(config) > 0 { LEAST_BYTES } else { 0 };
    config.receive_buffer_bytes.max(least)
}

/// What a receive buffer may become, in bytes; 0 if it keeps its size.
fn receive_most(config: &Config) -> u32 {
    let most = config.receive_buffer_max_bytes;
    if most > config.receive_buffer_bytes.max(LEAST_BYTES) { most } else { 0 }
}

/// The reader took something: look once a part of the buffer has arrived since the last look.
#[inline(always)]
pub(crate) fn after_read(tcb: &mut Tcb, cx: &mut Cx) {
    let arrived = tcb.stats.bytes_received as u32;
    if arrived.wrapping_sub(tcb.tuning.arrived_then) >= tcb.tuning.part_bytes {
        look(tcb, cx);
    }
}

/// A part of the buffer has arrived. In less than a round trip, and the reader keeps up: the buffer
/// is too small for what path and reader can do.
#[cold]
#[inline(never)]
fn look(tcb: &mut Tcb, cx: &mut Cx) {
    let elapsed_us = cx.now.since(tcb.tuning.since).as_micros();
    if elapsed_us == 0 {
        // Time stands still while a burst is read: it says nothing yet.
        return;
    }
    let first = tcb.tuning.since == Instant::ZERO;
    tcb.tuning.since = cx.now;
    tcb.tuning.arrived_then = tcb.stats.bytes_received as u32;
    if receive_most(&tcb.config) == 0 {
        return;
    }
    measure(tcb, cx);
    // Without a shift a larger buffer is of no use.
    let most = receive_most(&tcb.config).min(tcb.rcv_wscale.unscale(u16::MAX));
    let limit = tcb.receive.limit_bytes() as u32;
    let fast = !first && elapsed_us <= u64::from(tcb.tuning.rtt_us);
    let keeps_up = tcb.receive.len() <= limit as usize / 2;
    if under_memory_pressure(&cx.pool) {
        // What was offered stays offered: the edge stands still until the window fits.
        resize(tcb, (limit / 2).max(LEAST_BYTES), cx);
    } else if fast && keeps_up && limit < most {
        resize(tcb, limit.saturating_mul(2).min(most), cx);
    }
}

/// Are most of the buffers that there may be in use?
fn under_memory_pressure(pool: &Pool) -> bool {
    pool.in_use_bytes() > pool.limit_bytes() / 4 * 3
}

/// The round trip as the receiver sees it: from the handshake (or from data of ours), then from the
/// echo of the ACK that let the last segment go. Without timestamps the first stays.
fn measure(tcb: &mut Tcb, cx: &Cx) {
    let known = match tcb.tuning.rtt_us {
        0 => tcb.rtt.min().as_nanos().div_ceil(1000),
        us => u64::from(us),
    };
    let echo_ms = tcb.ts_value(cx).wrapping_sub(tcb.tuning.echo);
    let sample = match (tcb.marks.has(Marks::TIMESTAMPS), known) {
        (true, _) if echo_ms >= CLEAR_MS => u64::from(echo_ms) * 1000,
        // What the echo cannot tell well the handshake did.
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

/// Bytes of the receive buffer that are set aside in the stack's budget: what tuning added.
fn added(tcb: &Tcb) -> usize {
    if receive_most(&tcb.config) == 0 {
        return 0;
    }
    tcb.receive.limit_bytes().saturating_sub(start_bytes(&tcb.config) as usize)
}

/// Make the receive buffer larger or smaller, if the budget admits it.
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

/// Give back what tuning took of the budget: the connection is over, or its buffer is to be of
/// another size.
pub(crate) fn release(tcb: &mut Tcb, cx: &mut Cx) {
    cx.budget.give_back(Limit::ReceiveBufferBytes, added(tcb));
    start(tcb);
}

/// Begin with the buffer that is configured.
pub(crate) fn start(tcb: &mut Tcb) {
    set_limit(tcb, start_bytes(&tcb.config));
}

/// A connection that opens under memory pressure begins with a small window.
pub(crate) fn opened(tcb: &mut Tcb, cx: &Cx) {
    if receive_most(&tcb.config) > 0 && under_memory_pressure(&cx.pool) {
        set_limit(tcb, LEAST_BYTES);
    }
}
