//! Records: events of the firewall as fields, in the order of their templates.
//!
//! Called by: `exporter.rs`. A flow is two records, one for each direction that had packets. RFC
//! 7012; RFC 5102 section 5.11.3 (reasons); RFC 8158 section 4 (NAT).

use core::net::IpAddr;

use base::Instant;
use filter::firewall::{RefusedFlow, Shortage};
use filter::nat::BlockEvent;
use filter::states::{Direction, Event, What, Why};
use filter::{ROUTER, Tuple};
use wire::protocol;

use crate::template::{Ends, Flow, Template};

/// Two names of one moment, by which times of the stack are converted. RFC 7011 6.1.8-a.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// On the stack's clock.
    pub now: Instant,
    /// In milliseconds since 1970-01-01 00:00 UTC.
    pub unix_ms: u64,
}

impl Clock {
    /// A time of the stack in milliseconds since 1970.
    #[must_use]
    pub fn millis(&self, at: Instant) -> u64 {
        match at <= self.now {
            true => self.unix_ms.saturating_sub(self.now.since(at).as_millis()),
            false => self.unix_ms.saturating_add(at.since(self.now).as_millis()),
        }
    }
}

/// Values of `flowEndReason`.
mod reason {
    pub(super) const IDLE: u8 = 1;
    pub(super) const ACTIVE: u8 = 2;
    pub(super) const END: u8 = 3;
    pub(super) const FORCED: u8 = 4;
    pub(super) const LACK_OF_RESOURCES: u8 = 5;
}

/// Values of `natEvent`. RFC 8158 4.3-a.
mod nat_event {
    pub(super) const ADDRESSES_EXHAUSTED: u8 = 3;
    pub(super) const SESSION_CREATE: u8 = 4;
    pub(super) const SESSION_DELETE: u8 = 5;
    pub(super) const PORTS_EXHAUSTED: u8 = 12;
    pub(super) const QUOTA_EXCEEDED: u8 = 13;
    pub(super) const BLOCK_ALLOCATION: u8 = 16;
    pub(super) const BLOCK_DEALLOCATION: u8 = 17;
}

/// Values of `natQuotaExceededEvent`.
mod quota {
    pub(super) const SESSIONS: u32 = 1;
    pub(super) const MAPPINGS: u32 = 2;
    pub(super) const OF_SOURCE: u32 = 3;
}

/// The number of a port in records: 0 is the router itself.
pub(crate) fn interface(port: u16) -> u32 {
    if port == ROUTER { 0 } else { u32::from(port) + 1 }
}

/// The fields of a record.
pub(crate) struct Fields<'a>(pub(crate) &'a mut Vec<u8>);

