//! A packet arrives: of which flow is it, does it pass as one of it, and where does it go?
//!
//! Called by: the stack, before a packet is routed. The usual packet is found and passed in one
//! step; a packet that begins a flow has its destination translated, so that it is routed by the
//! new one. RFC 4787 sections 5 and 6, RFC 5508 section 4, RFC 4890 section 4.3, RFC 1858.
//! Counters: those of `states`.

use core::net::IpAddr;

use base::{Budget, DropReason, Instant};

use super::Firewall;
use super::change::Change;
use crate::exchange::redirected;
use crate::nat::MappingId;
use crate::packet::{Packet, ROUTER, Tuple};
use crate::states::{
    Datagram, Direction, FirstFragment, Kind, Later, Parsed, Pass, Segment, StateId, Transport,
    Verdict, parse,
};

/// What a packet that arrived is to the firewall.
#[derive(Clone, Copy, Debug)]
pub enum Arrival {
    /// It is of a flow that has passed.
    Known(Known),
    /// It begins a flow, or has none: ask [`Firewall::decide`] when it is routed.
    Begins(Beginning),
    /// It passes as it is: a fragment of a datagram that passed without a state.
    Passes,
    /// A fragment of this datagram, whose first fragment has not come: hold it for a while.
    Early(Datagram),
    /// A fragment of a datagram that another shard judges: hand it to that one.
    Elsewhere(usize),
}

/// A packet of a known flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its state.
    pub id: StateId,
    /// Its direction.
    pub direction: Direction,
    /// How it leaves.
    pub change: Change,
}

/// A packet that rules are to be asked about.
#[derive(Clone, Copy, Debug)]
pub struct Beginning {
    pub(super) parsed: Parsed,
    pub(super) segment: Option<Segment>,
    pub(super) in_port: u16,
    pub(super) len: u32,
    /// Its tuple with the translated destination.
    pub(super) tuple: Tuple,
    /// The mapping by which it came in from outside.
    pub(super) mapping: Option<MappingId>,
    /// Its destination is translated.
    pub(super) is_redirected: bool,
    /// It is from an inside host to an outside address: the port by which it would leave.
    pub(super) reflects_at: Option<u16>,
    /// The mapping of its destination does not let it in.
    pub(super) is_closed: bool,
}

/// What the firewall asks about the router.
#[derive(Clone, Copy)]
pub struct Local<'a> {
    /// The port that has an address, if it is the router's.
    pub port_of: &'a dyn Fn(IpAddr) -> Option<u16>,
    /// The address of a port that masquerade takes for a source.
    pub address_of: &'a dyn Fn(u16, IpAddr) -> Option<IpAddr>,
}

impl Arrival {
    /// The address to route the packet by, if it is another one than its destination.
    #[must_use]
    pub fn routed_to(&self) -> Option<IpAddr> {
        match self {
            Arrival::Known(known) => known.change.dst(),
            Arrival::Begins(new) => new.is_redirected.then_some(new.tuple.dst),
            Arrival::Passes | Arrival::Early(_) | Arrival::Elsewhere(_) => None,
        }
    }
}

impl Beginning {
    /// The packet as rules see it.
    #[must_use]
    pub fn packet(&self, out_port: u16) -> Packet {
        Packet {
            tuple: self.tuple,
            in_port: self.in_port,
            out_port,
            icmp: self.parsed.icmp,
            tcp_flags: self.segment.map_or(0, |segment| segment.flags.0),
        }
    }

    /// The port by which the packet would leave, if it is from an inside host to an outside
    /// address: [`super::Route::outside_address`] is one of that port.
    #[must_use]
    pub fn reflects_at(&self) -> Option<u16> {
        self.reflects_at
    }

    /// Does it have another destination than it came with?
    #[must_use]
    pub fn is_redirected(&self) -> bool {
        self.is_redirected
    }

    /// Is it for a mapping of an inside host, which does not let its sender in?
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Is it the first fragment of a datagram?
    #[must_use]
    pub fn is_fragment(&self) -> bool {
        self.parsed.piece.is_some()
    }

    /// Is it an ICMP error that quotes a packet of no known flow?
    #[must_use]
    pub fn is_error(&self) -> bool {
        matches!(self.parsed.kind, Kind::Error { .. })
    }

    pub(super) fn transport(&self) -> Transport<'_> {
        transport_of(self.parsed.kind, self.segment.as_ref())
    }
}

fn transport_of(kind: Kind, segment: Option<&Segment>) -> Transport<'_> {
    match (kind, segment) {
        (Kind::Tcp, Some(segment)) => Transport::Tcp(segment),
        (Kind::Query, _) => Transport::Query,
        (Kind::Answer, _) => Transport::Answer,
        _ => Transport::Other,
    }
}

