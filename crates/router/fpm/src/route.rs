//! `RTM_NEWROUTE` and `RTM_DELROUTE`: a `struct rtmsg` and its attributes.
//!
//! Called by: `session.rs`. rtnetlink(7), linux/rtnetlink.h.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::Cidr;

use crate::attributes::{
    INET, INET6, MPLS, Message, address, each_attribute, half, number, via, word,
};
use crate::change::{Discard, Hop, Key, NextHops, Reachable};
use crate::counts::{Encapsulation, Limit};
use crate::frame::Violation;

/// Bytes of a `struct rtmsg`.
const RTMSG: usize = 12;
/// Bytes of a `struct rtnexthop`.
const RTNEXTHOP: usize = 8;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_MULTIPATH: u16 = 9;
const RTA_TABLE: u16 = 15;
const RTA_VIA: u16 = 18;
const RTA_ENCAP_TYPE: u16 = 21;
const RTA_ENCAP: u16 = 22;
const RTA_NH_ID: u16 = 30;
/// Routes of the kernel; zebra gives this number to connected and local networks, too.
const RTPROT_KERNEL: u8 = 2;
/// A copy that the kernel made for one destination.
const RTM_F_CLONED: u32 = 0x200;
/// The main table. zebra deletes routes of it as of table 0 at times.
const MAIN_TABLE: u32 = 254;

/// A route, as its message has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) key: Key,
    pub(crate) metric: u32,
    pub(crate) protocol: u8,
    pub(crate) leads: Leads,
}

/// Where a route leads, or why it cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Leads {
    To(NextHops),
    /// The kernel's own.
    Kernel,
    Encapsulated(Encapsulation),
    Limited(Limit),
    Unsupported,
}

/// What a message may have been: a route of another family has no key of ours.
pub(crate) enum Parsed {
    Route(Route),
    Encapsulated(Encapsulation),
    Unsupported,
}

/// The attributes of a route or of one of its next hops.
#[derive(Default)]
struct Found<'a> {
    dst: Option<IpAddr>,
    interface: u32,
    gateway: Option<IpAddr>,
    metric: u32,
    table: Option<u32>,
    id: Option<u32>,
    paths: Option<&'a [u8]>,
    encapsulation: Option<Encapsulation>,
    /// There is an attribute of an encapsulation, whatever its type.
    is_encapsulated: bool,
    is_unsupported: bool,
}

impl<'a> Found<'a> {
    fn read(message: u16, attributes: &'a [u8]) -> Result<Found<'a>, Violation> {
        let mut found = Found::default();
        each_attribute(message, attributes, |kind, value| {
            match kind {
                RTA_DST => found.dst = Some(address(value)?),
                RTA_OIF => found.interface = word(message, value)?,
                RTA_GATEWAY => found.gateway = Some(address(value)?),
                RTA_VIA => {
                    found.gateway = via(value)?;
                    found.is_unsupported |= found.gateway.is_none();
                }
                RTA_PRIORITY => found.metric = word(message, value)?,
                RTA_TABLE => found.table = Some(word(message, value)?),
                RTA_NH_ID => found.id = Some(word(message, value)?),
                RTA_MULTIPATH => found.paths = Some(value),
                RTA_ENCAP_TYPE => found.encapsulation = Encapsulation::of(half(message, value)?),
                RTA_ENCAP => found.is_encapsulated = true,
                _ => {}
            }
            Ok(())
        })?;
        if found.is_encapsulated && found.encapsulation.is_none() {
            found.encapsulation = Some(Encapsulation::Unknown);
        }
        Ok(found)
    }

    fn hop(&self, weight: u16) -> Hop {
        Hop { interface: self.interface, gateway: self.gateway.and_then(specified), weight }
    }
}

/// zebra writes a gateway of zeros where there is none.
pub(crate) fn specified(gateway: IpAddr) -> Option<IpAddr> {
    Some(gateway).filter(|gateway| !gateway.is_unspecified())
}

/// The speaker: zebra means the number of a nexthop; the kernel adds what it stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaker {
    Zebra,
    Kernel,
}

