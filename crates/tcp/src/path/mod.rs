//! What the network says about a connection's path: that packets do not arrive, or must be smaller.
//! Such a message can be forged, so each has to name a byte that is in flight, and none ends a
//! connection that is open.
//!
//! Called by: the stack, for ICMP errors and for neighbours that do not answer. RFC 1122 section
//! 4.2.3.9, RFC 5461 section 4, RFC 5927 sections 4 to 7, RFC 1191 section 6.5.

pub(crate) mod mtu;
pub(crate) mod probe;

use base::{Counter, Duration, Instant, Mss, SeqNumber};

use crate::marks::{Marks, Todo};
use crate::recovery;
use crate::sendq::Piece;
use crate::state::{Error, State};
use crate::tcb::Tcb;
use crate::{Cx, MtuProbing};

/// How long a reported path MTU is used before larger segments are
/// tried (RFC 1191 section 6.3, RFC 8201 section 4).
pub const LIFE: Duration = Duration::from_secs(600);
/// Segments of this size, options not counted, are the first resort when larger ones vanish:
/// packets of 1200 bytes, BASE_PLPMTU of RFC 8899 section 5.1.2. Every tunnel that carries IPv6
/// carries them; RFC 4821 has 1024, which is older than the tunnels of today.
const BASE_MSS: Mss = Mss(1160);
/// A large segment is lost so often before its size is blamed: one time-out is no proof.
const SENDINGS: u8 = 2;
/// Least payload of a segment, however narrow the path is said to be, in bytes.
const PAYLOAD_LEAST: u16 = 88;

/// Is `seq` of a segment that is in flight? RFC 5927 section 4.1.
pub fn is_in_flight(tcb: &Tcb, seq: SeqNumber) -> bool {
    tcb.snd_una.le(seq) && seq.lt(tcb.snd_nxt)
}

/// The path fails now and perhaps not for ever (a soft error): what the user is told if the
/// connection times out without an ACK from here on.
/// RFC 9293 MUST-56.
pub fn soft_error(tcb: &mut Tcb, error: Error) {
    tcb.rare.soft_error = Some((error, tcb.snd_una));
}

/// Nothing will ever answer (a hard error). It ends a connection that is being opened; an open
/// one has proved the contrary, and takes it as a soft error (RFC 5927 section 5.2).
/// RFC 9293 SHLD-26.
pub fn hard_error(tcb: &mut Tcb, error: Error) {
    match tcb.state {
        State::SynSent => tcb.fail(error),
        _ => soft_error(tcb, error),
    }
}

/// The next hop to the peer does not answer. A connection that was never resolved ends: nothing was
/// forged here, and nothing has left.
pub fn host_unreachable(tcb: &mut Tcb) {
    match tcb.state {
        State::SynSent | State::SynReceived => tcb.fail(Error::HostUnreachable),
        _ => soft_error(tcb, Error::HostUnreachable),
    }
}

/// What became of a message that a segment was too large for its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Segments are smaller from now on.
    Believed,
    /// It says nothing new, or nothing of use.
    Ignored,
    /// Segments of this size have arrived: it is kept until one of them does no more.
    Doubted,
}

/// A router says that the segment at `seq`, which is in flight, was too large: `mss` bytes, options
/// not counted, are what its link carries. While large segments arrive that is a forgery: where the
/// congestion window has grown they did, and then one has to be missing before it is believed, by
/// a time-out or because it was sent again by then (RFC 5927 section 7.2).
pub fn packet_too_big(tcb: &mut Tcb, seq: SeqNumber, mss: Mss, now: Instant) -> Outcome {
    let smaller = tcb.state.is_synchronised() && payload_of(tcb, mss) < tcb.snd_mss.0;
    let again = || {
        let piece = tcb.sendq.in_flight(tcb.sendq.find(seq));
        piece.is_some_and(|piece| piece.has(Piece::RETRANSMITTED))
    };
    if smaller && tcb.cc.cwnd > tcb.cc.initial() && !again() {
        tcb.path.doubted = Some((seq, mss));
        return Outcome::Doubted;
    }
    if too_big(tcb, mss, now) { Outcome::Believed } else { Outcome::Ignored }
}

/// A time-out: is it explained by a path MTU report that was doubted?
pub(crate) fn timed_out(tcb: &mut Tcb, cx: &mut Cx) {
    let Some((seq, mss)) = tcb.path.doubted else { return };
    tcb.path.doubted = None;
    if is_in_flight(tcb, seq) && too_big(tcb, mss, cx.now) {
        cx.counters.add(Counter::PathMtuLowered, 1);
        // The others on this path hear of it.
        tcb.path.is_worse = true;
        tcb.marks.set(Marks::PATH_NEWS);
    }
}

/// A report that segments of `mss` bytes, options not counted, are the most that the path carries,
/// who knows what is in flight: what was larger goes again at once. That is no congestion, so no
/// window shrinks. `false` if they were small enough already.
pub fn too_big(tcb: &mut Tcb, mss: Mss, now: Instant) -> bool {
    let payload = payload_of(tcb, mss);
    if !tcb.state.is_synchronised() {
        return false;
    }
    if payload >= tcb.snd_mss.0 {
        return probe::refused(tcb, payload);
    }
    shrink(tcb, payload, now);
    probe::search_from(tcb, now + LIFE);
    true
}

