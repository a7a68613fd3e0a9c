//! TCP Fast Open: data in the SYN, for a peer that has shown by a cookie that it is at its address.
//!
//! Called by: the stack, which keeps cookies and decides whom to trust; handshake and output, where
//! a connection has something to do with it. RFC 7413. What a connection needs for it lies with
//! what is rare, so that the others do not grow; while one that was opened this way is in
//! SYN-RECEIVED, [`Tcb::OPENING`] lets it send.

use std::sync::Arc;

use mbuf::Mbuf;
use wire::tcp::{FastOpen, Options};

use crate::marks::{Events, Marks};
use crate::opening::Opening;
use crate::output::share_or_copy;
use crate::receive::text;
use crate::state::State;
use crate::tcb::Tcb;
use crate::{Config, Cx, Segment, handshake, usrreq};

/// What a SYN with data leaves free for options: all that a header may carry.
pub const OPTIONS_ROOM: usize = wire::tcp::OPTIONS_LEN_MAX;

/// What a connection has to do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// An ordinary handshake in which we tell the peer its cookie.
    Grants,
    /// The peer's SYN opened it.
    Server,
    /// Our SYN has a cookie, or asks for one.
    Client,
}

/// What is kept of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    role: Role,
    /// What our SYN or SYN-ACK says.
    says: Option<FastOpen>,
    /// What the peer's SYN-ACK said.
    heard: Option<FastOpen>,
    /// The MSS that it offered.
    peer_mss: u16,
    /// Bytes that the SYN carried, ours or the peer's.
    syn_bytes: u32,
    /// Those of them that were taken.
    taken_bytes: u32,
}

/// How a SYN of ours with this option fared.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// The cookie that the peer sent, if it was asked for one or given one.
    pub cookie: Option<FastOpen>,
    /// The MSS that the peer offered; 0 if it did not answer.
    pub peer_mss: u16,
    /// Bytes that the SYN carried.
    pub syn_bytes: u32,
    /// Those of them that the first ACK acknowledged.
    pub taken_bytes: u32,
    /// That is all of them.
    pub taken: bool,
    /// The SYN had to go again, without its data.
    pub went_again: bool,
}

fn keep(tcb: &mut Tcb, role: Role, says: Option<FastOpen>) -> &mut Kept {
    let kept = Kept { role, says, heard: None, peer_mss: 0, syn_bytes: 0, taken_bytes: 0 };
    tcb.stats.rare.fast_open.insert(Box::new(kept))
}

/// Active open with the first of the data in the SYN, RFC 7413 section 4.2.1: `says` is the cookie,
/// or the wish for one, or nothing where peers are known to want none. `first` is what the SYN can
/// carry, and goes again by itself if the peer does not take it.
pub fn connect(
    config: &Arc<Config>,
    opening: &Opening,
    says: Option<FastOpen>,
    first: &[u8],
    cx: &mut Cx,
) -> Tcb {
    let mut tcb = usrreq::connect(config, opening, cx);
    // The stack wants to hear how it went.
    tcb.marks.set(Marks::EMBRYONIC);
    keep(&mut tcb, Role::Client, says);
    let sums = usrreq::sums(&tcb, cx);
    if !first.is_empty() && tcb.sendq.append(first, first.len(), sums, &mut cx.pool) == first.len()
    {
        let seq = tcb.snd_nxt;
        if let Some(piece) = tcb.sendq.send_front() {
            (piece.seq, piece.sent_at) = (seq, cx.now);
        }
        tcb.snd_nxt += first.len() as u32;
        if let Some(kept) = &mut tcb.stats.rare.fast_open {
            kept.syn_bytes = first.len() as u32;
        }
    }
    tcb
}

/// What the first SYN or SYN-ACK carries beside the usual; those that go again carry nothing of it:
/// perhaps it is what was swallowed (RFC 7413 sections 4.1.3 and 4.2.1).
pub(crate) fn first_syn(tcb: &mut Tcb, m: &mut Mbuf, options: &mut Options, cx: &mut Cx) {
    let Some(kept) = tcb.stats.rare.fast_open.as_ref().filter(|_| tcb.rtt.backoff == 0) else {
        return;
    };
    let client = kept.role == Role::Client;
    if client && tcb.state != State::SynSent {
        // Two SYNs have crossed: ours goes again as an answer, which is no place for either.
        return;
    }
    options.fast_open = kept.says;
    if !client {
        return;
    }
    let Some(payload) = tcb.sendq.in_flight_mut(0).and_then(|piece| piece.mbuf.as_mut()) else {
        return;
    };
    payload.set_segment_size(0);
    if let Some(share) = share_or_copy(payload, cx) {
        cx.pool.free(core::mem::replace(m, share));
    }
}

