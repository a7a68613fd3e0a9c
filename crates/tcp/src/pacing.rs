//! Pacing: when the next segment may leave. Each gets a departure time, the one before it plus what
//! it takes at the connection's rate; the stack's release queue keeps it until then.
//!
//! Called by: output, for connections whose way is long enough to pay, and for laws of congestion
//! control that live by it; timer wakes it. Cardwell et al., "BBR: congestion-based congestion
//! control" (2016), which paces; RFC 9406 and RFC 9937 assume it. Decision 0029.

use base::{Duration, Instant, Switch};
use mbuf::{Flags, Mbuf};

use crate::cc::Cc;
use crate::marks::{Events, Marks};
use crate::tcb::Tcb;
use crate::{Cx, usrreq};

/// A round trip of less is too short to be divided by the timer wheel's ticks, and what one window
/// makes of a queue is soon gone.
const PACED_FROM: Duration = Duration::from_millis(2);
/// Departures are multiples of this, so that a fast connection wakes its host 4,000 times a second
/// and not for each frame; what shares one leaves together.
const QUANTUM_NS: u64 = 1 << 18;
/// Tick of the stack's timer wheel.
const TICK: Duration = Duration::from_nanos(1 << 20);
/// Segments are handed out so far ahead: a timer that is a tick late finds some still waiting.
const AHEAD: Duration = Duration::from_nanos(2 << 20);

/// Beyond slow start a connection that has sent less than its rate admits may send so many segments
/// at once. What an ACK frees, two or three segments, then leaves with it, as from those who do not
/// pace; only what is more is spread. Decision 0056.
const MAXBURST_SEGMENTS: u64 = 4;

/// What a connection remembers between two segments.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pacing {
    /// When the next segment may leave.
    next: Instant,
    /// When the last one leaves.
    last: Instant,
    /// Bytes that still leave at once: an initial window, at the beginning and after a pause. Short
    /// answers end with it (RFC 6928 section 2, RFC 5681 section 4.1; Linux's fq likewise).
    burst_bytes: u32,
    /// It has been used, or is by the law's nature: only then is there anything to look at.
    in_use: bool,
    /// All that there was has been sent; for a law that watches all, the window would have taken
    /// more.
    dry: bool,
}

impl Pacing {
    pub(crate) fn new(cc: &Cc) -> Pacing {
        Pacing { in_use: cc.watches_all(), ..Pacing::default() }
    }
}

/// Do segments of this connection get a departure time? While some wait, those behind them do.
#[inline(always)]
pub(crate) fn applies(tcb: &Tcb, cx: &Cx) -> bool {
    // Two comparisons for those that it is nothing to.
    (tcb.pacing.in_use || tcb.rtt.srtt() >= PACED_FROM) && is_in_use(tcb, cx)
}

#[cold]
#[inline(never)]
fn is_in_use(tcb: &Tcb, cx: &Cx) -> bool {
    tcb.rtt.srtt() >= PACED_FROM && cx.switches.on(Switch::Pacing)
        || tcb.pacing.last > cx.now
        || tcb.cc.watches_all()
}

/// A time-out: what was sent before, and how fast, is of another time.
pub(crate) fn timed_out(tcb: &mut Tcb, now: Instant) {
    tcb.pacing.next = tcb.pacing.next.min(now.max(tcb.pacing.last));
    tcb.timers.pace = Instant::NEVER;
}

/// When a segment that is made now leaves; `None` if that is too far ahead: it is to be made when
/// the timer comes.
pub(crate) fn departure(tcb: &mut Tcb, now: Instant) -> Option<Instant> {
    tcb.cc.validate(now);
    if tcb.in_flight() == 0 {
        // All has arrived. A rate that would still wait is of a round trip that has passed.
        if tcb.pacing.dry || tcb.stats.bytes_acked <= 1 {
            tcb.pacing.burst_bytes = tcb.cc.initial().min(tcb.cc.cwnd) as u32;
        }
        tcb.pacing.next = tcb.pacing.next.min(now.max(tcb.pacing.last));
    }
    let next = tcb.pacing.next;
    if next > now + AHEAD {
        tcb.timers.pace = Instant::from_nanos(next.as_nanos() - TICK.as_nanos());
        // With this much in flight it is the window that limits, and may grow.
        let used = u64::from(tcb.in_flight());
        let enough =
            if tcb.cc.cwnd < tcb.cc.ssthresh { tcb.cc.cwnd / 2 } else { tcb.cc.cwnd / 8 * 7 };
        if used >= enough {
            tcb.marks.set(Marks::CWND_LIMITED);
        }
        return None;
    }
    tcb.timers.pace = Instant::NEVER;
    Some(now.max(Instant::from_nanos(next.as_nanos() & !(QUANTUM_NS - 1))))
}

