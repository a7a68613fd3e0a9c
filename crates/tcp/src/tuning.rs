//! How large the buffers of a connection have to be: the receive buffer follows what its reader
//! takes in a round trip, the send buffer follows the congestion window.
//!
//! Called by: usrreq, after each read and where a write finds no room; handshake; predict and input
//! leave the echo of the last segment here. Must not know: segments, the wire.
//! The idea of right-sizing by what the reader takes is Fisk and Feng's ("Dynamic right-sizing in
//! TCP", 2001); RFC 7323 has the echoes, RFC 9293 section 3.8.6 forbids to take back what was
//! offered. Moves the limits `receive_buffer_bytes` and `send_buffer_bytes`. Decision 0027.

use base::{Instant, Limit};

use crate::Cx;
use crate::config::Config;
use crate::marks::Marks;
use crate::tcb::Tcb;

/// A tuned receive buffer is never smaller: the first window, of a SYN, is of this size, and a unit
/// of the largest shift (RFC 7323) is a quarter of it.
const LEAST_BYTES: u32 = 64 * 1024;

/// Part of the buffer that must take longer to read than a round trip: a sender in slow start sends
/// twice as much in the next, and twice that before our answer to it is there.
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
    /// When the part that is being read was begun.
    since: Instant,
    /// What had been read by then: the low bits of a count of bytes.
    read_then: u32,
    /// The part, in bytes.
    part_bytes: u32,
    /// The round trip as the receiver sees it, in microseconds; 0 if nothing is known.
    rtt_us: u32,
    /// TSecr of the last segment: the TSval of the ACK that let it go.
    pub(crate) echo: u32,
}

impl Tuning {
    /// The receive buffer to begin with, in bytes, and nothing known.
    pub(crate) fn new(config: &Config) -> (u32, Tuning) {
        let bytes = if receive_most(config) > 0 {
            config.receive_buffer_bytes.max(LEAST_BYTES)
        } else {
            config.receive_buffer_bytes
        };
        let tuning = Tuning {
            since: Instant::ZERO,
            read_then: 0,
            part_bytes: bytes / PART,
            rtt_us: 0,
            echo: 0,
        };
        (bytes, tuning)
    }
}

/// What a receive buffer may become, in bytes; 0 if it keeps its size.
fn receive_most(config: &Config) -> u32 {
    let most = config.receive_buffer_max_bytes;
    if most > config.receive_buffer_bytes.max(LEAST_BYTES) { most } else { 0 }
}

/// Bytes that the reader has taken so far, the low bits.
#[inline(always)]
fn bytes_read(tcb: &Tcb) -> u32 {
    (tcb.stats.bytes_received as u32).wrapping_sub(tcb.receive.len() as u32)
}

/// The reader took something: look once it has taken a part of the buffer.
#[inline(always)]
pub(crate) fn after_read(tcb: &mut Tcb, cx: &mut Cx<'_>) {
    if bytes_read(tcb).wrapping_sub(tcb.tuning.read_then) >= tcb.tuning.part_bytes {
        look(tcb, cx);
    }
}

/// A part of the buffer was read. In less than a round trip: the buffer is too small for what path
/// and reader can do.
#[cold]
#[inline(never)]
fn look(tcb: &mut Tcb, cx: &mut Cx<'_>) {
    let elapsed = cx.now.since(tcb.tuning.since);
    let first = tcb.tuning.since == Instant::ZERO;
    tcb.tuning.since = cx.now;
    tcb.tuning.read_then = bytes_read(tcb);
    // Without a shift the largest buffer is of no use.
    let most = receive_most(&tcb.config).min(tcb.rcv_wscale.unscale(u16::MAX));
    if receive_most(&tcb.config) == 0 {
        return;
    }
    measure(tcb, cx);
    let limit = tcb.receive.limit_bytes() as u32;
    if cx.pool.in_use_bytes() > cx.pool.limit_bytes() / 4 * 3 {
        // What was offered stays offered: the edge stands still until the window fits.
        resize(tcb, (limit / 2).max(LEAST_BYTES), cx);
    } else if !first && elapsed.as_micros() <= u64::from(tcb.tuning.rtt_us) && limit < most {
        resize(tcb, limit.saturating_mul(2).min(most), cx);
    }
}

/// The round trip as the receiver sees it: from the handshake (or from data of ours), then from the
/// echo of the ACK that let the last segment go. Without timestamps the first stays.
fn measure(tcb: &mut Tcb, cx: &Cx<'_>) {
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
    let (start, _) = Tuning::new(&tcb.config);
    if receive_most(&tcb.config) == 0 {
        return 0;
    }
    tcb.receive.limit_bytes().saturating_sub(start as usize)
}

/// Make the receive buffer larger or smaller, if the budget admits it.
fn resize(tcb: &mut Tcb, bytes: u32, cx: &mut Cx<'_>) {
    let (start, _) = Tuning::new(&tcb.config);
    let before = added(tcb);
    let after = bytes.saturating_sub(start) as usize;
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
pub(crate) fn release(tcb: &mut Tcb, cx: &mut Cx<'_>) {
    cx.budget.give_back(Limit::ReceiveBufferBytes, added(tcb));
    start(tcb);
}

/// Begin with the buffer that is configured.
pub(crate) fn start(tcb: &mut Tcb) {
    let (bytes, _) = Tuning::new(&tcb.config);
    set_limit(tcb, bytes);
}

/// A connection that opens while memory is tight begins with a small window.
pub(crate) fn opened(tcb: &mut Tcb, cx: &Cx<'_>) {
    if receive_most(&tcb.config) > 0 && cx.pool.in_use_bytes() > cx.pool.limit_bytes() / 4 * 3 {
        set_limit(tcb, LEAST_BYTES);
    }
}

/// The send buffer as it is now, in bytes: room for two windows and what waits behind them.
pub(crate) fn send_buffer(tcb: &Tcb) -> usize {
    let start = tcb.config.send_buffer_bytes as usize;
    let most = tcb.config.send_buffer_max_bytes as usize;
    let window = usize::try_from(tcb.cc.cwnd).unwrap_or(usize::MAX).min(most);
    let wanted = 2 * window + tcb.config.unsent_limit_bytes as usize;
    start.max(wanted.min(most))
}

/// Bytes that a writer may queue beyond what is there, where the buffer that it began with is full:
/// while memory lasts, as much as the congestion window asks for.
#[cold]
#[inline(never)]
pub(crate) fn send_room(tcb: &Tcb, queued: usize, cx: &mut Cx<'_>) -> usize {
    let start = tcb.config.send_buffer_bytes as usize;
    let buffer = send_buffer(tcb);
    if buffer <= start {
        return start.saturating_sub(queued);
    }
    let in_use = cx.pool.in_use_bytes();
    let most = cx.budget.of(Limit::MbufBytes) / 2;
    let used = if in_use < most { in_use } else { usize::MAX };
    if cx.budget.admits(Limit::SendBufferBytes, used) {
        buffer.saturating_sub(queued)
    } else {
        start.saturating_sub(queued)
    }
}
