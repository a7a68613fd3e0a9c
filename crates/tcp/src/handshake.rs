//! Opening: SYN-SENT (RFC 9293 section 3.10.7.3), what a listener does with a segment
//! (3.10.7.2), and the step from SYN-RECEIVED to ESTABLISHED.
//!
//! Called by: input, and by the stack for its listeners.

use std::sync::Arc;

use base::{DropReason, Mss, WindowScale};
use mbuf::Mbuf;
use wire::tcp::{Flags, Options};

use crate::marks::{Events, Marks, Todo};
use crate::opening::Opening;
use crate::receive::paws::Paws;
use crate::receive::{text, tuning};
use crate::state::{Error, State};
use crate::tcb::Tcb;
use crate::{Config, Cx, Fate, Segment, ack, ecn, path, usrreq};

/// What a listener does with a segment that belongs to no connection, RFC 9293 3.10.7.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// Make a connection with [`passive_open`].
    Open,
    /// Answer with RST and drop.
    Reset(DropReason),
    /// Drop.
    Ignore(DropReason),
}

/// Decide for a listener: first RST, then ACK, then SYN.
pub fn listen(seg: &Segment) -> Listen {
    if seg.flags.contains(Flags::RST) {
        Listen::Ignore(DropReason::TcpListenRst)
    } else if seg.flags.contains(Flags::ACK) {
        Listen::Reset(DropReason::TcpListenAck)
    } else if seg.flags.contains(Flags::SYN) {
        Listen::Open
    } else {
        Listen::Ignore(DropReason::TcpListenNotSyn)
    }
}

/// A connection in SYN-RECEIVED for the SYN in `seg`. Data on the SYN is not kept: the peer sends
/// it again (RFC 9293 allows that; TFO is another matter).
pub fn passive_open(
    config: &Arc<Config>,
    opening: &Opening,
    seg: &Segment,
    options: &Options,
    cx: &mut Cx<'_>,
) -> Tcb {
    let mut tcb = Tcb::new(config, opening);
    tcb.marks.set(Marks::EMBRYONIC);
    take_syn(&mut tcb, seg, options, cx);
    tcb.state = State::SynReceived;
    send_syn(&mut tcb, cx);
    tcb
}

/// Both ways of opening end here: our SYN is to be sent.
pub(crate) fn send_syn(tcb: &mut Tcb, cx: &Cx<'_>) {
    tcb.snd_nxt = tcb.iss + 1;
    tcb.todo.set(Todo::SYN);
    tcb.syn_sent_at = cx.now;
    tcb.restart_retransmit(cx.now);
}

/// What the peer's SYN says: its sequence space, its options, its first window.
fn take_syn(tcb: &mut Tcb, seg: &Segment, options: &Options, cx: &Cx<'_>) {
    tcb.irs = seg.seq;
    tcb.rcv_nxt = seg.seq + 1;
    tcb.rcv_up = tcb.rcv_nxt;
    tcb.rcv_adv = tcb.rcv_nxt + (tcb.receive.limit_bytes() as u32).min(65_535);
    tcb.last_ack_sent = tcb.rcv_nxt;
    match options.window_scale {
        Some(scale) if tcb.config.window_scaling => {
            tcb.peer_scales = true;
            tcb.snd_wscale = scale;
        }
        // Both or none, RFC 7323 section 2.2.
        _ => tcb.rcv_wscale = WindowScale::default(),
    }
    if let Some(ts) = options.timestamps
        && tcb.config.timestamps
    {
        tcb.marks.set(Marks::TIMESTAMPS);
        tcb.set_ts_recent(ts.value, cx);
        tcb.paws = Paws::new(ts.value);
    }
    if options.sack_permitted && tcb.config.sack {
        tcb.marks.set(Marks::SACK);
    }
    ecn::negotiate(tcb, seg, tcb.marks.has(Marks::ACTIVE));
    // RFC 9293 MUST-15; a floor of 48 keeps a lying peer from making us send headers only.
    let peer = options.mss.map_or(tcb.default_mss, Mss).bytes().max(MSS_FLOOR);
    let options_len = if tcb.marks.has(Marks::TIMESTAMPS) { 12 } else { 0 };
    let mss = peer.min(tcb.advertised_mss.bytes()).saturating_sub(options_len).max(MSS_LEAST);
    tcb.snd_mss = path::agreed(tcb, mss as u16, cx.now);
    // The window of a SYN is never scaled, RFC 7323 section 2.2.
    tcb.snd_wnd = u32::from(seg.window);
    tcb.max_snd_wnd = tcb.snd_wnd;
    tcb.snd_wl1 = seg.seq;
    tcb.snd_wl2 = seg.ack;
}