impl Firewall {
    /// Look at an IP packet that arrived by `in_port` ([`ROUTER`] for one of ours).
    ///
    /// # Errors
    /// The reason to drop the packet.
    pub fn arrive(
        &mut self,
        packet: &[u8],
        in_port: u16,
        local: &Local<'_>,
        budget: &mut Budget,
        now: Instant,
    ) -> Result<Arrival, DropReason> {
        let parsed = parse(packet)?;
        if let Some(piece) = parsed.piece
            && piece.offset > 0
        {
            return self.later_fragment(&parsed, piece.datagram, piece.offset, now);
        }
        let segment = match parsed.kind {
            Kind::Tcp => {
                let bytes = packet.get(parsed.transport..).unwrap_or_default();
                Some(Segment::parse(bytes, parsed.transport_len as u32)?)
            }
            _ => None,
        };
        let len = (parsed.transport + parsed.transport_len) as u32;
        if let Kind::Error { seq, .. } = parsed.kind {
            // The state's packets in the direction of the error have the reversed tuple of the
            // packet that it quotes. The error's own source does not matter: RFC 4787 REQ-12a.
            // Nor does a rule: RFC 4890 section 4.3.1.
            if let Some((id, direction)) = self.states.find(&parsed.key.reversed()) {
                self.states.pass_error(id, direction.reversed(), seq, len)?;
                return Ok(Arrival::Known(self.known(id, direction, true)));
            }
        } else if let Some((id, direction)) = self.states.find(&parsed.key)
            && self.still_passes(id, budget, now)?
        {
            let transport = transport_of(parsed.kind, segment.as_ref());
            let passes = self.states.pass(id, direction, transport, len, now);
            if passes != Ok(Pass::NewFlow) {
                let verdict = passes.map(|_| Verdict::Pass(id, direction));
                self.first_fragment(&parsed, verdict.unwrap_or(Verdict::Drop), budget, now)?;
                passes?;
                self.counters.count(self.states.rule(id), len, now);
                return Ok(Arrival::Known(self.known(id, direction, false)));
            }
        }
        Ok(Arrival::Begins(self.begins(parsed, segment, in_port, len, local)))
    }

    /// A packet of this state and direction, and how it leaves. RFC 7857 2.2-a.
    pub(super) fn known(&self, id: StateId, direction: Direction, is_error: bool) -> Known {
        let translation = self.states.translation(id, direction);
        let change = translation.map_or(Change::None, |translation| {
            let tuple = translation.key.tuple();
            // The packet that an error quotes goes in the other direction.
            if is_error { Change::Quoted(tuple.reversed()) } else { Change::Packet(tuple) }
        });
        Known { id, direction, change }
    }

    /// The verdict on a first fragment is kept for those behind it.
    ///
    /// # Errors
    /// [`DropReason::FilterFragment`] if it contradicts an earlier fragment of its datagram.
    pub(super) fn first_fragment(
        &mut self,
        parsed: &Parsed,
        verdict: Verdict,
        budget: &mut Budget,
        now: Instant,
    ) -> Result<(), DropReason> {
        let Some(piece) = parsed.piece else { return Ok(()) };
        let first = FirstFragment { datagram: piece.datagram, len: piece.len, verdict };
        let counts = self.fragments.first(first, budget, now);
        if counts == Verdict::Drop && verdict != Verdict::Drop {
            return Err(DropReason::FilterFragment);
        }
        Ok(())
    }

    fn later_fragment(
        &mut self,
        parsed: &Parsed,
        datagram: Datagram,
        offset: u32,
        now: Instant,
    ) -> Result<Arrival, DropReason> {
        match self.fragments.later(&datagram, offset, now) {
            Later::As(Verdict::Pass(id, direction)) => {
                let len = (parsed.transport + parsed.transport_len) as u32;
                self.counters.count(self.states.rule(id), len, now);
                Ok(Arrival::Known(self.known(id, direction, false)))
            }
            Later::As(Verdict::PassAlone) => Ok(Arrival::Passes),
            Later::As(Verdict::Elsewhere(shard)) => Ok(Arrival::Elsewhere(usize::from(shard))),
            Later::As(Verdict::Drop) => Err(DropReason::FilterFragment),
            Later::Unknown => Ok(Arrival::Early(datagram)),
        }
    }

    /// A packet of no known flow: where does it go?
    fn begins(
        &self,
        parsed: Parsed,
        segment: Option<Segment>,
        in_port: u16,
        len: u32,
        local: &Local<'_>,
    ) -> Beginning {
        let tuple = parsed.key.tuple();
        let mut new = Beginning {
            parsed,
            segment,
            in_port,
            len,
            tuple,
            mapping: None,
            is_redirected: false,
            reflects_at: None,
            is_closed: false,
        };
        if in_port == ROUTER || new.is_error() || !self.may_translate() {
            return new;
        }
        // The mapping of an identifier is for answers alone: a query from outside has an identifier
        // of its own sender.
        if !new.is_query() && self.by_mapping(&mut new, local) {
            return new;
        }
        let out_port = if (local.port_of)(tuple.dst).is_some() { ROUTER } else { in_port };
        let rule = self.published.program.judge_dest(&new.packet(out_port));
        let rule = rule.and_then(|rule| self.published.rules.nat.get(usize::from(rule)));
        match rule.and_then(|rule| redirected(&rule.nat, &tuple)) {
            Some((dst, port)) => {
                // A rule that is not for packets from outside gives inside hosts another server.
                let matches = rule.and_then(|rule| rule.dest.as_ref());
                let is_outside = |port: &u16| matches.is_some_and(|m| m.in_ports.contains(*port));
                let sender = self.sender(&new, local).map(|sender| sender.port);
                new.reflects_at = sender.filter(is_outside);
                (new.tuple.dst, new.tuple.dst_port) = (dst, port);
                (new.is_redirected, new.is_closed) = (true, false);
            }
            None => self.by_exchange(&mut new, local),
        }
        new
    }
}
