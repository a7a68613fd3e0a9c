//! `RTM_NEWNEXTHOP` and `RTM_DELNEXTHOP`: a `struct nhmsg` and its attributes, linux/nexthop.h.
//!
//! Called by: `session.rs`.

use crate::attributes::{Message, address, each_attribute, half, word};
use crate::change::{Discard, Hop, Reachable};
use crate::counts::{Encapsulation, Limit};
use crate::frame::Violation;
use crate::route::specified;

/// Bytes of a `struct nhmsg`.
const NHMSG: usize = 8;
/// Bytes of a `struct nexthop_grp`: number, weight less 1 in two parts, and two bytes of nothing.
const MEMBER: usize = 8;
const NHA_ID: u16 = 1;
const NHA_GROUP: u16 = 2;
const NHA_BLACKHOLE: u16 = 4;
const NHA_OIF: u16 = 5;
const NHA_GATEWAY: u16 = 6;
const NHA_ENCAP_TYPE: u16 = 7;
const NHA_ENCAP: u16 = 8;
const NHA_FDB: u16 = 11;

/// A member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) id: u32,
    pub(crate) weight: u16,
}

/// What a number stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Nexthop {
    One(Reachable),
    Group(Box<[Member]>),
    /// It cannot be used, so routes by it have no next hop.
    Encapsulated(Encapsulation),
    Limited(Limit),
    Unsupported,
}

/// Read a message of a nexthop: its number, and what it stands for.
pub(crate) fn parse(message: &Message<'_>) -> Result<(u32, Nexthop), Violation> {
    let (_, attributes) = message.header::<NHMSG>()?;
    let kind = message.kind;
    let (mut id, mut group, mut interface, mut gateway) = (None, None, 0, None);
    let (mut is_blackhole, mut encapsulation, mut is_encapsulated) = (false, None, false);
    let mut is_fdb = false;
    each_attribute(kind, attributes, |attribute, value| {
        match attribute {
            NHA_ID => id = Some(word(kind, value)?),
            NHA_GROUP => group = Some(value),
            NHA_BLACKHOLE => is_blackhole = true,
            NHA_OIF => interface = word(kind, value)?,
            NHA_GATEWAY => gateway = specified(address(value)?),
            NHA_ENCAP_TYPE => encapsulation = Encapsulation::of(half(kind, value)?),
            NHA_ENCAP => is_encapsulated = true,
            NHA_FDB => is_fdb = true,
            _ => {}
        }
        Ok(())
    })?;
    let id = id.ok_or(Violation::NoNumber)?;
    if is_encapsulated && encapsulation.is_none() {
        encapsulation = Some(Encapsulation::Unknown);
    }
    let nexthop = match (encapsulation, group) {
        (Some(encapsulation), _) => Nexthop::Encapsulated(encapsulation),
        // A bridge entry, for VXLAN.
        _ if is_fdb => Nexthop::Unsupported,
        (None, Some(group)) => self::group(kind, group)?,
        (None, None) if is_blackhole => Nexthop::One(Reachable::Discard(Discard::Blackhole)),
        (None, None) => Nexthop::One(Reachable::Hops(vec![Hop { interface, gateway, weight: 1 }])),
    };
    Ok((id, nexthop))
}

fn group(kind: u16, value: &[u8]) -> Result<Nexthop, Violation> {
    let (members, rest) = value.as_chunks::<MEMBER>();
    if !rest.is_empty() {
        return Err(Violation::Attribute(kind));
    }
    if members.len() > Limit::Members.most() {
        return Ok(Nexthop::Limited(Limit::Members));
    }
    let member = |&[a, b, c, d, low, high, ..]: &[u8; MEMBER]| Member {
        id: u32::from_ne_bytes([a, b, c, d]),
        weight: u16::from_le_bytes([low, high]).saturating_add(1),
    };
    Ok(Nexthop::Group(members.iter().map(member).collect()))
}