/// The least MSS a peer may ask for, as Linux has it (CVE-2019-11479).
const MSS_FLOOR: usize = 48;
/// The least payload that is left when a link of 68 bytes carries all our options.
const MSS_LEAST: usize = 8;

/// A segment in SYN-SENT, RFC 9293 section 3.10.7.3.
pub(crate) fn in_syn_sent(
    tcb: &mut Tcb,
    seg: &Segment,
    options: &Options,
    mut m: Mbuf,
    cx: &mut Cx<'_>,
) -> Fate {
    let has_ack = seg.flags.contains(Flags::ACK);
    if has_ack && (seg.ack.le(tcb.iss) || seg.ack.gt(tcb.snd_nxt)) {
        // The stack answers with RST unless the segment is one (it knows the segment's ACK).
        return Err(DropReason::TcpBadAck);
    }
    if seg.flags.contains(Flags::RST) {
        if has_ack {
            tcb.fail(Error::Refused);
            return Err(DropReason::TcpRst);
        }
        return Err(DropReason::TcpBadRst);
    }
    if !seg.flags.contains(Flags::SYN) {
        return Err(DropReason::TcpSynSentNoSyn);
    }
    take_syn(tcb, seg, options, cx);
    if !has_ack {
        // Simultaneous open: our SYN goes again, now with an ACK of theirs.
        tcb.state = State::SynReceived;
        tcb.todo.set(Todo::SYN);
        tcb.restart_retransmit(cx.now);
        return Ok(());
    }
    tcb.snd_una = seg.ack;
    establish(tcb, cx);
    tcb.todo.set(Todo::ACK_NOW);
    m.truncate(tcb.rcv_wnd() as usize);
    if !m.is_empty() {
        text::accept(tcb, seg.seq + 1, m, cx)?;
    }
    let after_syn = Segment { seq: seg.seq + 1, ..*seg };
    text::check_fin(tcb, &after_syn);
    Ok(())
}

/// SYN-RECEIVED and an ACK: ours was received, or the ACK is not for us.
pub(crate) fn finish_passive(tcb: &mut Tcb, seg: &Segment, cx: &mut Cx<'_>) -> Fate {
    if seg.ack.le(tcb.iss) || seg.ack.gt(tcb.snd_nxt) {
        return Err(DropReason::TcpBadAck);
    }
    tcb.snd_una = tcb.iss + 1;
    establish(tcb, cx);
    // The window of this segment counts whatever SND.WL1 and SND.WL2 say (RFC 9293).
    tcb.snd_wl1 = seg.seq;
    tcb.snd_wl2 = tcb.snd_una;
    ack::update_send_window(tcb, seg);
    Ok(())
}

fn establish(tcb: &mut Tcb, cx: &mut Cx<'_>) {
    let syn_lost = tcb.rtt.backoff > 0;
    if syn_lost {
        tcb.rtt.syn_timed_out();
    } else {
        tcb.rtt.sample(cx.now.since(tcb.syn_sent_at));
    }
    tcb.cc.start(tcb.snd_mss.bytes(), syn_lost);
    tuning::opened(tcb, cx);
    tcb.sendq.recut(usrreq::unit_bytes(tcb), usrreq::sums(tcb, cx), cx.pool);
    tcb.timers.retransmit = base::Instant::NEVER;
    tcb.state = if tcb.marks.has(Marks::SHUT_WRITE) { State::FinWait1 } else { State::Established };
    if let Some(idle) = tcb.config.keepalive_idle {
        tcb.timers.idle = cx.now + idle;
    }
    tcb.events.set(Events::CONNECTED | Events::WRITABLE);
    tcb.todo.set(Todo::OUTPUT);
}
