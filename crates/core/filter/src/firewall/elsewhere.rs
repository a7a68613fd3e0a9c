//! Packets that another shard has to judge: what steering could not know, the firewall finds out
//! when a packet begins a flow.
//!
//! Called by: the stack, if there are several shards. Steering sees a packet alone. It learns from
//! the rules here that a packet is for a server behind `dest`, and once its route is known that its
//! source is translated. Fragments come to the shard of their addresses, which directs all of a
//! datagram to the home of the first one. docs/decisions/0135. Counter: `filter_fragment`.

use std::sync::Arc;

use base::{Budget, DropReason, Instant};

use super::Firewall;
use super::arrive::Beginning;
use crate::exchange::redirected;
use crate::homes::Homes;
use crate::packet::{Packet, ROUTER, Tuple};
use crate::rules::Nat;
use crate::states::{Datagram, FirstFragment, Kind, Later, Parsed, Verdict, parse};

/// Where the fragments of a datagram go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directed {
    /// They stay.
    Here,
    /// To this shard.
    To(usize),
    /// The first fragment has not come: hold this one for a while.
    Early(Datagram),
}

/// The flow of a packet, in its direction: that of an error is the flow of the packet that it
/// quotes, in the other direction.
fn flow(parsed: &Parsed) -> Tuple {
    match parsed.kind {
        Kind::Error { .. } => parsed.key.reversed().tuple(),
        _ => parsed.key.tuple(),
    }
}

impl Firewall {
    /// The homes of packets from now on; `None` for a router of one shard, or without rules of NAT.
    pub fn set_homes(&mut self, homes: Option<Arc<Homes>>) {
        self.homes = homes;
    }

    /// The homes of packets.
    #[must_use]
    pub fn homes(&self) -> Option<&Arc<Homes>> {
        self.homes.as_ref()
    }

    /// The shard that a packet of no known flow belongs to because a rule gives it another
    /// destination; `None` if it may stay.
    #[must_use]
    pub fn home_of_dest(&self, new: &Beginning) -> Option<usize> {
        let homes = self.homes.as_deref()?;
        let tuple = flow(&new.parsed);
        let to = if new.is_error() {
            let out_port = if homes.is_own(tuple.dst) { ROUTER } else { new.in_port };
            let packet = Packet { tuple, out_port, ..new.packet(out_port) };
            let rule = self.published.program.judge_dest(&packet)?;
            redirected(&self.published.rules.nat.get(usize::from(rule))?.nat, &tuple)?.0
        } else {
            new.is_redirected.then_some(new.tuple.dst).filter(|_| new.mapping.is_none())?
        };
        self.elsewhere(homes.of_inside(tuple.protocol, to))
    }

    /// The shard that a packet of no known flow belongs to because a rule translates its source on
    /// its way out by `out_port`; `None` if it may stay.
    #[must_use]
    pub fn home_of_source(&self, new: &Beginning, out_port: u16) -> Option<usize> {
        let homes = self.homes.as_deref()?;
        // Answers to these go by the port of the outside, wherever the mapping is.
        if new.is_redirected || out_port == ROUTER {
            return None;
        }
        let tuple = flow(&new.parsed);
        let packet = Packet { tuple, ..new.packet(out_port) };
        let rule = self.published.program.judge_source(&packet)?;
        match self.published.rules.nat.get(usize::from(rule))?.nat {
            Nat::Source { .. } | Nat::Both { .. } | Nat::Prefix { .. } => {
                self.elsewhere(homes.of_inside(tuple.protocol, tuple.src))
            }
            Nat::Keep | Nat::Dest { .. } => None,
        }
    }

    /// Do answers to a packet that leaves with this tuple by `out_port` come to this shard?
    pub(super) fn has_answers(&self, leaves: &Tuple, out_port: u16, new: &Beginning) -> bool {
        let Some(homes) = self.homes.as_deref() else { return true };
        let home = homes.of(&leaves.reversed(), out_port, new.parsed.icmp);
        home.is_none_or(|home| home == self.index())
    }

    /// A packet was handed to another shard: fragments behind it follow.
    pub fn went_elsewhere(
        &mut self,
        new: &Beginning,
        shard: usize,
        budget: &mut Budget,
        now: Instant,
    ) {
        // One that contradicts it is dropped by its own verdict.
        let _ = self.first_fragment(&new.parsed, Verdict::Elsewhere(shard as u16), budget, now);
    }

    /// Direct a packet that may be a fragment, at the shard of its addresses. `of_flow` is the home
    /// of a flow that no rule of NAT concerns.
    ///
    /// # Errors
    /// The reason to drop the packet.
    pub fn direct(
        &mut self,
        packet: &[u8],
        in_port: u16,
        of_flow: impl FnOnce(&Tuple) -> usize,
        budget: &mut Budget,
        now: Instant,
    ) -> Result<Directed, DropReason> {
        let parsed = parse(packet)?;
        let Some(piece) = parsed.piece else { return Ok(Directed::Here) };
        let verdict = if piece.offset == 0 {
            let tuple = flow(&parsed);
            let homes = self.homes.as_deref();
            let home = homes.and_then(|homes| homes.of(&tuple, in_port, parsed.icmp));
            let verdict = Verdict::Elsewhere(home.unwrap_or_else(|| of_flow(&tuple)) as u16);
            let first = FirstFragment { datagram: piece.datagram, len: piece.len, verdict };
            self.directed.first(first, budget, now)
        } else {
            match self.directed.later(&piece.datagram, piece.offset, now) {
                Later::As(verdict) => verdict,
                Later::Unknown => return Ok(Directed::Early(piece.datagram)),
            }
        };
        match verdict {
            Verdict::Elsewhere(to) if usize::from(to) == self.index() => Ok(Directed::Here),
            Verdict::Elsewhere(to) => Ok(Directed::To(usize::from(to))),
            _ => Err(DropReason::FilterFragment),
        }
    }

    fn elsewhere(&self, home: usize) -> Option<usize> {
        (home != self.index()).then_some(home)
    }

    fn index(&self) -> usize {
        self.mappings.shards().index()
    }
}
