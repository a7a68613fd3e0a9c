//! TCP Fast Open, RFC 7413: data in the SYN, for a peer whose cookie proves that it has its
//! address.
//!
//! Called by: the stack, which keeps cookies and decides which to trust; handshake and output, for
//! a connection that uses Fast Open. The state is in `RareStats`, so that other connections do not
//! grow. While a connection with data in the SYN is in SYN-RECEIVED, [`Tcb::OPENING`] lets it send.

use mbuf::Mbuf;
use wire::tcp::{FastOpen, Options};

use crate::marks::Events;
use crate::receive::text;
use crate::stats::Kept;
use crate::tcb::Tcb;
use crate::{Cx, Segment, handshake};

pub use crate::stats::Role;

/// Header bytes that a SYN with data leaves for options: the maximum.
pub const OPTIONS_ROOM: usize = wire::tcp::OPTIONS_LEN_MAX;

/// The result of our SYN with the Fast Open option.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// The cookie that the peer sent.
    pub cookie: Option<FastOpen>,
    /// The MSS that the peer offered; 0 if it did not answer.
    pub peer_mss: u16,
    /// Payload bytes of the SYN.
    pub syn_bytes: u32,
    /// How many of these bytes the first ACK acknowledged.
    pub taken_bytes: u32,
    /// The SYN had data, and the first ACK acknowledged all of it.
    pub taken: bool,
    /// The SYN was retransmitted, without its data.
    pub went_again: bool,
}

pub(crate) fn keep(tcb: &mut Tcb, role: Role, says: Option<FastOpen>) -> &mut Kept {
    let kept = Kept { role, says, heard: None, peer_mss: 0, syn_bytes: 0, taken_bytes: 0 };
    tcb.stats.rare.fast_open.insert(Box::new(kept))
}

/// The SYN-ACK to our SYN arrived: note the peer's cookie, and how much of the SYN's data is
/// acknowledged.
pub(crate) fn answered(tcb: &mut Tcb, seg: &Segment, options: &Options, cx: &mut Cx) {
    let peer_mss = options.mss.unwrap_or(tcb.default_mss.0);
    if let Some(kept) = &mut tcb.stats.rare.fast_open {
        kept.peer_mss = peer_mss;
        kept.heard = options.fast_open.filter(|heard| kept.says.is_some() && !heard.is_request());
    }
    acknowledged(tcb, seg, cx);
}

/// The first ACK after our SYN arrived, and nothing was sent since. Data of the SYN that the ACK
/// does not acknowledge is queued again as if it had never been sent.
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

/// Have the SYN-ACK of this connection in SYN-RECEIVED carry a cookie.
pub fn grant(tcb: &mut Tcb, cookie: FastOpen) {
    keep(tcb, Role::Grants, Some(cookie));
}

/// The SYN `seg` with payload `m` opened this connection in SYN-RECEIVED: deliver its data to the
/// reader, and allow data after the SYN-ACK (RFC 7413 section 4.2.2).
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
        // The SYN-ACK acknowledges the data.
        tcb.ack_owed_bytes = 0;
    }
    tcb.events.set(Events::CONNECTED | Events::WRITABLE);
}

impl Tcb {
    /// May data or a FIN be sent: in the states that RFC 9293 names, or after a SYN-ACK?
    #[inline(always)]
    pub(crate) fn may_send(&self) -> bool {
        self.state.may_send() || self.trouble & Tcb::OPENING != 0 || self.closes_early()
    }

    /// How the connection takes part in Fast Open, if it does.
    pub fn fast_open(&self) -> Option<Role> {
        self.stats.rare.fast_open.as_ref().map(|kept| kept.role)
    }

    /// Was data in the SYN accepted, ours or the peer's?
    pub(crate) fn syn_data_taken(&self) -> bool {
        self.stats.rare.fast_open.as_ref().is_some_and(|kept| kept.taken_bytes > 0)
    }

    /// The outcome of our SYN; meaningful once it was answered or has failed.
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
