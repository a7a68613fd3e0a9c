//! Handles reports about a connection's path: a destination is unreachable, or packets are too big.
//! An ICMP message can be forged, so it must name a byte that is in flight, and it never ends an
//! open connection.
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

/// How long a reported path MTU is used before larger segments are tried (RFC 1191 section 6.3, RFC
/// 8201 section 4).
pub const LIFE: Duration = Duration::from_secs(600);
/// Fallback MSS when larger segments vanish, options not counted: packets of 1200 bytes,
/// BASE_PLPMTU of RFC 8899 section 5.1.2. Every tunnel for IPv6 carries such packets; the 1024 of
/// RFC 4821 is older than the tunnels of today.
const BASE_MSS: Mss = Mss(1160);
/// Retransmissions of a large segment before its size is suspected; one time-out is no proof.
const SENDINGS: u8 = 2;
/// Minimum payload of a segment in bytes, however small the reported MTU is.
const PAYLOAD_LEAST: u16 = 88;

/// Does `seq` belong to a segment that is in flight? RFC 5927 section 4.1.
pub fn is_in_flight(tcb: &Tcb, seq: SeqNumber) -> bool {
    tcb.snd_una.le(seq) && seq.lt(tcb.snd_nxt)
}

/// A soft error: the path fails but may recover. The user gets this error if the connection times
/// out with no further ACK.
/// RFC 9293 MUST-56.
pub fn soft_error(tcb: &mut Tcb, error: Error) {
    tcb.rare.soft_error = Some((error, tcb.snd_una));
}

/// A hard error: the peer will never answer. It ends a connection in SYN-SENT; any other connection
/// treats it as a soft error (RFC 5927 section 5.2). RFC 9293 SHLD-26.
pub fn hard_error(tcb: &mut Tcb, error: Error) {
    match tcb.state {
        State::SynSent => tcb.fail(error),
        _ => soft_error(tcb, error),
    }
}

/// The next hop to the peer does not answer. We observed this ourselves, so it is not forged. This
/// ends a connection in SYN-SENT, and one in SYN-RECEIVED whose SYN-ACK was never sent: its peer
/// may not exist. After a SYN-ACK was sent the peer may consider the connection established.
pub fn host_unreachable(tcb: &mut Tcb) {
    match tcb.state {
        State::SynSent => tcb.fail(Error::HostUnreachable),
        State::SynReceived if tcb.stats.segments_out == 0 => tcb.fail(Error::HostUnreachable),
        _ => soft_error(tcb, Error::HostUnreachable),
    }
}

/// What was done with a message that a segment was too big for its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Accepted: segments are smaller from now on.
    Believed,
    /// The message has nothing new or useful.
    Ignored,
    /// Larger segments have arrived before: the report is kept until a time-out confirms it.
    Doubted,
}

/// A router reports that the segment at `seq`, which is in flight, was too big, and that its link
/// carries segments of `mss` bytes, options not counted. If large segments do arrive, the report is
/// a forgery. If cwnd has grown, they have arrived. The report is then believed only once the
/// segment is missing: it was retransmitted, or a time-out follows (RFC 5927 section 7.2).
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

/// After a time-out: does a doubted path MTU report explain it?
pub(crate) fn timed_out(tcb: &mut Tcb, cx: &mut Cx) {
    let Some((seq, mss)) = tcb.path.doubted else { return };
    tcb.path.doubted = None;
    if is_in_flight(tcb, seq) && too_big(tcb, mss, cx.now) {
        cx.counters.add(Counter::PathMtuLowered, 1);
        // The stack informs other connections on this path.
        tcb.path.is_worse = true;
        tcb.marks.set(Marks::PATH_NEWS);
    }
}

/// The path carries segments of at most `mss` bytes, options not counted; the caller has checked
/// the report. Larger segments in flight are retransmitted at once. This is no congestion, so cwnd
/// stays. `false` if segments were small enough already.
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

/// Another connection found that the path carries segments of `mss` bytes, options not counted. A
/// smaller size is applied as by [`too_big`]; a larger one is tried. `true` if segments became
/// smaller.
pub fn learnt(tcb: &mut Tcb, mss: Mss, now: Instant) -> bool {
    if payload_of(tcb, mss) > tcb.snd_mss.0 && tcb.marks.has(Marks::PATH_SEARCH) {
        tcb.path.next_search = tcb.path.next_search.min(now);
    }
    payload_of(tcb, mss) < tcb.snd_mss.0 && too_big(tcb, mss, now)
}

