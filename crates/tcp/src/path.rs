//! What the network says about a connection's path: that packets do not arrive, or must be smaller.
//! Anybody can forge such a message, so each has to name a byte that is in flight, and none ends a
//! connection that is open.
//!
//! Called by: the stack, for ICMP errors and for neighbours that do not answer. Must not know:
//! ICMP. RFC 1122 section 4.2.3.9, RFC 5461 section 4, RFC 5927 sections 4 to 7, RFC 1191 section
//! 6.5.

use base::{Instant, Mss, SeqNumber};

use crate::marks::{Marks, Todo};
use crate::recovery;
use crate::state::{Error, State};
use crate::tcb::Tcb;

/// Least payload of a segment, however narrow the path is said to be, in bytes.
const PAYLOAD_LEAST: u16 = 88;

/// Is `seq` of a segment that is in flight? RFC 5927 section 4.1.
pub fn is_in_flight(tcb: &Tcb, seq: SeqNumber) -> bool {
    tcb.snd_una.le(seq) && seq.lt(tcb.snd_nxt)
}

/// The path fails now and perhaps not for ever (a soft error): what the user is told if the
/// connection times out without an ACK from here on.
pub fn soft_error(tcb: &mut Tcb, error: Error) {
    tcb.soft_error = Some((error, tcb.snd_una));
}

/// Nothing will ever answer (a hard error). It ends a connection that is being opened; an open
/// one has proved the contrary, and takes it as a soft error (RFC 5927 section 5.2).
pub fn hard_error(tcb: &mut Tcb, error: Error) {
    match tcb.state {
        State::SynSent => tcb.fail(error),
        _ => soft_error(tcb, error),
    }
}

/// Our own link knows no way to the peer. A connection that never had one ends: nothing was
/// forged here, and nothing has left.
pub fn no_way(tcb: &mut Tcb) {
    match tcb.state {
        State::SynSent | State::SynReceived => tcb.fail(Error::HostUnreachable),
        _ => soft_error(tcb, Error::HostUnreachable),
    }
}

/// Segments of `mss` bytes, options not counted, are the most that the path carries: those in
/// flight that were larger are sent again at once. That is no congestion, so no window shrinks.
/// `false` if they were small enough already.
pub fn too_big(tcb: &mut Tcb, mss: Mss, now: Instant) -> bool {
    let options = if tcb.marks.has(Marks::TIMESTAMPS) { 12 } else { 0 };
    let payload = mss.0.saturating_sub(options).max(PAYLOAD_LEAST);
    if payload >= tcb.snd_mss.0 || !tcb.state.is_synchronised() {
        return false;
    }
    tcb.snd_mss = Mss(payload);
    tcb.cc.set_mss(usize::from(payload));
    recovery::resend_larger(tcb, u32::from(payload), now);
    tcb.todo.set(Todo::OUTPUT);
    true
}

impl Tcb {
    /// Nobody answered for as long as we would wait.
    pub(crate) fn give_up(&mut self) {
        let una = self.snd_una;
        let soft = self.soft_error.filter(|&(_, at)| at == una);
        self.fail(soft.map_or(Error::TimedOut, |(error, _)| error));
    }
}
