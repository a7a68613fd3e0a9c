//! The handshake: SYN-SENT (RFC 9293 section 3.10.7.3), what a listener does with a segment
//! (3.10.7.2), and the step from SYN-RECEIVED to ESTABLISHED.
//!
//! Called by: input, and the stack for its listeners.

use std::sync::Arc;

use base::{DropReason, Mss, WindowScale};
use mbuf::Mbuf;
use wire::tcp::{Flags, Options};

use crate::config::MSS_FLOOR;
use crate::marks::{Events, Marks, Todo};
use crate::opening::Opening;
use crate::receive::{Paws, text, tuning};
use crate::send_tuning::unit_bytes;
use crate::state::{Error, State};
use crate::tcb::{Tcb, sums};
use crate::{Config, Cx, Fate, Segment, ack, ecn, fast_open, path, user_timeout};

/// A listener's decision about a segment that belongs to no connection, RFC 9293 3.10.7.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// Make a connection with [`passive_open`].
    Open,
    /// Answer with a RST and drop.
    Reset(DropReason),
    /// Drop.
    Ignore(DropReason),
}

/// Decide for a listener: first RST, then ACK, then SYN. A SYN with FIN is dropped, as on Linux: no
/// TCP sends one, but scanners do to pass filters (docs/decisions/0055).
pub fn listen(seg: &Segment) -> Listen {
    if seg.flags.contains(Flags::RST) {
        Listen::Ignore(DropReason::TcpListenRst)
    } else if seg.flags.contains(Flags::ACK) {
        Listen::Reset(DropReason::TcpListenAck)
    } else if seg.flags.contains(Flags::SYN | Flags::FIN) {
        Listen::Ignore(DropReason::TcpListenSynFin)
    } else if seg.flags.contains(Flags::SYN) {
        Listen::Open
    } else {
        Listen::Ignore(DropReason::TcpListenNotSyn)
    }
}

/// Create a connection in SYN-RECEIVED for the SYN in `seg`. Data in the SYN is dropped, and the
/// peer sends it again, as RFC 9293 allows, unless [`fast_open::accept`] takes it.
/// RFC 9293 MUST-11.
pub fn passive_open(
    config: &Arc<Config>,
    opening: &Opening,
    seg: &Segment,
    options: &Options,
    cx: &mut Cx,
) -> Tcb {
    let mut tcb = Tcb::new(config, opening);
    tcb.marks.set(Marks::EMBRYONIC);
    take_syn(&mut tcb, seg, options, cx);
    tcb.state = State::SynReceived;
    send_syn(&mut tcb, cx);
    tcb
}

/// Send our SYN or SYN-ACK; active and passive open both end here.
pub(crate) fn send_syn(tcb: &mut Tcb, cx: &Cx) {
    tcb.snd_nxt = tcb.iss + 1;
    tcb.todo.set(Todo::SYN);
    tcb.syn_sent_at = cx.now;
    tcb.restart_retransmit(cx.now);
}

impl Tcb {
    /// Was our SYN or SYN-ACK sent before, so that it is now sent without the Fast Open option and
    /// data?
    pub(crate) fn syn_goes_again(&self) -> bool {
        self.rtt.backoff > 0 || self.syn_sent_at == base::Instant::NEVER
    }

    /// The SYN-ACK was sent before this connection existed (a SYN cookie). The time when it was
    /// sent is unknown, so the handshake measures no round trip.
    pub fn syn_was_answered(&mut self) {
        self.todo.clear(Todo::SYN);
        self.syn_sent_at = base::Instant::NEVER;
    }
}

