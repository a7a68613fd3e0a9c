//! Flows between inside hosts by outside addresses (hairpin): whom a packet is from as the outside
//! sees it, where it goes, and the mappings that it opens.
//!
//! Called by: `arrive.rs` and `decide.rs`, for the first packets of flows to addresses that NAT
//! has. The packet is treated as if it left by the port of the outside address and came back there:
//! its source is translated by the rule for that port, and that source is what the filtering of a
//! mapping looks at. A packet that filtering refuses opens its sender's own mapping for answers, as
//! one that leaves does, so that two hosts which send to each other meet. RFC 4787 section 6, RFC
//! 5382 section 7.2, RFC 6296 section 4.3. Counters: `nat_filtered`, `filter_rule`.

use core::net::IpAddr;

use base::{Budget, DropReason, Instant};

use super::Firewall;
use super::arrive::{Beginning, Local};
use super::decide::{Refusal, Route};
use crate::exchange::{outbound, redirected};
use crate::nat::Filtering;
use crate::packet::Packet;
use crate::rules::{Action, Nat};

/// An inside host that sends to an outside address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sender {
    /// The port by which its packets would leave.
    pub(super) port: u16,
    /// Its outside address.
    addr: Option<IpAddr>,
}

impl Firewall {
    /// Where a packet goes by the mapping of its destination, if there is one; with a sender if
    /// that is an inside host. RFC 4787 REQ-9, 6-a, RFC 5382 REQ-8.
    pub(super) fn by_mapping(&self, new: &mut Beginning, local: &Local<'_>) -> bool {
        let tuple = new.tuple;
        let found =
            self.mappings.at_outside(tuple.protocol, (tuple.dst, tuple.dst_port), tuple.src);
        let Some(inside) = found else { return false };
        let sender = self.sender(new, local);
        let seen = sender.and_then(|sender| sender.addr);
        let lets_in = |remote| self.mappings.lets_in(&inside, remote);
        // A flow between the two that has begun is one by their inside addresses.
        if lets_in(tuple.src) || seen.is_some_and(lets_in) {
            (new.tuple.dst, new.tuple.dst_port) = (inside.addr, inside.port);
            (new.mapping, new.is_redirected) = (Some(inside.id), true);
            new.reflects_at = sender.map(|sender| sender.port);
            return true;
        }
        (new.reflects_at, new.is_closed) = (sender.map(|sender| sender.port), true);
        false
    }

    /// Where a packet goes by a rule that exchanges networks at another port than the one that it
    /// came by. RFC 6296 4.3-a, 4.3-b, RFC 5508 REQ-7.
    pub(super) fn by_exchange(&self, new: &mut Beginning, local: &Local<'_>) {
        let found = self.nats.exchanges().iter().filter(|port| **port != new.in_port);
        let found = found.copied().find_map(|port| {
            let came = Packet { in_port: port, ..new.packet(port) };
            let rule = self.published.program.judge_dest(&came)?;
            let nat = self.published.rules.nat.get(usize::from(rule))?.nat;
            let is_exchange = matches!(nat, Nat::Both { .. } | Nat::Prefix { .. });
            redirected(&nat, &new.tuple).filter(|_| is_exchange)
        });
        if let Some((dst, _)) = found {
            (new.is_redirected, new.is_closed) = (true, false);
            new.reflects_at = self.sender(new, local).map(|sender| sender.port);
            new.tuple.dst = dst;
        }
    }

    /// The sender of a packet to an outside address, if it is an inside host: a rule of NAT
    /// translates what it sends by the port of that address. The packet's destination must not be
    /// translated yet.
    pub(super) fn sender(&self, new: &Beginning, local: &Local<'_>) -> Option<Sender> {
        let tuple = new.parsed.key.tuple();
        let outsides = self.nats.outsides();
        let own = (local.port_of)(tuple.dst);
        let of_address = own.unwrap_or(new.in_port);
        if of_address == new.in_port && (own.is_some() || outsides.contains(&new.in_port)) {
            return None;
        }
        let is_meant = |port: &&u16| own.is_none_or(|own| own == **port);
        outsides.iter().filter(is_meant).find_map(|port| {
            let packet = Packet { tuple, ..new.packet(*port) };
            let rule = self.published.program.judge_source(&packet)?;
            let nat = self.published.rules.nat.get(usize::from(rule))?.nat;
            let addr = match nat {
                Nat::Source { .. } => self.nats.pool(rule).and_then(|pool| {
                    let address = (local.address_of)(*port, tuple.src);
                    self.mappings.address_of(pool, tuple.src, address)
                }),
                Nat::Both { .. } | Nat::Prefix { .. } => Some(outbound(&nat, tuple.src)?),
                Nat::Keep | Nat::Dest { .. } => return None,
            };
            Some(Sender { port: *port, addr })
        })
    }

    /// A packet to a mapping whose filtering refuses it: if rules let it leave, its sender's own
    /// mapping is open for answers from now on. Returns why it is dropped.
    pub(super) fn refuse_reflected(
        &mut self,
        new: &Beginning,
        (port, route): (u16, &Route<'_>),
        budget: &mut Budget,
        now: Instant,
    ) -> Refusal {
        let packet = Packet { tuple: new.parsed.key.tuple(), ..new.packet(port) };
        let verdict = self.published.program.judge(&packet);
        self.counters.count(verdict.rule, new.len, now);
        if verdict.action != Action::Pass || !verdict.stateful {
            let rejects = verdict.action == Action::Reject;
            return Refusal::by_rule(rejects);
        }
        let pool = self.published.program.judge_source(&packet).and_then(|rule| {
            self.nats
                .pool(rule)
                .filter(|pool| self.mappings.filtering(*pool) == Some(Filtering::Address))
        });
        if let Some(pool) = pool {
            let mapped =
                self.mapped(pool, &packet.tuple, (route.outside_address, route), budget, now);
            let id = match mapped {
                Ok(source) => source.mapping,
                Err(refusal) => return refusal,
            };
            if let Some(id) = id {
                let dst = packet.tuple.dst;
                if self.mappings.flows_with(id, dst) > 1 {
                    self.mappings.release(id, dst, now);
                } else {
                    self.opened.add(id, dst, &mut self.mappings, now);
                }
            }
        }
        DropReason::NatFiltered.into()
    }
}
