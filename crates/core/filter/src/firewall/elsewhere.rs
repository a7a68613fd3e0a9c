//! Finds packets that belong to another shard. Steering chooses a shard from the packet alone; when
//! a packet begins a flow, the firewall asks the rules of NAT and corrects that choice.
//!
//! Called by: the stack, if there are several shards. The rules say whether a rule `dest` redirects
//! the packet to a server and, once its route is known, whether a rule translates its source.
//! Fragments have no ports: they are steered by the hash of their addresses. The shard that gets
//! them sends all fragments of a datagram to the home of its first fragment, which is the shard
//! that has the state of its flow. docs/decisions/0135. Counter: `filter_fragment`.

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

/// The tuple of a packet's flow. For an ICMP error it is the reversed tuple of the quoted packet.
fn flow(parsed: &Parsed) -> Tuple {
    match parsed.kind {
        Kind::Error { .. } => parsed.key.reversed().tuple(),
        _ => parsed.key.tuple(),
    }
}

impl Firewall {
    /// Set the table that says which shard handles a packet (its home); `None` for a router with
    /// one shard, or without rules of NAT.
    pub fn set_homes(&mut self, homes: Option<Arc<Homes>>) {
        self.homes = homes;
    }

    /// The table that says which shard handles a packet.
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
        // Answers to these packets find their shard by their outside port, so the packet may stay.
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
        // An error means that another first fragment of the datagram contradicts this one. Its
        // later fragments are dropped then; the other shard judges this one.
        let _ = self.first_fragment(&new.parsed, Verdict::Elsewhere(shard as u16), budget, now);
    }

    /// Choose the shard of a packet that may be a fragment. Called on the shard that the hash of
    /// the packet's addresses selects. `of_flow` returns the home of a flow that no rule of NAT
    /// concerns.
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