/// Take over the peer's SYN: its sequence number, its options, its first window.
fn take_syn(tcb: &mut Tcb, seg: &Segment, options: &Options, cx: &Cx) {
    tcb.irs = seg.seq;
    tcb.rcv_nxt = seg.seq + 1;
    tcb.rcv_adv = tcb.rcv_nxt + (tcb.receive.limit_bytes() as u32).min(65_535);
    tcb.last_ack_sent = tcb.rcv_nxt;
    match options.window_scale {
        Some(scale) if tcb.config.window_scaling => {
            tcb.peer_scales = true;
            tcb.snd_wscale = scale;
        }
        // RFC 7323 2.2-b.
        // Window scaling needs the option in both SYNs, RFC 7323 section 2.2.
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
    user_timeout::heard(tcb, options);
    ecn::negotiate(tcb, seg, tcb.marks.has(Marks::ACTIVE));
    // RFC 9293 MUST-15: the default MSS if there is no option. The minimum stops an adversarial
    // peer from making us send mostly headers.
    let floor = usize::from(tcb.config.mss_min).max(MSS_FLOOR);
    let peer = options.mss.map_or(tcb.default_mss, Mss).bytes().max(floor);
    let options_len = if tcb.marks.has(Marks::TIMESTAMPS) { 12 } else { 0 };
    // RFC 9293 MUST-16: the effective send MSS.
    let mss = peer.min(tcb.advertised_mss.bytes()).saturating_sub(options_len).max(MSS_LEAST);
    tcb.snd_mss = path::agreed(tcb, mss as u16, cx.now);
    // RFC 7323 2.2-c.
    // The window of a SYN is never scaled, RFC 7323 section 2.2.
    tcb.snd_wnd = u32::from(seg.window);
    tcb.max_snd_wnd = tcb.snd_wnd;
    tcb.snd_wl1 = seg.seq;
    tcb.snd_wl2 = seg.ack;
}

/// The payload left on a link with an MTU of 68 bytes when all our options are sent.
const MSS_LEAST: usize = 8;

/// Process a segment in SYN-SENT, RFC 9293 section 3.10.7.3.
pub(crate) fn in_syn_sent(
    tcb: &mut Tcb,
    seg: &Segment,
    options: &Options,
    mut m: Mbuf,
    cx: &mut Cx,
) -> Fate {
    let has_ack = seg.flags.contains(Flags::ACK);
    if has_ack && (seg.ack.le(tcb.iss) || seg.ack.gt(tcb.snd_nxt)) {
        // The stack answers with a RST whose sequence number is the segment's ACK, unless the
        // segment is a RST itself.
        if !seg.flags.contains(Flags::RST) {
            syn_once_more(tcb, cx);
        }
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
        // RFC 9293 MUST-10.
        // Simultaneous open: send our SYN again, now with an ACK of the peer's.
        tcb.state = State::SynReceived;
        // The user may have closed the connection already: then a FIN waits.
        tcb.todo.set(Todo::SYN | Todo::OUTPUT);
        tcb.restart_retransmit(cx.now);
        return Ok(());
    }
    if tcb.fast_open().is_some() {
        fast_open::answered(tcb, seg, options, cx);
    }
    tcb.snd_una = seg.ack;
    establish(tcb, cx);
    tcb.todo.set(Todo::ACK_NOW);
    m.truncate(tcb.rcv_wnd() as usize);
    if !m.is_empty() {
        text::accept(tcb, seg.seq + 1, m, false, cx)?;
    }
    let after_syn = Segment { seq: seg.seq + 1, ..*seg };
    text::check_fin(tcb, &after_syn);
    Ok(())
}

/// An ACK of another connection arrived in SYN-SENT: the peer still has an old connection, which
/// our RST ends now. So the SYN is sent again, without its data, right after the RST, instead of
/// after the whole initial time-out; Linux does the same. This happens once per connection and not
/// after a time-out, so forged ACKs cause one SYN at most. Whether the peer answers the first SYN
/// or the second is unknown, so no round trip is measured (Karn).
fn syn_once_more(tcb: &mut Tcb, cx: &Cx) {
    if tcb.rtt.backoff == 0 && tcb.syn_sent_at != base::Instant::NEVER {
        tcb.syn_sent_at = base::Instant::NEVER;
        tcb.todo.set(Todo::SYN);
        tcb.restart_retransmit(cx.now);
    }
}

/// Process an ACK in SYN-RECEIVED: it is accepted if it acknowledges our SYN, and refused
/// otherwise.
pub(crate) fn finish_passive(tcb: &mut Tcb, seg: &Segment, cx: &mut Cx) -> Fate {
    if seg.ack.le(tcb.iss) || seg.ack.gt(tcb.snd_nxt) {
        return Err(DropReason::TcpBadAck);
    }
    tcb.snd_una = tcb.iss + 1;
    if tcb.fast_open().is_some() {
        fast_open::acknowledged(tcb, seg, cx);
    }
    establish(tcb, cx);
    // This segment's window is taken whatever SND.WL1 and SND.WL2 are (RFC 9293).
    tcb.snd_wl1 = seg.seq;
    tcb.snd_wl2 = tcb.snd_una;
    ack::update_send_window(tcb, seg);
    Ok(())
}

impl Tcb {
    /// The user closed in SYN-RECEIVED after a simultaneous open, without data to send: the FIN
    /// follows the SYN-ACK at once (RFC 9293 section 3.10.4). The rest of the handshake treats the
    /// FIN like other data: a time-out sends the SYN-ACK again, and the ACK of the FIN leads to
    /// FIN-WAIT-1.
    #[cold]
    pub(crate) fn closes_early(&self) -> bool {
        self.state == State::SynReceived
            && self.marks.has(Marks::ACTIVE)
            && self.marks.has(Marks::SHUT_WRITE)
            && self.sendq.unsent_count() == 0
            && !self.todo.has(Todo::SYN)
    }
}

/// The options are negotiated: cut queued data for the final MSS and allow sending.
pub(crate) fn ready(tcb: &mut Tcb, syn_lost: bool, cx: &mut Cx) {
    tcb.cc.start(tcb.snd_mss.bytes(), syn_lost);
    let most = u32::from(tcb.config.super_segments_max).saturating_mul(tcb.snd_mss.bytes() as u32);
    tcb.super_max_bytes = tcb.super_max_bytes.min(most);
    tuning::opened(tcb, cx);
    tcb.sendq.recut(unit_bytes(tcb), sums(tcb, cx), &mut cx.pool);
}

fn establish(tcb: &mut Tcb, cx: &mut Cx) {
    let syn_lost = tcb.rtt.backoff > 0;
    if syn_lost {
        tcb.rtt.syn_timed_out();
    } else if tcb.syn_sent_at != base::Instant::NEVER {
        tcb.rtt.sample(cx.now.since(tcb.syn_sent_at));
    }
    if tcb.trouble & Tcb::OPENING == 0 {
        ready(tcb, syn_lost, cx);
    }
    tcb.trouble &= !Tcb::OPENING;
    tcb.timers.retransmit = base::Instant::NEVER;
    // The SYN-ACK may still wait for the link address of the next hop. A peer that guessed its
    // number does not need it.
    tcb.todo.clear(Todo::SYN);
    if tcb.in_flight() > 0 {
        // Data sent after our SYN-ACK (Fast Open) gets its own retransmission timer now.
        tcb.restart_retransmit(cx.now);
    }
    tcb.state = if tcb.marks.has(Marks::SHUT_WRITE) { State::FinWait1 } else { State::Established };
    if let Some(idle) = tcb.config.keepalive_idle {
        tcb.timers.idle = cx.now + idle;
    }
    tcb.events.set(Events::CONNECTED | Events::WRITABLE);
    tcb.todo.set(Todo::OUTPUT);
}
