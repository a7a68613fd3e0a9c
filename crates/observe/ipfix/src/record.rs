//! Records: events of the firewall as fields, in the order of their templates.
//!
//! Called by: `exporter.rs`. A flow is two records, one for each direction that had packets. RFC
//! 7012; RFC 5102 section 5.11.3 (reasons); RFC 8158 section 4 (NAT).

use core::net::IpAddr;

use filter::firewall::{RefusedFlow, Shortage};
use filter::nat::BlockEvent;
use filter::states::{Direction, Event, What, Why};
use filter::{ROUTER, Tuple};
use wire::protocol;

use crate::clock::Clock;
use crate::template::{Flow, Template};

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

/// Echo requests begin the flows of ICMP: type and code, version 4 and 6, and those of answers.
const ECHO: [[u16; 2]; 2] = [[8 << 8, 128 << 8], [0, 129 << 8]];

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

    /// At most 254 bytes of a text with their number. RFC 7011 6.1.6-a, 7-a, 7-c.
    pub(crate) fn text(&mut self, text: &str) {
        let end = text.floor_char_boundary(usize::from(u8::MAX) - 1);
        self.u8(end as u8);
        self.0.extend(text.as_bytes().iter().take(end));
    }

    fn addrs(&mut self, tuple: &Tuple) {
        self.addr(tuple.src);
        self.addr(tuple.dst);
    }

    fn ports(&mut self, tuple: &Tuple) {
        self.u16(tuple.src_port);
        self.u16(tuple.dst_port);
    }
}

/// The tuple of a direction as its packets arrive, and as they leave.
fn tuples(event: &Event, direction: Direction) -> (Tuple, Tuple) {
    let (original, reply) = (event.state.original, event.state.reply);
    match direction {
        Direction::Original => (original, reply.reversed()),
        Direction::Reply => (reply, original.reversed()),
    }
}

fn end_reason(event: &Event) -> u8 {
    let is_over = event.state.phase.is_over();
    match event.what {
        What::Began | What::Lasts if !is_over => reason::ACTIVE,
        What::Ended(Why::Idle) if !is_over => reason::IDLE,
        What::Began | What::Lasts | What::Ended(Why::Idle | Why::Replaced) => reason::END,
        What::Ended(Why::Pressure | Why::Evicted) => reason::LACK_OF_RESOURCES,
        What::Ended(Why::Killed | Why::Rules) => reason::FORCED,
    }
}

/// One direction of a flow, if it had packets that no record has yet.
pub(crate) fn flow(
    event: &Event,
    direction: Direction,
    clock: &Clock,
    fields: &mut Fields<'_>,
) -> Option<Template> {
    let (packets, bytes) = event.new_counts(direction);
    if event.what == What::Began || packets == 0 {
        return None;
    }
    let (arrives, leaves) = tuples(event, direction);
    let (is_v6, is_translated) = (arrives.src.is_ipv6(), arrives != leaves);
    let is_icmp = matches!(arrives.protocol, protocol::ICMP | protocol::ICMPV6);
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
    fields.addrs(&arrives);
    match is_icmp {
        false => fields.ports(&arrives),
        true => fields.u16(ECHO[direction as usize][usize::from(is_v6)]),
    }
    if is_translated {
        fields.addrs(&leaves);
        if !is_icmp {
            fields.ports(&leaves);
        }
    }
    Some(Template::Flow(Flow { is_v6, is_translated, is_icmp }))
}

/// The beginning or the end of a session of NAT44. RFC 8158 4.6.1-b.
pub(crate) fn session(event: &Event, clock: &Clock, fields: &mut Fields<'_>) -> Option<Template> {
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
    fields.u8(arrives.protocol);
    fields.addrs(&arrives);
    fields.ports(&arrives);
    fields.addrs(&leaves);
    fields.ports(&leaves);
    Some(Template::Session)
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

/// A flow that NAT refused. RFC 8158 4.6.5-a, 4.6.6-a, 4.6.7-d.
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
        Shortage::PortsOfSource(most) => {
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
