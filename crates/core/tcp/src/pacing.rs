//! Pacing: each segment gets a departure time: the departure time of the previous segment plus the
//! time that the previous segment takes at the connection's rate. The stack's release queue holds
//! the segment until then.
//!
//! Called by: output, for connections with a long enough round trip and for algorithms that depend
//! on pacing; the timer resumes it. After Cardwell et al., "BBR: congestion-based congestion
//! control" (2016); RFC 9406 and RFC 9937 assume pacing. Decision 0029.

use base::{Duration, Instant, Switch};
use mbuf::{Flags, Mbuf};

use crate::cc::Cc;
use crate::marks::{Events, Marks};
use crate::tcb::Tcb;
use crate::{Cx, send_tuning};

/// Minimum SRTT for pacing. A shorter round trip cannot be divided by the timer wheel's ticks, and
/// the queue that one window builds is soon gone.
const PACED_FROM: Duration = Duration::from_millis(2);
/// Departure times are multiples of this, so that a fast connection wakes its host about 4,000
/// times a second and not for each frame. Segments with equal times leave together.
const QUANTUM_NS: u64 = 1 << 18;
/// A tick of the stack's timer wheel.
const TICK: Duration = Duration::from_nanos(1 << 20);
/// How far ahead segments are given a departure time: a timer that is a tick late still finds some
/// waiting.
const AHEAD: Duration = Duration::from_nanos(2 << 20);

/// Beyond slow start, a connection that has sent less than its rate may send this many segments at
/// once, or the bytes that its rate carries in `MAXBURST_MS` if they are more, up to
/// `MAXBURST_BYTES`. So the segments that an ACK frees leave at once, as they do without pacing;
/// only larger bursts are spread. Decision 0056.
const MAXBURST_SEGMENTS: u64 = 4;
const MAXBURST_MS: u64 = 2;
const MAXBURST_BYTES: u64 = 64 << 10;

/// Pacing state of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pacing {
    /// Earliest departure time of the next segment.
    next: Instant,
    /// Departure time of the last segment.
    last: Instant,
    /// Bytes that may leave without pacing: an initial window, at the start and after an idle time.
    /// Short responses fit in it (RFC 6928 section 2, RFC 5681 section 4.1; Linux's fq does the
    /// same).
    burst_bytes: u32,
    /// Pacing was used, or the algorithm always paces; if not, only SRTT needs to be checked.
    in_use: bool,
    /// The send queue ran empty; with BBR, only if cwnd had room for more.
    dry: bool,
}

impl Pacing {
    pub(crate) fn new(cc: &Cc) -> Pacing {
        Pacing { in_use: cc.watches_all(), ..Pacing::default() }
    }
}

/// Do segments of this connection get a departure time? They do while earlier ones still wait, too.
#[inline(always)]
pub(crate) fn applies(tcb: &Tcb, cx: &Cx) -> bool {
    // Two comparisons for connections without pacing.
    (tcb.pacing.in_use || tcb.rtt.srtt() >= PACED_FROM) && is_in_use(tcb, cx)
}

#[cold]
#[inline(never)]
fn is_in_use(tcb: &Tcb, cx: &Cx) -> bool {
    tcb.rtt.srtt() >= PACED_FROM && cx.switches.on(Switch::Pacing)
        || tcb.pacing.last > cx.now
        || tcb.cc.watches_all()
}

/// A time-out: earlier departure times do not delay the retransmission.
pub(crate) fn timed_out(tcb: &mut Tcb, now: Instant) {
    tcb.pacing.next = tcb.pacing.next.min(now.max(tcb.pacing.last));
    tcb.timers.pace = Instant::NEVER;
}

/// The departure time of a segment made now; `None` if it is too far ahead. The segment is then
/// made when the pacing timer fires.
pub(crate) fn departure(tcb: &mut Tcb, now: Instant) -> Option<Instant> {
    tcb.cc.validate(now);
    if tcb.in_flight() == 0 {
        // Everything was acknowledged: a delay computed from the earlier window no longer applies.
        if tcb.pacing.dry || tcb.stats.bytes_acked <= 1 {
            tcb.pacing.burst_bytes = tcb.cc.initial().min(tcb.cc.cwnd) as u32;
        }
        tcb.pacing.next = tcb.pacing.next.min(now.max(tcb.pacing.last));
    }
    let next = tcb.pacing.next;
    if next > now + AHEAD {
        tcb.timers.pace = Instant::from_nanos(next.as_nanos() - TICK.as_nanos());
        // With this much in flight cwnd counts as the limit, and may grow.
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

/// `m` leaves at `departure`; `before` bytes were in flight when it was made. The next departure is
/// later by the time that `m` takes at the pacing rate.
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
        let earliest = cx.now - takes(maxburst_bytes(tcb, rate));
        tcb.pacing.next = tcb.pacing.next.max(earliest) + takes(len);
    }
}

/// How many bytes of unused rate may leave at once, at `rate` bytes a second. None in slow start,
/// where an ACK frees twice what it acknowledges and a burst would build a queue. None with BBR,
/// whose rate is the limit.
#[inline(always)]
fn maxburst_bytes(tcb: &Tcb, rate: u64) -> u64 {
    if tcb.cc.in_slow_start() || tcb.cc.watches_all() {
        return 0;
    }
    let least = MAXBURST_SEGMENTS * tcb.snd_mss.bytes() as u64;
    least.max((rate * MAXBURST_MS / 1_000).min(MAXBURST_BYTES))
}

/// Paced segments leave between ACKs: report room to the writer now, or the queue runs empty.
fn ask_for_more(tcb: &mut Tcb, cx: &mut Cx) {
    if tcb.marks.has(Marks::WRITE_BLOCKED)
        && tcb.sendq.unsent_bytes() <= tcb.config.unsent_limit_bytes as usize / 2
        && send_tuning::write_room(tcb, cx).is_ok_and(|room| room > 0)
    {
        tcb.marks.clear(Marks::WRITE_BLOCKED);
        tcb.events.set(Events::WRITABLE);
    }
}

/// A segment that takes no sequence space must not overtake data that waits for its departure.
/// Otherwise the older window in that data would seem to shrink the window that the segment offers,
/// and a RST would arrive with a sequence number ahead of the data. The segment is made as if the
/// departure of the data were the current time: with an older timestamp the peer would drop it (RFC
/// 7323 section 5.3).
#[inline(always)]
pub(crate) fn behind(
    tcb: &mut Tcb,
    cx: &mut Cx,
    make: impl FnOnce(&mut Tcb, &mut Cx) -> Option<Mbuf>,
) -> Option<Mbuf> {
    let departure = tcb.pacing.last;
    if !tcb.pacing.in_use || departure <= cx.now {
        return make(tcb, cx);
    }
    let mut m = cx.at(departure, |cx| make(tcb, cx))?;
    m.set_time(departure);
    m.set(Flags::PACED);
    Some(m)
}

/// The pacing rate in bytes a second; 0 for no limit.
pub(crate) fn rate(tcb: &Tcb) -> u64 {
    if tcb.rtt.srtt() >= PACED_FROM || tcb.cc.watches_all() {
        tcb.cc.pacing_rate(tcb.rtt.srtt())
    } else {
        0
    }
}
