//! Rules decide on the first packet of a flow, once its route is known.
//!
//! Called by: the stack, between routing and sending. A flow that passes gets a state and, by a
//! rule of NAT, another source. RFC 4787 section 6, RFC 6888 section 3. Counters: `filter_rule`,
//! `filter_no_state`, `nat_no_port`, `nat_loop` and those of new states.

use core::net::IpAddr;

use base::{Budget, DropReason, Instant};

use super::arrive::{Beginning, Known};
use super::change::Change;
use super::{Firewall, log};
use crate::exchange::outbound;
use crate::nat::{Mapped, MappingId, PoolId, Request, Sockets, SourceReport};
use crate::packet::{Packet, ROUTER, Tuple, query_dst_port};
use crate::program::{Verdict, passes_always};
use crate::rules::{self, Action, Nat};
use crate::states::{self, Direction, Key, NewState, SourceLimits, StateId};
use wire::protocol::{ICMP, ICMPV6, TCP, UDP};

/// Where a packet goes.
#[derive(Clone, Copy, Debug)]
pub struct Route<'a> {
    /// The port that it leaves by, or [`ROUTER`].
    pub out_port: u16,
    /// An address of that port, of the packet's version: masquerade takes it.
    pub port_address: Option<IpAddr>,
    /// An address of the port [`Beginning::reflects_at`].
    pub outside_address: Option<IpAddr>,
    /// The router's own sockets, whose endpoints no flow gets.
    pub sockets: Sockets<'a>,
    /// The packet is of a flow that the router's own sockets have begun.
    pub is_own_flow: bool,
}

/// A packet that passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// How it leaves.
    pub change: Change,
    /// Its flow, which begins with it; `None` if it passes without a state.
    pub flow: Option<Known>,
}

/// A packet that does not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The drop to count.
    pub reason: DropReason,
    /// What its source is told.
    pub report: SourceReport,
}

impl Refusal {
    /// A rule refuses the packet; `rejects` says whether its source is told.
    pub(super) fn by_rule(rejects: bool) -> Refusal {
        let report = if rejects { SourceReport::Rejected } else { SourceReport::Nothing };
        Refusal { reason: DropReason::FilterRule, report }
    }

    /// A flow gets no state. The source is told if NAT translates it. RFC 5508 REQ-8, RFC 6888
    /// REQ-11B.
    fn without_state(reason: DropReason, is_translated: bool) -> Refusal {
        use DropReason::{FilterRate, FilterSourceLimit, FilterStateLimit};
        let is_limit = matches!(reason, FilterRate | FilterSourceLimit | FilterStateLimit);
        let report = match is_translated && is_limit {
            true => SourceReport::Unreachable,
            false => SourceReport::Nothing,
        };
        Refusal { reason, report }
    }
}

impl From<DropReason> for Refusal {
    fn from(reason: DropReason) -> Refusal {
        let report = match reason {
            DropReason::NatNoPort => SourceReport::Unreachable,
            _ => SourceReport::Nothing,
        };
        Refusal { reason, report }
    }
}

/// The source that a flow gets, and the mapping that it uses for it.
pub(super) struct Source {
    pub(super) addr: IpAddr,
    pub(super) port: u16,
    pub(super) mapping: Option<MappingId>,
}

impl Firewall {
    /// Ask the rules about a packet that [`Firewall::arrive`] returned as the beginning of a flow.
    ///
    /// # Errors
    /// The reason to drop the packet, and whether its source is told.
    pub fn decide(
        &mut self,
        new: &Beginning,
        route: &Route<'_>,
        budget: &mut Budget,
        now: Instant,
    ) -> Result<Passed, Refusal> {
        let packet = new.packet(route.out_port);
        if new.is_error() {
            return self.judge_error(new, route.out_port, budget, now);
        }
        if route.is_own_flow || passes_always(&packet) {
            self.first_fragment(&new.parsed, states::Verdict::PassAlone, budget, now)?;
            return Ok(Passed::unchanged());
        }
        if new.is_closed
            && let Some(port) = new.reflects_at
        {
            self.first_fragment(&new.parsed, states::Verdict::Drop, budget, now)?;
            return Err(self.refuse_reflected(new, (port, route), budget, now));
        }
        // No answer of the router's, whatever rules say of packets to it: the port is another
        // host's. RFC 5382 REQ-4.
        if new.is_closed && route.out_port == ROUTER && matches!(new.tuple.protocol, TCP | UDP) {
            self.first_fragment(&new.parsed, states::Verdict::Drop, budget, now)?;
            return Err(DropReason::NatFiltered.into());
        }
        // RFC 5382 REQ-4a: the default is to drop in silence.
        let verdict = self.published.program.judge(&packet);
        self.counters.count(verdict.rule, new.len, now);
        let decided = match verdict.action {
            Action::Pass if verdict.stateful => {
                self.begin(new, route, &packet, &verdict, budget, now)
            }
            Action::Pass => Ok(Passed::unchanged()),
            action => Err(Refusal::by_rule(action == Action::Reject)),
        };
        if verdict.log {
            let outcome = decided.map(|_| ()).map_err(|refusal| refusal.reason);
            self.log.add(log::Line { at: now, rule: verdict.rule, packet, outcome }, budget);
        }
        let fragments = match &decided {
            Ok(Passed { flow: Some(flow), .. }) => states::Verdict::Pass(flow.id, flow.direction),
            Ok(_) => states::Verdict::PassAlone,
            Err(_) => states::Verdict::Drop,
        };
        self.first_fragment(&new.parsed, fragments, budget, now)?;
        decided
    }

