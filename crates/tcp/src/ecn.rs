//! Explicit congestion notification, RFC 3168: a queue that gets long marks a packet instead of
//! dropping it, the receiver echoes the mark until it is heard, the sender slows down and says so.
//!
//! Called by: handshake (what was agreed), input (marks that came), ack (marks that were echoed),
//! recovery (who slows down for a loss says so as well), output. The stack reads marks from IP
//! headers, and writes ECT where [`crate::output::Run::is_ecn_capable`] says so. Counters:
//! `tcp_ce_in`, `tcp_ecn_reductions`.

use base::Counter;
use wire::tcp::Flags;

use crate::config::Ecn;
use crate::marks::{EcnBits, Todo};
use crate::tcb::Tcb;
use crate::{Cx, Segment};

/// What an ECN-setup SYN has, of which an ECN-setup SYN-ACK has ECE alone: a peer that merely
/// reflects reserved bits is not taken for one that knows them (section 6.1.1).
const SETUP: Flags = Flags::ECE.with(Flags::CWR);

/// The flags of our SYN or SYN-ACK. One that is sent again asks for nothing: what came between may
/// drop what it does not know (section 6.1.1.1).
pub(crate) fn setup_flags(tcb: &Tcb, answer: bool) -> Flags {
    if answer {
        if tcb.ecn.has(EcnBits::AGREED) { Flags::ECE } else { Flags::NONE }
    } else if tcb.config.ecn == Ecn::On && tcb.rtt.backoff == 0 {
        SETUP
    } else {
        Flags::NONE
    }
}

/// What the peer's SYN or SYN-ACK says. `active`: we sent a SYN ourselves.
pub(crate) fn negotiate(tcb: &mut Tcb, seg: &Segment, active: bool) {
    let wanted = if active { tcb.config.ecn == Ecn::On } else { tcb.config.ecn != Ecn::Off };
    let said = seg.flags.0 & SETUP.0;
    let setup = if seg.flags.contains(Flags::ACK) { Flags::ECE } else { SETUP };
    if wanted && said == setup.0 {
        tcb.ecn.set(EcnBits::AGREED);
        // Who would not slow down for a mark asks for drops instead (section 5).
        if tcb.cc.heeds_marks() {
            tcb.ecn.set(EcnBits::SENDS);
        }
    }
}

/// The peer sent its SYN again, before an answer came. Without ECN this time: it may not expect ECT
/// from us (section 6.1.1), but may send it.
pub(crate) fn syn_again(tcb: &mut Tcb, seg: &Segment) {
    if !seg.flags.contains(SETUP) {
        tcb.ecn.clear(EcnBits::SENDS);
    }
}

/// An acceptable segment has come: is it marked, does the peer say that it slowed down? Both ask
/// for an ACK at once: the peer's window may be small by now. A mark counts on data alone, and more
/// than a CWR in the same segment (section 6.1.3).
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

/// An ACK was taken, with `flight` bytes on the way before it. Does it echo a mark? Then the window
/// must not grow by it, and is reduced once for each window of data, as for a loss (section 6.1.2,
/// RFC 9438 section 4.6, RFC 8311 section 4.1).
/// RFC 9293 SHLD-8.
#[inline]
pub(crate) fn echoed(tcb: &mut Tcb, seg: &Segment, flight: u64, cx: &mut Cx) -> bool {
    if !tcb.ecn.has(EcnBits::SENDS) || !seg.flags.contains(Flags::ECE) || seg.ack != tcb.snd_una {
        return false;
    }
    // The peer echoes until CWR comes, which is with the byte at `ecn_recover`.
    let is_old = tcb.ecn.has(EcnBits::CWR_DUE) || tcb.snd_una == tcb.ecn_recover;
    if !is_old && !is_reduced(tcb) {
        // An echo may come late, when nothing is on the way any more.
        let flight = if flight == 0 { tcb.cc.cwnd } else { flight };
        tcb.cc.on_congestion(flight);
        tcb.cc.recovered();
        // A mark is never a mistake.
        tcb.cc.forget_before();
        tcb.stats.rare.ecn_reductions += 1;
        cx.counters.add(Counter::TcpEcnReductions, 1);
        reduced(tcb);
    }
    true
}

/// Was the window reduced already for the window of data that SND.UNA is in?
#[inline]
pub(crate) fn is_reduced(tcb: &Tcb) -> bool {
    tcb.ecn.has(EcnBits::SENDS)
        && tcb.snd_una.lt(tcb.ecn_recover)
        && tcb.ecn_recover.le(tcb.snd_nxt)
}

/// The window was reduced, for a mark or for a loss: the next new data says so (section 6.1.2).
#[inline]
pub(crate) fn reduced(tcb: &mut Tcb) {
    if tcb.ecn.has(EcnBits::SENDS) {
        tcb.ecn.set(EcnBits::CWR_DUE);
        tcb.ecn_recover = tcb.snd_nxt;
    }
}

/// A reduction was taken back: the next mark or loss counts. CWR, if it is still due, does no harm.
pub(crate) fn undone(tcb: &mut Tcb) {
    tcb.ecn.clear(EcnBits::CWR_DUE);
    tcb.ecn_recover = tcb.snd_una - 1;
}
