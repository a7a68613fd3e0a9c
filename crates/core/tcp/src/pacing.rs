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

/// Least SRTT of a paced connection. A shorter round trip is less than two ticks of the timer
/// wheel, and the queue that one window builds is soon gone.
const PACED_FROM: Duration = Duration::from_millis(2);
/// Departure times are multiples of this, so that a fast connection wakes its host about 4,000
/// times a second and not for each frame. Segments with equal times leave together.
const QUANTUM_NS: u64 = 1 << 18;
/// A tick of the stack's timer wheel.
const TICK: Duration = Duration::from_nanos(1 << 20);
/// A segment may be made this long before its departure time. So a pacing timer that fires a tick
/// late still finds segments in the release queue.
const AHEAD: Duration = Duration::from_nanos(2 << 20);

/// In congestion avoidance, a connection that has sent less than its rate allows may send a burst:
/// `MAXBURST_SEGMENTS` segments, or what its rate carries in `MAXBURST_MS` (at most
/// `MAXBURST_BYTES`), whichever is more. So the segments that an ACK frees leave at once, as they
/// do without pacing; only larger bursts are spread. Decision 0056.
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
    /// A segment was paced, or the congestion control always paces. If `false`, `applies` only
    /// checks the SRTT.
    in_use: bool,
    /// The send queue ran empty. With BBR: it ran empty while cwnd had room for more.
    dry: bool,
}

impl Pacing {
    pub(crate) fn new(cc: &Cc) -> Pacing {
        Pacing { in_use: cc.watches_all(), ..Pacing::default() }
    }
}

/// Do new segments of this connection get a departure time? They also do while earlier segments
/// wait for theirs.
#[inline(always)]
pub(crate) fn applies(tcb: &Tcb, cx: &Cx) -> bool {
    // A connection that was never paced pays for two comparisons only.
    (tcb.pacing.in_use || tcb.rtt.srtt() >= PACED_FROM) && is_in_use(tcb, cx)
}

#[cold]
#[inline(never)]
fn is_in_use(tcb: &Tcb, cx: &Cx) -> bool {
    tcb.rtt.srtt() >= PACED_FROM && cx.switches.on(Switch::Pacing)
        || tcb.pacing.last > cx.now
        || tcb.cc.watches_all()
}

/// After a retransmission time-out, the retransmission may leave now, or together with the last
/// segment that still waits for its departure.
pub(crate) fn timed_out(tcb: &mut Tcb, now: Instant) {
    tcb.pacing.next = tcb.pacing.next.min(now.max(tcb.pacing.last));
    tcb.timers.pace = Instant::NEVER;
}

/// The departure time of a segment that is made now. `None` if that time is more than `AHEAD` away:
/// the segment is then made when the pacing timer fires.
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
        // From this many bytes in flight on, cwnd counts as the connection's limit, so that it may
        // grow.
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

/// Record that `m` leaves at `departure`; `before` bytes were in flight when it was made. The next
/// departure is later by the time that `m` takes at the pacing rate.
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

/// How many bytes may leave at once when the connection has sent less than `rate` (in bytes a
/// second) allows. 0 in slow start, where an ACK frees twice what it acknowledges and a burst would
/// build a queue. 0 with BBR, which never exceeds its rate.
#[inline(always)]
fn maxburst_bytes(tcb: &Tcb, rate: u64) -> u64 {
    if tcb.cc.in_slow_start() || tcb.cc.watches_all() {
        return 0;
    }
    let least = MAXBURST_SEGMENTS * tcb.snd_mss.bytes() as u64;
    least.max((rate * MAXBURST_MS / 1_000).min(MAXBURST_BYTES))
}

/// Report room in the send queue to the writer after a paced segment. Between two ACKs nothing else
/// reports it, and the queue would run empty.
fn ask_for_more(tcb: &mut Tcb, cx: &mut Cx) {
    if tcb.marks.has(Marks::WRITE_BLOCKED)
        && tcb.sendq.unsent_bytes() <= tcb.config.unsent_limit_bytes as usize / 2
        && send_tuning::write_room(tcb, cx).is_ok_and(|room| room > 0)
    {
        tcb.marks.clear(Marks::WRITE_BLOCKED);
        tcb.events.set(Events::WRITABLE);
    }
}

/// Make a segment that takes no sequence space. It must not overtake data that waits for its
/// departure: a window update would arrive before data that offers an older, smaller window, and a
/// RST would arrive with a sequence number ahead of the data. So the segment leaves with the last
/// of the data, and its timestamp is that departure time: with an older timestamp the peer would
/// drop it (RFC 7323 section 5.3).
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