    /// A state for a flow that passes.
    fn begin(
        &mut self,
        new: &Beginning,
        route: &Route<'_>,
        packet: &Packet,
        verdict: &Verdict,
        budget: &mut Budget,
        now: Instant,
    ) -> Result<Passed, Refusal> {
        let source = self.source(new, route, packet, budget, now)?;
        // Redirects and source quenches quote inside addresses, and no state tells which ones:
        // RFC 5508 REQ-10c.
        let quotes = new.tuple.protocol == ICMP && matches!(new.parsed.icmp, Some((4 | 5, _)));
        if quotes && source.is_some() {
            self.unmap(source.as_ref(), &new.tuple, now);
            return Err(DropReason::FilterIcmp.into());
        }
        let mut leaves = new.tuple;
        if let Some(source) = &source {
            leaves.src = source.addr;
            leaves.src_port = source.port;
            if new.is_query() {
                leaves.dst_port = query_dst_port(source.port);
            }
        }
        let is_icmp = matches!(leaves.protocol, ICMP | ICMPV6);
        if leaves.src == leaves.dst && (is_icmp || leaves.src_port == leaves.dst_port) {
            self.unmap(source.as_ref(), &new.tuple, now);
            return Err(DropReason::NatLoop.into());
        }
        let tag = match source.as_ref().and_then(|source| source.mapping) {
            Some(id) => self.nats.take(id, new.tuple.dst),
            None => self.retained(new).map_or(0, |id| self.nats.take(id, new.tuple.src)),
        };
        let outcome = self.insert(new, route, verdict, (&leaves, tag), budget, now);
        self.give_back_mappings(now);
        let id = outcome.map_err(|reason| {
            let of_rule = verdict.rule;
            self.note_stateless(reason, of_rule, (&new.parsed.key, &leaves), budget, now);
            if let Some((id, remote)) = self.nats.give_back(tag) {
                self.mappings.release(id, remote, now);
            }
            Refusal::without_state(reason, source.is_some())
        })?;
        self.counters.begins(verdict.rule);
        let arrived = new.parsed.key.tuple();
        let change = if leaves == arrived { Change::None } else { Change::Packet(leaves) };
        let flow = Some(Known { id, direction: Direction::Original, change });
        Ok(Passed { change, flow })
    }

    fn insert(
        &mut self,
        new: &Beginning,
        route: &Route<'_>,
        verdict: &Verdict,
        (leaves, tag): (&Tuple, u32),
        budget: &mut Budget,
        now: Instant,
    ) -> Result<StateId, DropReason> {
        let reply = Key::of(&leaves.reversed()).ok_or(DropReason::NatNoPort)?;
        let rule = verdict.rule.and_then(|rule| self.published.rules.filter.get(usize::from(rule)));
        let limits = SourceLimits {
            states: rule.and_then(|rule| rule.states_per_source),
            rate: rule.and_then(|rule| rule.rate).map(rate),
        };
        let state = NewState {
            original: new.parsed.key,
            reply,
            first: new.transport(),
            icmp: new.parsed.icmp,
            len: new.len,
            in_port: new.in_port,
            out_port: route.out_port,
            rule: verdict.rule.unwrap_or(u16::MAX),
            generation: self.generation,
            tag,
            // The router's own packets are not seen here, so windows of its flows are unknown.
            loose: verdict.loose || route.out_port == ROUTER,
            limits,
        };
        self.states.insert(&state, budget, now)
    }

