//! A pair of routers: states go to the partner as copies, and the partner's copies become states
//! here, each with its mapping of NAT.
//!
//! Called by: the partner's session, which turns it on, takes changes a bounded number at a time,
//! walks all states, and gives what the partner has sent. A copy is judged by the rules of this
//! router, as a state is after a reload, and refused by name. What it is worth is the partner's
//! word: a copy passes no rule that the flow would not pass here, takes no port of a socket, and
//! evicts nothing. docs/decisions/0151. Limit: `filter_copies`.

use base::{Budget, Instant, Limit};

use super::Firewall;
use super::reload::first_packet;
use crate::nat::{Mapped, NotPlaced, PoolId, Request, Sockets};
use crate::packet::{Packet, Tuple};
use crate::rules::{Action, Nat};
use crate::states::{
    Admitted, Change, Copied, CopiedMapping, Cursor, Imported, Key, NotImported, Which,
};

/// What the partner is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copy {
    /// A state is so now.
    State(Copied),
    /// The state with this original tuple has ended.
    Ended(Tuple),
}

impl Firewall {
    /// Note changes for a partner from now on, or no longer. All states are to be copied once by
    /// [`Firewall::walk_copies`]: what is there already is no change.
    pub fn copy(&mut self, is_on: bool, budget: &Budget) {
        if is_on != self.states.copies() {
            self.states.copy(is_on.then(|| budget.of(Limit::FilterCopies)));
            self.lost_copies = 0;
        }
    }

    /// Are changes noted?
    #[must_use]
    pub fn copies(&self) -> bool {
        self.states.copies()
    }

    /// Were changes lost since the last call, because too many waited? Then all states are to be
    /// copied again.
    pub fn take_incomplete(&mut self) -> bool {
        self.states.take_incomplete()
    }

    /// Look at up to `most` changes, the oldest first. `true`: there may be more.
    pub fn take_copies(&mut self, most: usize, now: Instant, mut each: impl FnMut(Copy)) -> bool {
        for _ in 0..most {
            match self.states.next_change(now) {
                None => return false,
                Some(None) => {}
                Some(Some(Change::Ended(tuple))) => each(Copy::Ended(tuple)),
                Some(Some(Change::State(copied, tag))) => {
                    if let Some(copied) = self.with_mapping(copied, tag) {
                        each(Copy::State(copied));
                    }
                }
            }
        }
        true
    }

    /// Look at up to `most` states from `cursor` on, and give `each` a copy of those that are
    /// wanted. Returns where to go on; `None` at the end.
    pub fn walk_copies(
        &mut self,
        cursor: Cursor,
        most: usize,
        which: Which,
        now: Instant,
        mut each: impl FnMut(Copied),
    ) -> Option<Cursor> {
        let mut found = Vec::new();
        let next = self.states.copy_page(cursor, most, which, now, |copied, tag| {
            found.push((copied, tag));
        });
        for (copied, tag) in found {
            if let Some(copied) = self.with_mapping(copied, tag) {
                each(copied);
            }
        }
        next
    }

    /// A copy with the mapping that it uses; `None` if the mapping is gone, since the state will
    /// end.
    fn with_mapping(&self, copied: Copied, tag: u32) -> Option<Copied> {
        if tag == 0 {
            return Some(copied);
        }
        let row = self.nats.mapping(tag).and_then(|id| self.mappings.row(id))?;
        let Tuple { src, src_port, .. } = copied.original;
        let is_of_source = row.inside == (src, src_port) && row.outside.0 == copied.reply.dst;
        let mapping = if is_of_source { CopiedMapping::Source } else { CopiedMapping::Destination };
        Some(Copied { mapping, ..copied })
    }

    /// Take a copy of the partner's. `version` grows from copy to copy, or is the same for those
    /// that came together; it is never 0. `sockets` are those of this router.
    ///
    /// # Errors
    /// [`NotImported`]: nothing has changed, but a state that was in the way may have ended.
    pub fn import(
        &mut self,
        copied: &Copied,
        version: u64,
        sockets: Sockets<'_>,
        budget: &mut Budget,
        now: Instant,
    ) -> Result<Imported, NotImported> {
        let (original, reply) = copied.keys().ok_or(NotImported::Malformed)?;
        let present = self.states.receive((&original, &reply), copied, version, now);
        self.give_back_mappings(now);
        if let Some(imported) = present? {
            return Ok(imported);
        }
        let tuples = (&copied.original, &copied.reply);
        let verdict = self.judge_again(tuples, copied.in_port, copied.out_port);
        if verdict.action != Action::Pass || !verdict.stateful {
            return Err(NotImported::Rule);
        }
        let rule = verdict.rule.and_then(|rule| self.published.rules.filter.get(usize::from(rule)));
        let is_limited = rule.is_some_and(|rule| rule.states_per_source.is_some());
        self.states.admits_copy(&original, copied, budget)?;
        let tag = match self.placed(copied, sockets, budget, now)? {
            Some((mapped, remote)) => self.nats.take(mapped.id, remote),
            None => 0,
        };
        let admitted = Admitted {
            copied,
            original,
            reply,
            rule: verdict.rule.unwrap_or(u16::MAX),
            generation: self.generation,
            tag,
            is_limited,
            version,
        };
        match self.states.place(&admitted, budget, now) {
            Ok(_) => Ok(Imported::New),
            Err(why) => {
                if let Some((id, remote)) = self.nats.give_back(tag) {
                    self.mappings.release(id, remote, now);
                }
                Err(why)
            }
        }
    }

