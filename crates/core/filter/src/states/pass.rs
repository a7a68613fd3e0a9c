//! Judges a packet of a known flow: tracks its connection, counts it and updates the phase of its
//! state.
//!
//! Called by: the stack, for every packet whose state it has found. A usual packet writes only to
//! the cache lines of its flow's record. Counters: `filter_no_state`, `filter_window`,
//! `filter_tcp_state`,
//! `filter_icmp`, `filter_malformed`.

use base::{DropReason, Instant, SeqNumber};
use wire::protocol;

use super::record::{Common, Slot, flag};
use super::segment::Segment;
use super::tcp::{self, Effect};
use super::timeouts::Phase;
use super::wheel::tick_of;
use super::{Direction, StateId, States};

/// What kind of packet it is, apart from its addresses and ports.
#[derive(Clone, Copy, Debug)]
pub enum Transport<'a> {
    /// A TCP segment.
    Tcp(&'a Segment),
    /// A query of ICMP or ICMPv6: an echo request.
    Query,
    /// The answer to a query: an echo reply.
    Answer,
    /// A UDP datagram, or a packet of another protocol.
    Other,
}

/// A packet that passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// The packet belongs to the flow and was counted.
    Known,
    /// The packet begins a new connection with the tuple of one that has ended (RFC 9293 section
    /// 3.6.1). It was not counted: the caller asks the rules, and [`States::insert`] replaces the
    /// state.
    NewFlow,
}

/// Judge a packet that belongs to the record's flow, and count it. The packet may change the
/// record's phase.
///
/// # Errors
/// Those of [`States::pass`]. The record is then unchanged.
#[inline(always)]
pub(super) fn judge(
    common: &mut Common,
    direction: Direction,
    transport: Transport<'_>,
    len: u32,
    tick: u32,
) -> Result<Pass, DropReason> {
    let from = direction as usize;
    let mut seen = tick;
    match transport {
        Transport::Tcp(segment) if common.protocol == protocol::TCP => {
            match tcp::judge(common, from, segment)? {
                Effect::Counts => {}
                Effect::Late => seen = common.seen,
                Effect::NewFlow => return Ok(Pass::NewFlow),
            }
        }
        _ if common.protocol == protocol::TCP => return Err(DropReason::FilterMalformed),
        Transport::Tcp(_) => return Err(DropReason::FilterMalformed),
        Transport::Query if direction == Direction::Reply => return Err(DropReason::FilterIcmp),
        Transport::Answer if direction == Direction::Original => {
            return Err(DropReason::FilterIcmp);
        }
        _ if direction == Direction::Reply => common.phase = common.phase.replied(),
        _ => {}
    }
    common.count(from, len, seen);
    Ok(Pass::Known)
}

impl Common {
    /// Count a packet of `len` bytes in the direction `from`, which has come at the tick `seen`.
    #[inline(always)]
    pub(super) fn count(&mut self, from: usize, len: u32, seen: u32) {
        self.packets[from & 1] += 1;
        self.bytes[from & 1] += u64::from(len);
        // RFC 4787 REQ-6: packets from inside prolong a mapping; those from outside do as well,
        // because rules have allowed the flow.
        self.seen = seen;
    }
}

impl States {
    /// Judge a packet that belongs to the state `id`, is `len` bytes long and goes in `direction`.
    ///
    /// # Errors
    /// [`DropReason::FilterNoState`] if the state has ended, [`DropReason::FilterWindow`],
    /// [`DropReason::FilterTcpState`] for TCP, [`DropReason::FilterIcmp`] for a query or an answer
    /// in the wrong direction, [`DropReason::FilterMalformed`] if `transport` is not the flow's.
    #[inline(always)]
    pub fn pass(
        &mut self,
        id: StateId,
        direction: Direction,
        transport: Transport<'_>,
        len: u32,
        now: Instant,
    ) -> Result<Pass, DropReason> {
        let common = self.records.get_mut(id.slot).ok_or(DropReason::FilterNoState)?;
        if !common.has(flag::LIVE) || common.life != id.life {
            return Err(DropReason::FilterNoState);
        }
        let common = self.records.at_mut(id.slot);
        let before = common.phase;
        let pass = judge(common, direction, transport, len, tick_of(now))?;
        if common.phase != before {
            self.changed(id.slot, before);
        }
        Ok(pass)
    }

    /// Judge an ICMP error of `len` bytes that quotes a packet of the state `id`. The quoted packet
    /// goes in `direction`; `seq` is its sequence number, for TCP. The error neither prolongs nor
    /// ends the state: RFC 5508 REQ-6, RFC 5382 REQ-10, RFC 4787 REQ-12. The sequence number must
    /// be within the window (RFC 5927 section 4.1).
    ///
    /// # Errors
    /// [`DropReason::FilterIcmp`] if the state has ended or the sequence number is outside the
    /// window.
    pub fn pass_error(
        &mut self,
        id: StateId,
        direction: Direction,
        seq: Option<SeqNumber>,
        len: u32,
    ) -> Result<(), DropReason> {
        let common = self.live(id).ok_or(DropReason::FilterIcmp)?;
        let from = direction as usize;
        if let Some(seq) = seq.filter(|_| common.protocol == protocol::TCP)
            && !common.has(flag::LOOSE)
        {
            let (me, other) = (&common.sides[from], &common.sides[from ^ 1]);
            // Before the SYN-ACK the other side's window is 0, but the SYN can be quoted.
            let oldest = me.end - other.max_window.max(1).saturating_add(u32::from(u16::MAX));
            if seq.lt(oldest) || seq.gt(me.end) {
                return Err(DropReason::FilterIcmp);
            }
        }
        let common = self.records.at_mut(id.slot);
        common.packets[from ^ 1] += 1;
        common.bytes[from ^ 1] += u64::from(len);
        Ok(())
    }

    /// Update the lists and the wheel after the phase of a record has changed from `old`. A record
    /// whose new timeout is shorter is visited earlier.
    #[cold]
    #[inline(never)]
    pub(super) fn changed(&mut self, slot: Slot, old: Phase) {
        let common = self.records.at(slot);
        let (phase, seen) = (common.phase, common.seen);
        let translated = common.has(flag::TRANSLATED);
        let [before, after] = [old, phase].map(|phase| self.ticks.of(phase, translated));
        if after < before {
            self.wheel.unlink(&mut self.records, slot);
            self.wheel.link(&mut self.records, slot, seen.wrapping_add(after));
        }
        if !phase.is_waiting() {
            self.waiting.remove(&mut self.records, slot);
        }
        let is_listed = self.records.at(slot).has(flag::OVER);
        if !phase.is_over() {
            self.over.remove(&mut self.records, slot);
        } else if !is_listed {
            // A list uses the fields in which a pending SYN is kept.
            self.records.at_mut(slot).flags &= !flag::PENDING_SYN;
            self.over.push(&mut self.records, slot);
        }
        if self.copies.is_on && !phase.is_waiting() {
            self.note_change(slot);
        }
    }
}