impl Fields<'_> {
    fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    fn u16(&mut self, value: u16) {
        self.0.extend(value.to_be_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend(value.to_be_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend(value.to_be_bytes());
    }

    /// RFC 7011 6.1.2-a.
    fn addr(&mut self, value: IpAddr) {
        match value {
            IpAddr::V4(addr) => self.0.extend(addr.octets()),
            IpAddr::V6(addr) => self.0.extend(addr.octets()),
        }
    }

    /// At most `most` bytes of a text, and 254, with their number. RFC 7011 6.1.6-a, 6.1.6-b, 7-a,
    /// 7-c.
    pub(crate) fn text(&mut self, text: &str, most: usize) {
        let end = text.floor_char_boundary(most.min(usize::from(u8::MAX) - 1));
        self.u8(end as u8);
        self.0.extend(text.as_bytes().iter().take(end));
    }

    fn addrs(&mut self, tuple: &Tuple, ends: Ends) {
        ends.of(&[tuple.src, tuple.dst]).iter().for_each(|addr| self.addr(*addr));
    }

    /// A query of ICMP has its identifier as source port, and none at its destination: the number
    /// in its tuple is ours.
    fn ports(&mut self, tuple: &Tuple, ends: Ends) {
        let dst_port = if is_icmp(tuple) { 0 } else { tuple.dst_port };
        ends.of(&[tuple.src_port, dst_port]).iter().for_each(|port| self.u16(*port));
    }
}

fn is_icmp(tuple: &Tuple) -> bool {
    matches!(tuple.protocol, protocol::ICMP | protocol::ICMPV6)
}

/// The tuple of a direction as its packets arrive, and as they leave.
fn tuples(event: &Event, direction: Direction) -> (Tuple, Tuple) {
    let (original, reply) = (event.state.original, event.state.reply);
    match direction {
        Direction::Original => (original, reply.reversed()),
        Direction::Reply => (reply, original.reversed()),
    }
}

/// The ends that a record of a direction names. Without `destinations` the destination of a flow
/// that NAT translates is left out, which is the source of its answers. A destination that NAT
/// translates itself is a host of ours, whose sessions the record is about. RFC 8158 4.1-a, RFC
/// 6888 REQ-12.
fn ends(event: &Event, direction: Direction, destinations: bool) -> Ends {
    let (original, reply) = (&event.state.original, &event.state.reply);
    let is_translated = *reply != original.reversed();
    let has_port = is_icmp(original) || original.dst_port == reply.src_port;
    let keeps_destination = original.dst == reply.src && has_port;
    match direction {
        _ if destinations || !is_translated || !keeps_destination => Ends::Both,
        Direction::Original => Ends::Source,
        Direction::Reply => Ends::Destination,
    }
}

/// Type and code of a direction's messages: those that the flow began with, and those of answers to
/// a query. `None` for answers to anything else, of which the state knows nothing. RFC 792, RFC
/// 950, RFC 4443 section 4.
fn icmp(event: &Event, direction: Direction) -> Option<u16> {
    let (kind, code) = event.state.icmp?;
    let is_v6 = event.state.original.src.is_ipv6();
    let [kind, code] = match (direction, is_v6, kind) {
        (Direction::Original, ..) => [kind, code],
        (Direction::Reply, false, 8) => [0, 0],
        (Direction::Reply, false, 13 | 15 | 17) | (Direction::Reply, true, 128) => [kind + 1, 0],
        (Direction::Reply, ..) => return None,
    };
    Some(u16::from_be_bytes([kind, code]))
}

fn end_reason(event: &Event) -> u8 {
    let is_over = event.state.phase.is_over();
    match event.what {
        What::Began | What::Lasts if !is_over => reason::ACTIVE,
        What::Ended(Why::Idle) if !is_over => reason::IDLE,
        What::Began | What::Lasts | What::Ended(Why::Idle | Why::Replaced) => reason::END,
        What::Ended(Why::Pressure | Why::Evicted) => reason::LACK_OF_RESOURCES,
        What::Ended(Why::Killed | Why::Rules | Why::Partner) => reason::FORCED,
    }
}

/// One direction of a flow, if it had packets that no record has yet. Messages of ICMP whose type
/// is not known have ports, which are 0.
pub(crate) fn flow(
    event: &Event,
    direction: Direction,
    (clock, destinations): (&Clock, bool),
    fields: &mut Fields<'_>,
) -> Option<Template> {
    let (packets, bytes) = event.new_counts(direction);
    if event.what == What::Began || packets == 0 {
        return None;
    }
    let (arrives, leaves) = tuples(event, direction);
    let (is_v6, is_translated) = (arrives.src.is_ipv6(), arrives != leaves);
    let (icmp, ends) = (icmp(event, direction), ends(event, direction, destinations));
    let is_icmp = icmp.is_some();
    let state = &event.state;
    let [in_port, out_port] = match direction {
        Direction::Original => [state.in_port, state.out_port],
        Direction::Reply => [state.out_port, state.in_port],
    };
    // Late packets and ICMP errors count, but do not make the state live longer.
    let start = event.reported.at.unwrap_or(state.created);
    fields.u64(clock.millis(start));
    fields.u64(clock.millis(state.seen.max(start)));
    fields.u64(bytes);
    fields.u64(packets);
    fields.u32(interface(in_port));
    fields.u32(interface(out_port));
    fields.u8(arrives.protocol);
    fields.u8(end_reason(event));
    fields.addrs(&arrives, ends);
    match icmp {
        None => fields.ports(&arrives, ends),
        Some(kind_code) => fields.u16(kind_code),
    }
    if is_translated {
        fields.addrs(&leaves, ends);
        if !is_icmp {
            fields.ports(&leaves, ends);
        }
    }
    Some(Template::Flow(Flow { is_v6, is_translated, is_icmp, ends }))
}

/// The beginning or the end of a session of NAT44. RFC 8158 4.6.1-b.
pub(crate) fn session(
    event: &Event,
    (clock, destinations): (&Clock, bool),
    fields: &mut Fields<'_>,
) -> Option<Template> {
    let what = match event.what {
        What::Began => nat_event::SESSION_CREATE,
        What::Ended(_) => nat_event::SESSION_DELETE,
        What::Lasts => return None,
    };
    let (arrives, leaves) = tuples(event, Direction::Original);
    if arrives == leaves || arrives.src.is_ipv6() {
        return None;
    }
    fields.u64(clock.millis(event.at));
    fields.u8(what);
    let ends = ends(event, Direction::Original, destinations);
    fields.u8(arrives.protocol);
    fields.addrs(&arrives, ends);
    fields.ports(&arrives, ends);
    fields.addrs(&leaves, ends);
    fields.ports(&leaves, ends);
    Some(Template::Session(ends))
}

/// A block of ports. RFC 8158 4.6.10-a.
pub(crate) fn block(event: &BlockEvent, clock: &Clock, fields: &mut Fields<'_>) -> Template {
    fields.u64(clock.millis(event.at));
    fields.u8(match event.is_allocation {
        true => nat_event::BLOCK_ALLOCATION,
        false => nat_event::BLOCK_DEALLOCATION,
    });
    fields.addr(event.inside);
    fields.addr(event.outside);
    fields.u16(event.ports.0);
    fields.u16(event.ports.1);
    Template::Block { is_v6: event.inside.is_ipv6() }
}

/// A flow that NAT refused. RFC 8158 4.6.5-a, 4.6.6-a, 4.6.7-c, 4.6.7-d.
pub(crate) fn refused(flow: &RefusedFlow, clock: &Clock, fields: &mut Fields<'_>) -> Template {
    fields.u64(clock.millis(flow.at));
    let mut exceeded = |what: u32, most: u32| {
        fields.u8(nat_event::QUOTA_EXCEEDED);
        fields.u32(what);
        fields.u32(most);
    };
    match flow.why {
        Shortage::States(most) => {
            exceeded(quota::SESSIONS, most);
            Template::QuotaOfSessions
        }
        Shortage::Mappings(most) => {
            exceeded(quota::MAPPINGS, most);
            Template::QuotaOfMappings
        }
        Shortage::PortsOfSource(most) | Shortage::StatesOfSource(most) => {
            exceeded(quota::OF_SOURCE, most);
            fields.addr(flow.tuple.src);
            Template::QuotaOfSource { is_v6: flow.tuple.src.is_ipv6() }
        }
        Shortage::Ports(Some(outside)) => {
            fields.u8(nat_event::PORTS_EXHAUSTED);
            fields.addr(outside);
            fields.u8(flow.tuple.protocol);
            Template::PortsExhausted { is_v6: outside.is_ipv6() }
        }
        Shortage::Ports(None) | Shortage::Addresses => {
            fields.u8(nat_event::ADDRESSES_EXHAUSTED);
            fields.u32(flow.rule);
            Template::AddressesExhausted
        }
    }
}