/// From now on our link, the route and the neighbour carry segments of `mss` bytes, options not
/// counted. Smaller segments are sent at once, and larger ones in flight are retransmitted. If
/// `mss` is larger than before, larger segments are sent at once if the link was the limit; if the
/// path was the limit, they are tried. `true` if segments became smaller.
pub fn link_carries(tcb: &mut Tcb, mss: Mss, now: Instant) -> bool {
    if mss == tcb.link_mss {
        return false;
    }
    tcb.link_mss = mss;
    if tcb.agreed_most == 0 {
        // The handshake takes the new size into account.
        return false;
    }
    let before = tcb.path_most;
    tcb.path_most = link_most(tcb);
    if !tcb.state.is_synchronised() {
        tcb.snd_mss = tcb.snd_mss.min(Mss(tcb.path_most));
        return false;
    }
    tcb.path.forget_bounds();
    if tcb.path_most > before {
        if tcb.snd_mss.0 == before {
            set_size(tcb, tcb.path_most);
        } else {
            probe::search_from(tcb, now);
        }
    }
    tcb.path_most < tcb.snd_mss.0 && too_big(tcb, mss, now)
}

/// The largest payload that both ends accept and our link carries.
fn link_most(tcb: &Tcb) -> u16 {
    tcb.agreed_most.min(payload_of(tcb, tcb.link_mss))
}

/// The handshake negotiated `most` bytes of payload: returns the size to begin with.
pub(crate) fn agreed(tcb: &mut Tcb, most: u16, now: Instant) -> Mss {
    tcb.agreed_most = most;
    let most = link_most(tcb);
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

/// Payload of a segment if the path has room for `mss` bytes, options not counted.
fn payload_of(tcb: &Tcb, mss: Mss) -> u16 {
    mss.0.saturating_sub(options_bytes(tcb)).max(PAYLOAD_LEAST)
}

fn options_bytes(tcb: &Tcb) -> u16 {
    if tcb.marks.has(Marks::TIMESTAMPS) { 12 } else { 0 }
}

/// The MSS that nearly every path carries; with IPv6 every path.
fn first_step(tcb: &Tcb) -> Mss {
    BASE_MSS.max(tcb.default_mss)
}

/// The next smaller size when large segments vanish; `None` if there is none. The last resort is
/// the minimum that every host accepts: 576 bytes of IPv4, 1280 of IPv6.
pub(crate) fn smaller(tcb: &Tcb) -> Option<u16> {
    let steps = [first_step(tcb), tcb.default_mss];
    let sizes = steps.map(|mss| payload_of(tcb, mss));
    sizes.into_iter().find(|&size| size < tcb.snd_mss.0)
}

/// `seq`, which is lost, is about to be retransmitted. If this is the second retransmission of a
/// large segment, and no large segment after it has arrived, its size is the likely cause: a black
/// hole (RFC 2923 section 2.1, RFC 4821 section 7.7). cwnd stays, because the time-outs have
/// reduced it already.
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
        // A large segment that arrived clears the size of suspicion only once: the path may have
        // become narrower since.
        tcb.recovery.large_arrived_to = seq;
        return;
    }
    cx.counters.add(Counter::PathBlackHoles, 1);
    shrink(tcb, size, cx.now);
    tcb.path.forget_bounds();
    // If this size vanishes too, there is one more step, after a single retransmission.
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

/// Set the payload of segments; cwnd stays the same in bytes.
pub(crate) fn set_size(tcb: &mut Tcb, payload: u16) {
    tcb.snd_mss = Mss(payload);
    tcb.cc.set_mss(usize::from(payload));
}

/// The result that this connection has found by itself since the last call: the MSS that the path
/// carries, and whether that is less than was assumed.
pub fn take_news(tcb: &mut Tcb) -> Option<(Mss, bool)> {
    if !tcb.has_path_news() {
        return None;
    }
    tcb.marks.clear(Marks::PATH_NEWS);
    Some((Mss(tcb.snd_mss.0 + options_bytes(tcb)), tcb.path.is_worse))
}

impl Tcb {
    /// Does [`take_news`] have a result?
    #[inline(always)]
    pub fn has_path_news(&self) -> bool {
        self.marks.has(Marks::PATH_NEWS)
    }

    /// Give up: the peer has not answered for the maximum time.
    pub(crate) fn give_up(&mut self) {
        self.fail(self.fresh_soft_error().unwrap_or(Error::TimedOut));
    }

    /// The last soft error, if no ACK of new data came since.
    pub(crate) fn fresh_soft_error(&self) -> Option<Error> {
        self.rare.soft_error.filter(|&(_, at)| at == self.snd_una).map(|(error, _)| error)
    }
}