/// `m` leaves at `departure`, and `before` bytes were in flight when it was made; the next one
/// leaves as much later as it takes.
pub(crate) fn sent(tcb: &mut Tcb, m: &mut Mbuf, departure: Instant, before: u32, cx: &mut Cx) {
    if departure > cx.now {
        m.set_time(departure);
        m.set(Flags::PACED);
    }
    if tcb.cc.watches_all() {
        let (before, after) = (u64::from(before), u64::from(tcb.pipe()));
        let starved = tcb.pacing.dry && tcb.pacing.next + TICK < cx.now;
        tcb.cc.on_send(departure, before, after, starved);
    }
    let room = u64::from(tcb.pipe()) + tcb.snd_mss.bytes() as u64 <= tcb.cc.cwnd;
    let ran_out = tcb.sendq.unsent_count() == 0 && !tcb.has_lost();
    tcb.pacing.dry = ran_out && (room || !tcb.cc.watches_all());
    tcb.pacing.last = departure;
    tcb.pacing.in_use = true;
    ask_for_more(tcb, cx);
    let rate = if cx.switches.on(Switch::Pacing) { rate(tcb) } else { 0 };
    let header = m.as_slice().get(12).map_or(0, |b| usize::from(b >> 4) * 4);
    let len = m.len().saturating_sub(header) as u64;
    let at_once = u64::from(tcb.pacing.burst_bytes) >= len;
    tcb.pacing.burst_bytes = tcb.pacing.burst_bytes.saturating_sub(len as u32);
    if rate > 0 && !at_once {
        let takes = |bytes: u64| Duration::from_nanos(bytes * 1_000_000_000 / rate);
        let earliest = cx.now - takes(maxburst_bytes(tcb));
        tcb.pacing.next = tcb.pacing.next.max(earliest) + takes(len);
    }
}

/// What may leave at once of what the rate has admitted and was not sent. In slow start nothing: an
/// ACK frees twice what it acknowledges there, which would find a queue at once. BBR's rate is what
/// limits it, and means what it says.
#[inline(always)]
fn maxburst_bytes(tcb: &Tcb) -> u64 {
    match tcb.cc.in_slow_start() || tcb.cc.watches_all() {
        true => 0,
        false => MAXBURST_SEGMENTS * tcb.snd_mss.bytes() as u64,
    }
}

/// What leaves by the clock makes room between two ACKs: the user is told, or the queue runs dry.
fn ask_for_more(tcb: &mut Tcb, cx: &mut Cx) {
    if tcb.marks.has(Marks::WRITE_BLOCKED)
        && tcb.sendq.unsent_bytes() <= tcb.config.unsent_limit_bytes as usize / 2
        && usrreq::write_room(tcb, cx).is_ok_and(|room| room > 0)
    {
        tcb.marks.clear(Marks::WRITE_BLOCKED);
        tcb.events.set(Events::WRITABLE);
    }
}

/// `m` takes no sequence space, and does not overtake what waits: the window it offers would seem
/// to shrink with what came behind it, and a RST would be one from the middle of nowhere.
#[inline(always)]
pub(crate) fn behind(tcb: &Tcb, m: &mut Mbuf, now: Instant) {
    if tcb.pacing.in_use && tcb.pacing.last > now {
        m.set_time(tcb.pacing.last);
        m.set(Flags::PACED);
    }
}

/// Bytes a second; 0 for no limit.
pub(crate) fn rate(tcb: &Tcb) -> u64 {
    if tcb.rtt.srtt() >= PACED_FROM || tcb.cc.watches_all() {
        tcb.cc.pacing_rate(tcb.rtt.srtt())
    } else {
        0
    }
}