    /// The source that a rule of NAT gives to a flow; `None` if it keeps its own.
    fn source(
        &mut self,
        new: &Beginning,
        route: &Route<'_>,
        packet: &Packet,
        budget: &mut Budget,
        now: Instant,
    ) -> Result<Option<Source>, Refusal> {
        if route.out_port == ROUTER {
            return Ok(None);
        }
        let tuple = &new.tuple;
        // The other host sees the outside endpoint of an inside host that sends to an outside
        // address: RFC 4787 REQ-9a, RFC 5382 REQ-8a.
        let reflected = new.reflects_at.filter(|_| new.is_redirected);
        let (packet, address) = match reflected {
            Some(port) => {
                let packet = Packet { tuple: new.parsed.key.tuple(), ..new.packet(port) };
                (packet, route.outside_address)
            }
            // Without such an endpoint its answers have to come back through here all the same.
            None if new.is_redirected && new.in_port == route.out_port => {
                let pool = self.nats.hairpin(&mut self.mappings).ok_or(DropReason::NatNoPort)?;
                let address = (route.port_address, route);
                return self.mapped(pool, tuple, address, budget, now).map(Some);
            }
            None => (*packet, route.port_address),
        };
        let Some(rule) = self.published.program.judge_source(&packet) else {
            return self.hairpin(new, tuple, route, budget, now);
        };
        let Some(nat) = self.published.rules.nat.get(usize::from(rule)) else { return Ok(None) };
        match &nat.nat {
            Nat::Source { .. } => {
                let pool = self.nats.pool(rule).ok_or(DropReason::NatNoPort)?;
                self.mapped(pool, tuple, (address, route), budget, now).map(Some)
            }
            nat @ (Nat::Both { .. } | Nat::Prefix { .. }) => {
                let addr = outbound(nat, tuple.src).ok_or(DropReason::NatNoPort)?;
                let leaves = Tuple { src: addr, ..*tuple };
                let source = Source { addr, port: tuple.src_port, mapping: None };
                let hairpin = self.hairpin(new, &leaves, route, budget, now)?;
                Ok(Some(hairpin.unwrap_or(source)))
            }
            Nat::Keep | Nat::Dest { .. } => self.hairpin(new, tuple, route, budget, now),
        }
    }

    /// The source of a flow that would leave with the tuple `leaves`, without a mapping: another
    /// one if its answers would come to another shard. Between two hosts of the inside an outside
    /// address is what RFC 4787 REQ-9 asks for.
    fn hairpin(
        &mut self,
        new: &Beginning,
        leaves: &Tuple,
        route: &Route<'_>,
        budget: &mut Budget,
        now: Instant,
    ) -> Result<Option<Source>, Refusal> {
        if !new.is_redirected || self.has_answers(leaves, route.out_port, new) {
            return Ok(None);
        }
        let pool = self.nats.hairpin(&mut self.mappings).ok_or(DropReason::NatNoPort)?;
        self.mapped(pool, &new.tuple, (route.port_address, route), budget, now).map(Some)
    }

    pub(super) fn mapped(
        &mut self,
        pool: PoolId,
        tuple: &Tuple,
        (port_address, route): (Option<IpAddr>, &Route<'_>),
        budget: &mut Budget,
        now: Instant,
    ) -> Result<Source, Refusal> {
        let sockets = route.sockets;
        let request = Request { pool, tuple: *tuple, port_address, sockets, now };
        // RFC 6888 REQ-11A.
        let mapped = match self.mappings.acquire(&request, budget) {
            Ok(mapped) => mapped,
            Err(why) => {
                self.note_unmapped(why, pool, (tuple, port_address), budget, now);
                return Err(why.reason().into());
            }
        };
        let Mapped { id, addr, port, .. } = mapped;
        Ok(Source { addr, port, mapping: Some(id) })
    }

    /// The mapping that a flow from outside came in by, which it uses from now on.
    fn retained(&mut self, new: &Beginning) -> Option<MappingId> {
        let id = new.mapping?;
        self.mappings.retain(id, new.tuple.src).then_some(id)
    }

    fn unmap(&mut self, source: Option<&Source>, tuple: &Tuple, now: Instant) {
        if let Some(id) = source.and_then(|source| source.mapping) {
            self.mappings.release(id, tuple.dst, now);
        }
    }

    /// The packet's source as rules knew it, if `packet` is one that we have translated: for ICMP
    /// errors that are made after a packet was translated. The second is the packet's tuple as it
    /// came.
    #[must_use]
    pub fn untranslated(&self, packet: &[u8]) -> Option<Tuple> {
        let parsed = states::parse(packet).ok().filter(|parsed| parsed.piece.is_none())?;
        let (id, answers) = self.states.find(&parsed.key.reversed())?;
        let back = self.states.translation(id, answers)?;
        let came = back.key.tuple().reversed();
        Some(came)
    }
}

impl Beginning {
    /// Is it a query of ICMP, or an answer?
    pub(super) fn is_query(&self) -> bool {
        matches!(self.parsed.kind, states::Kind::Query | states::Kind::Answer)
    }
}

impl Passed {
    pub(super) fn unchanged() -> Passed {
        Passed { change: Change::None, flow: None }
    }
}

fn rate(rate: rules::Rate) -> states::Rate {
    states::Rate { per_second: rate.per_second, per_source: rate.per_source }
}