/// Read a message of a route.
pub(crate) fn parse(message: &Message<'_>, speaker: Speaker) -> Result<Parsed, Violation> {
    let (header, attributes) = message.header::<RTMSG>()?;
    let [family, length, source_length, tos, table, protocol, _scope, kind, flags @ ..] = header;
    let unspecified = match family {
        INET => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        INET6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        MPLS => return Ok(Parsed::Encapsulated(Encapsulation::Mpls)),
        _ => return Ok(Parsed::Unsupported),
    };
    let mut found = Found::read(message.kind, attributes)?;
    let has_own = found.interface != 0 || found.gateway.is_some() || found.paths.is_some();
    found.id = found.id.filter(|_| speaker == Speaker::Zebra || !has_own);
    let dst = found.dst.unwrap_or(unspecified);
    if dst.is_ipv4() != unspecified.is_ipv4() {
        return Err(Violation::Address(if dst.is_ipv4() { 4 } else { 16 }));
    }
    let prefix = Cidr::new(dst, length).ok_or(Violation::PrefixLength(length))?.network();
    let table = match found.table.unwrap_or(table.into()) {
        0 => MAIN_TABLE,
        table => table,
    };
    let key = Key { table, prefix };
    // A route by source prefix or type of service is another one than that of its destination.
    let is_clone = u32::from_ne_bytes(flags) & RTM_F_CLONED != 0;
    if source_length != 0 || tos != 0 || is_clone {
        return Ok(Parsed::Unsupported);
    }
    let leads = leads(message.kind, protocol, kind, &found)?;
    Ok(Parsed::Route(Route { key, metric: found.metric, protocol, leads }))
}

fn leads(message: u16, protocol: u8, kind: u8, found: &Found<'_>) -> Result<Leads, Violation> {
    // RTN_LOCAL, RTN_BROADCAST and RTN_ANYCAST are addresses of the router itself.
    if protocol == RTPROT_KERNEL || matches!(kind, 2..=4) {
        return Ok(Leads::Kernel);
    }
    let discard = |discard| Ok(Leads::To(NextHops::Inline(Reachable::Discard(discard))));
    match kind {
        // RTN_UNSPEC is in deletions.
        0 | 1 => {}
        6 => return discard(Discard::Blackhole),
        7 => return discard(Discard::Unreachable),
        8 => return discard(Discard::Prohibit),
        _ => return Ok(Leads::Unsupported),
    }
    if let Some(encapsulation) = found.encapsulation {
        return Ok(Leads::Encapsulated(encapsulation));
    }
    if found.is_unsupported {
        return Ok(Leads::Unsupported);
    }
    if let Some(id) = found.id {
        return Ok(Leads::To(NextHops::Id(id)));
    }
    match found.paths {
        Some(paths) => multipath(message, paths),
        None => Ok(Leads::To(NextHops::Inline(Reachable::Hops(vec![found.hop(1)])))),
    }
}

/// The `struct rtnexthop`s of a RTA_MULTIPATH: length, flags, weight less 1, interface; attributes.
fn multipath(message: u16, mut paths: &[u8]) -> Result<Leads, Violation> {
    let mut hops = Vec::new();
    while !paths.is_empty() {
        let Some(&[low, high, _flags, weight, ..]) = paths.first_chunk::<RTNEXTHOP>() else {
            return Err(Violation::Attribute(message));
        };
        let length = usize::from(u16::from_ne_bytes([low, high]));
        let Some(attributes) = paths.get(RTNEXTHOP..length) else {
            return Err(Violation::Attribute(message));
        };
        let interface = number(&paths[4..]).unwrap_or(0);
        let found = Found { interface, ..Found::read(message, attributes)? };
        if let Some(encapsulation) = found.encapsulation {
            return Ok(Leads::Encapsulated(encapsulation));
        }
        // A multipath within a path, too.
        if found.is_unsupported || found.paths.is_some() {
            return Ok(Leads::Unsupported);
        }
        if hops.len() == Limit::Members.most() {
            return Ok(Leads::Limited(Limit::Members));
        }
        hops.push(found.hop(u16::from(weight) + 1));
        paths = paths.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(Leads::To(NextHops::Inline(Reachable::Hops(hops))))
}