/// The SYN-ACK to a SYN of ours: the peer's cookie, and what of our data was taken.
pub(crate) fn answered(tcb: &mut Tcb, seg: &Segment, options: &Options, cx: &mut Cx) {
    let peer_mss = options.mss.unwrap_or(tcb.default_mss.0);
    if let Some(kept) = &mut tcb.stats.rare.fast_open {
        kept.peer_mss = peer_mss;
        kept.heard = options.fast_open.filter(|heard| kept.says.is_some() && !heard.is_request());
    }
    acknowledged(tcb, seg, cx);
}

/// The first ACK after a SYN of ours, before anything else is sent: what it does not acknowledge of
/// the SYN's data is to go again, as if it had never been sent.
pub(crate) fn acknowledged(tcb: &mut Tcb, seg: &Segment, cx: &mut Cx) {
    let taken = seg.ack.since(tcb.iss + 1).max(0) as u32;
    let Some(kept) = &mut tcb.stats.rare.fast_open else { return };
    if kept.role != Role::Client || kept.syn_bytes == 0 {
        return;
    }
    kept.taken_bytes = taken;
    tcb.sendq.acknowledge(seg.ack, &mut cx.pool);
    tcb.stats.bytes_acked += u64::from(taken);
    tcb.sendq.take_back();
    (tcb.snd_una, tcb.snd_nxt) = (seg.ack, seg.ack);
}

/// Tell the peer of this connection in SYN-RECEIVED its cookie.
pub fn grant(tcb: &mut Tcb, cookie: FastOpen) {
    keep(tcb, Role::Grants, Some(cookie));
}

/// The SYN `seg` with payload `m` has opened this connection in SYN-RECEIVED: its data is the
/// reader's, and ours may leave behind the SYN-ACK (RFC 7413 section 4.2.2).
pub fn accept(tcb: &mut Tcb, mut m: Mbuf, cx: &mut Cx) {
    tcb.trouble |= Tcb::OPENING;
    handshake::ready(tcb, false, cx);
    tcb.snd_una = tcb.iss + 1;
    m.truncate(tcb.rcv_wnd() as usize);
    let bytes = m.len() as u32;
    let kept = keep(tcb, Role::Server, None);
    (kept.syn_bytes, kept.taken_bytes) = (bytes, bytes);
    if m.is_empty() {
        cx.pool.free(m);
    } else {
        text::deliver(tcb, m, cx);
        // The SYN-ACK tells of it.
        tcb.ack_owed_bytes = 0;
    }
    tcb.events.set(Events::CONNECTED | Events::WRITABLE);
}

impl Tcb {
    /// May data leave: in the states that RFC 9293 names, and behind a SYN-ACK if the SYN has
    /// opened the connection already?
    #[inline(always)]
    pub(crate) fn may_send(&self) -> bool {
        self.state.may_send() || self.trouble & Tcb::OPENING != 0
    }

    /// What it has to do with Fast Open, if anything.
    pub fn fast_open(&self) -> Option<Role> {
        self.stats.rare.fast_open.as_ref().map(|kept| kept.role)
    }

    /// Was data of the SYN taken, the peer's or ours?
    pub(crate) fn syn_data_taken(&self) -> bool {
        self.stats.rare.fast_open.as_ref().is_some_and(|kept| kept.taken_bytes > 0)
    }

    /// How our SYN fared, once it is known.
    pub fn fast_open_outcome(&self) -> Option<Outcome> {
        let kept = self.stats.rare.fast_open.as_ref().filter(|kept| kept.role == Role::Client)?;
        Some(Outcome {
            cookie: kept.heard,
            peer_mss: kept.peer_mss,
            syn_bytes: kept.syn_bytes,
            taken_bytes: kept.taken_bytes,
            taken: kept.syn_bytes > 0 && kept.taken_bytes == kept.syn_bytes,
            went_again: self.stats.rare.timeouts > 0,
        })
    }
}