/// Another connection found out that the path carries segments of `mss` bytes, options not
/// counted. What is too large goes again as for [`too_big`]; a larger size is tried. `true` if
/// segments became smaller.
pub fn learnt(tcb: &mut Tcb, mss: Mss, now: Instant) -> bool {
    if payload_of(tcb, mss) > tcb.snd_mss.0 && tcb.marks.has(Marks::PATH_SEARCH) {
        tcb.path.next_search = tcb.path.next_search.min(now);
    }
    payload_of(tcb, mss) < tcb.snd_mss.0 && too_big(tcb, mss, now)
}

/// The port's own frames are smaller from now on, for good.
pub fn narrower_link(tcb: &mut Tcb, mss: Mss, now: Instant) -> bool {
    tcb.path_most = tcb.path_most.min(payload_of(tcb, mss));
    tcb.path.forget_bounds();
    too_big(tcb, mss, now)
}

/// Both ends take segments of `most` bytes: those to begin with.
pub(crate) fn agreed(tcb: &mut Tcb, most: u16, now: Instant) -> Mss {
    tcb.path_most = most;
    let (size, search) = match tcb.path.known {
        Some((mss, until)) => (payload_of(tcb, mss).min(most), until),
        None if tcb.config.mtu_probing == MtuProbing::Always => {
            (payload_of(tcb, first_step(tcb)).min(most), now)
        }
        None => (most, Instant::NEVER),
    };
    if size < most {
        probe::search_from(tcb, search);
    }
    Mss(size)
}

/// Payload of segments for which the path has room for `mss` bytes, options not counted.
fn payload_of(tcb: &Tcb, mss: Mss) -> u16 {
    mss.0.saturating_sub(options_bytes(tcb)).max(PAYLOAD_LEAST)
}

fn options_bytes(tcb: &Tcb) -> u16 {
    if tcb.marks.has(Marks::TIMESTAMPS) { 12 } else { 0 }
}

/// What nearly every path carries; with IPv6 what every one has to.
fn first_step(tcb: &Tcb) -> Mss {
    BASE_MSS.max(tcb.default_mss)
}

/// The size to try when larger segments vanish; `None` if they are as small already as is tried.
/// The last resort is what every host takes: 576 bytes of IPv4, 1280 of IPv6.
pub(crate) fn smaller(tcb: &Tcb) -> Option<u16> {
    let steps = [first_step(tcb), tcb.default_mss];
    let sizes = steps.map(|mss| payload_of(tcb, mss));
    sizes.into_iter().find(|&size| size < tcb.snd_mss.0)
}

/// `seq`, which is lost, is about to be sent again. If it is the third time for a large segment,
/// and no large one behind it has arrived since the time before, it is the size that keeps it from
/// arriving: a black hole (RFC 2923 section 2.1, RFC 4821 section 7.7). The windows stay as they
/// are: time-outs have had their say.
/// RFC 4821 7.7-a.
pub(crate) fn suspect(tcb: &mut Tcb, seq: SeqNumber, cx: &mut Cx) {
    let Some(size) = smaller(tcb) else { return };
    let is_large = tcb.sendq.in_flight(0).is_some_and(|piece| piece.len > u32::from(size));
    if seq != tcb.snd_una || !is_large || tcb.config.mtu_probing == MtuProbing::Off {
        return;
    }
    let (head, times) = tcb.recovery.large_resends;
    let times = if head == seq { times.saturating_add(1) } else { 1 };
    tcb.recovery.large_resends = (seq, times);
    if times < SENDINGS {
        return;
    }
    if tcb.recovery.large_arrived_to.gt(seq) {
        // That excuses the size once: the path may have become narrower since.
        tcb.recovery.large_arrived_to = seq;
        return;
    }
    cx.counters.add(Counter::PathBlackHoles, 1);
    shrink(tcb, size, cx.now);
    tcb.path.forget_bounds();
    // If that does not arrive either, there is one more step, and no need to wait twice again.
    tcb.recovery.large_resends = (seq, SENDINGS - 1);
    tcb.path.unproved = Some(seq);
    probe::search_from(tcb, cx.now);
}

fn shrink(tcb: &mut Tcb, payload: u16, now: Instant) {
    set_size(tcb, payload);
    tcb.path.probe = None;
    tcb.recovery.large_resends = (tcb.snd_una, 0);
    tcb.recovery.large_arrived_to = tcb.snd_una;
    recovery::resend_larger(tcb, u32::from(payload), now);
    tcb.todo.set(Todo::OUTPUT);
}

/// Segments have `payload` bytes from now on; the congestion window stays as many bytes as it was.
pub(crate) fn set_size(tcb: &mut Tcb, payload: u16) {
    tcb.snd_mss = Mss(payload);
    tcb.cc.set_mss(usize::from(payload));
}

/// What this connection found out by itself since it was last asked: the MSS that the path
/// carries, and whether that is less than was thought rather than more.
pub fn take_news(tcb: &mut Tcb) -> Option<(Mss, bool)> {
    if !tcb.has_path_news() {
        return None;
    }
    tcb.marks.clear(Marks::PATH_NEWS);
    Some((Mss(tcb.snd_mss.0 + options_bytes(tcb)), tcb.path.is_worse))
}

impl Tcb {
    /// Is there something for [`take_news`]?
    #[inline(always)]
    pub fn has_path_news(&self) -> bool {
        self.marks.has(Marks::PATH_NEWS)
    }

    /// No answer for as long as we would wait.
    pub(crate) fn give_up(&mut self) {
        self.fail(self.fresh_soft_error().unwrap_or(Error::TimedOut));
    }

    /// The last ICMP error about the path, if no ACK since has shown that it works.
    pub(crate) fn fresh_soft_error(&self) -> Option<Error> {
        self.rare.soft_error.filter(|&(_, at)| at == self.snd_una).map(|(error, _)| error)
    }
}
