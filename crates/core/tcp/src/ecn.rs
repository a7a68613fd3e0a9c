//! Explicit congestion notification, RFC 3168: a router with a long queue marks packets (CE), the
//! receiver echoes the mark (ECE) until it gets CWR, and the sender reduces cwnd and sends CWR.
//!
//! Called by: handshake (negotiation), input (CE and CWR received), ack (ECE received), recovery
//! (CWR after a loss), output. The stack reads CE from IP headers, and sets ECT if
//! [`crate::output::Run::is_ecn_capable`] is true. Counters: `tcp_ce_in`, `tcp_ecn_reductions`.

use base::Counter;
use wire::tcp::Flags;

use crate::config::Ecn;
use crate::marks::{EcnBits, Todo};
use crate::tcb::Tcb;
use crate::{Cx, Segment};

/// The flags of an ECN-setup SYN. An ECN-setup SYN-ACK has ECE alone, so that a peer that merely
/// reflects reserved bits is not taken for one that supports ECN (section 6.1.1).
const SETUP: Flags = Flags::ECE.with(Flags::CWR);

/// The ECN flags of our SYN or SYN-ACK. A retransmitted SYN has none, because a middlebox may drop
/// SYNs with ECN (section 6.1.1.1).
pub(crate) fn setup_flags(tcb: &Tcb, answer: bool) -> Flags {
    if answer {
        if tcb.ecn.has(EcnBits::AGREED) { Flags::ECE } else { Flags::NONE }
    } else if tcb.config.ecn == Ecn::On && tcb.rtt.backoff == 0 {
        SETUP
    } else {
        Flags::NONE
    }
}

/// Take the ECN flags of the peer's SYN or SYN-ACK. `active`: we sent a SYN ourselves.
pub(crate) fn negotiate(tcb: &mut Tcb, seg: &Segment, active: bool) {
    let wanted = if active { tcb.config.ecn == Ecn::On } else { tcb.config.ecn != Ecn::Off };
    let said = seg.flags.0 & SETUP.0;
    let setup = if seg.flags.contains(Flags::ACK) { Flags::ECE } else { SETUP };
    if wanted && said == setup.0 {
        tcb.ecn.set(EcnBits::AGREED);
        // An algorithm that ignores CE marks does not send ECT (section 5).
        if tcb.cc.heeds_marks() {
            tcb.ecn.set(EcnBits::SENDS);
        }
    }
}

/// The peer retransmitted its SYN because our SYN-ACK had not arrived. If the new SYN does not
/// request ECN, the peer may not expect ECT from us (section 6.1.1), but may still send it.
pub(crate) fn syn_again(tcb: &mut Tcb, seg: &Segment) {
    if !seg.flags.contains(SETUP) {
        tcb.ecn.clear(EcnBits::SENDS);
    }
}

/// Handle CE and CWR of an acceptable segment. Both request an immediate ACK, because the peer's
/// cwnd may be small. CE counts on data only, and overrides CWR in the same segment (section
/// 6.1.3).
#[inline]
pub(crate) fn arrived(tcb: &mut Tcb, seg: &Segment, cx: &mut Cx) {
    if !tcb.ecn.has(EcnBits::AGREED) || !(seg.ce || seg.flags.contains(Flags::CWR)) {
        return;
    }
    if seg.flags.contains(Flags::CWR) {
        tcb.ecn.clear(EcnBits::ECHO);
    }
    if seg.len == 0 {
        return;
    }
    tcb.todo.set(Todo::ACK_NOW);
    if seg.ce {
        tcb.stats.rare.ce_marks += 1;
        cx.counters.add(Counter::TcpCeIn, 1);
        tcb.ecn.set(EcnBits::ECHO);
    }
}

/// An ACK was processed, with `flight` bytes in flight before it. Returns whether it echoes a CE
/// mark; cwnd must then not grow. The first echo in a window of data reduces cwnd as a loss does
/// (section 6.1.2, RFC 9438 section 4.6, RFC 8311 section 4.1).
/// RFC 9293 SHLD-8.
#[inline]
pub(crate) fn echoed(tcb: &mut Tcb, seg: &Segment, flight: u64, cx: &mut Cx) -> bool {
    if !tcb.ecn.has(EcnBits::SENDS) || !seg.flags.contains(Flags::ECE) || seg.ack != tcb.snd_una {
        return false;
    }
    // The peer sends ECE until it gets the CWR of the segment at `ecn_recover`.
    let is_old = tcb.ecn.has(EcnBits::CWR_DUE) || tcb.snd_una == tcb.ecn_recover;
    if !is_old && !is_reduced(tcb) {
        // A late echo may find nothing in flight.
        let flight = if flight == 0 { tcb.cc.cwnd } else { flight };
        tcb.cc.on_congestion(flight);
        tcb.cc.recovered();
        // A reduction for a CE mark is never undone.
        tcb.cc.forget_before();
        tcb.stats.rare.ecn_reductions += 1;
        cx.counters.add(Counter::TcpEcnReductions, 1);
        reduced(tcb);
    }
    true
}

/// Was cwnd already reduced for the window of data that contains SND.UNA?
#[inline]
pub(crate) fn is_reduced(tcb: &Tcb) -> bool {
    tcb.ecn.has(EcnBits::SENDS)
        && tcb.snd_una.lt(tcb.ecn_recover)
        && tcb.ecn_recover.le(tcb.snd_nxt)
}

/// cwnd was reduced for a CE mark or a loss: the next new data carries CWR (section 6.1.2).
#[inline]
pub(crate) fn reduced(tcb: &mut Tcb) {
    if tcb.ecn.has(EcnBits::SENDS) {
        tcb.ecn.set(EcnBits::CWR_DUE);
        tcb.ecn_recover = tcb.snd_nxt;
    }
}

/// A reduction was undone: the next CE mark or loss counts again.
pub(crate) fn undone(tcb: &mut Tcb) {
    tcb.ecn.clear(EcnBits::CWR_DUE);
    tcb.ecn_recover = tcb.snd_una - 1;
}