    /// The mapping of a copy, with its remote address.
    fn placed(
        &mut self,
        copied: &Copied,
        sockets: Sockets<'_>,
        budget: &mut Budget,
        now: Instant,
    ) -> Result<Option<(Mapped, core::net::IpAddr)>, NotImported> {
        let (original, reply) = (copied.original, copied.reply);
        let (tuple, outside) = match copied.mapping {
            CopiedMapping::None => return Ok(None),
            CopiedMapping::Source => {
                let tuple = Tuple { dst: reply.src, dst_port: reply.src_port, ..original };
                (tuple, (reply.dst, reply.dst_port))
            }
            // The inside host answers the first packet.
            CopiedMapping::Destination => {
                let tuple = Tuple { src: reply.src, src_port: reply.src_port, ..reply };
                let tuple = Tuple { dst: original.src, dst_port: original.src_port, ..tuple };
                (tuple, (original.dst, original.dst_port))
            }
        };
        let pool = self.pool_of(copied, &tuple, outside.0).ok_or(NotImported::NatRule)?;
        let request = Request { pool, tuple, port_address: Some(outside.0), sockets, now };
        let mapped = self.mappings.place(&request, outside, budget);
        mapped.map(|mapped| Some((mapped, tuple.dst))).map_err(|why| match why {
            NotPlaced::Pool => NotImported::NatRule,
            NotPlaced::Shard => NotImported::OtherShard,
            NotPlaced::Socket => NotImported::PortOfSocket,
            NotPlaced::Taken => NotImported::PortTaken,
            NotPlaced::Inside => NotImported::MappedElsewhere,
            NotPlaced::Limit => NotImported::NatLimit,
        })
    }

    /// The pool that gives the inside end of a copy its outside address, by the rules of this
    /// router.
    fn pool_of(
        &mut self,
        copied: &Copied,
        inside: &Tuple,
        addr: core::net::IpAddr,
    ) -> Option<PoolId> {
        let (in_port, out_port) = (copied.in_port, copied.out_port);
        let first = first_packet((&copied.original, &copied.reply), in_port, out_port);
        let leaves = match copied.mapping {
            CopiedMapping::Destination => {
                Packet { tuple: *inside, in_port: out_port, out_port: in_port, ..first }
            }
            _ => first,
        };
        if let Some(pool) = self.pool_for(&leaves, addr) {
            return Some(pool);
        }
        let is_redirected = copied.original.dst != copied.reply.src;
        if copied.mapping != CopiedMapping::Source || !is_redirected {
            return None;
        }
        // Between inside hosts by an outside address: as if it had left by that address's port.
        let by_port = |port: &u16| {
            let packet = Packet { tuple: copied.original, out_port: *port, ..first };
            self.pool_for(&packet, addr)
        };
        let found = self.nats.outsides().iter().find_map(by_port);
        found.or_else(|| self.nats.hairpin(&mut self.mappings))
    }

    fn pool_for(&self, packet: &Packet, addr: core::net::IpAddr) -> Option<PoolId> {
        let rule = self.published.program.judge_source(packet)?;
        let nat = &self.published.rules.nat.get(usize::from(rule))?.nat;
        let pool = self.nats.pool(rule).filter(|_| matches!(nat, Nat::Source { .. }))?;
        self.mappings.has_address(pool, addr).then_some(pool)
    }

    /// The partner's state with this original tuple has ended. `true`: so has ours; it stays if it
    /// has had packets here.
    pub fn end_copy(&mut self, original: &Tuple, version: u64, now: Instant) -> bool {
        let Some(key) = Key::of(original) else { return false };
        let ended = self.states.end_copy(&key, version, now);
        self.give_back_mappings(now);
        ended
    }

    /// Look at up to `most` states from `cursor` on, and end copies that were imported with one of
    /// these versions and have had no packet here: the partner has named all of its states since,
    /// and not these. Returns where to go on; `None` at the end.
    pub fn sweep_copies(
        &mut self,
        cursor: Cursor,
        most: usize,
        versions: &core::ops::Range<u64>,
        now: Instant,
    ) -> Option<Cursor> {
        let next = self.states.sweep_copies(cursor, most, versions, now);
        self.give_back_mappings(now);
        next
    }

    /// Count the limit if changes were lost; once a turn.
    pub(super) fn count_lost_copies(&mut self, budget: &mut Budget) {
        let lost = self.states.copies_lost();
        if lost > self.lost_copies {
            self.lost_copies = lost;
            budget.admits(Limit::FilterCopies, usize::MAX);
        }
    }
}

#[cfg(test)]
mod tests;
