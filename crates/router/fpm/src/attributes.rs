//! Netlink messages of a frame and their attributes, rtnetlink(7), in the order of this machine's
//! bytes.
//!
//! Called by: `session.rs`, `route.rs`, `nexthop.rs`. Crate netlink-packet-core walks the
//! attributes. Crate netlink-packet-route is not used: it reads a RTA_MULTIPATH in a RTA_MULTIPATH
//! by recursion, so one frame of 64 KB overflows the stack; an encapsulation that it cannot read
//! refuses the whole message without its name; and it has no nexthops.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink_packet_core::NlasIterator;

use crate::frame::Violation;

/// Bytes of a netlink header: length, type, flags, sequence number, port.
const HEADER: usize = 16;

/// The version of addresses, `AF_INET`.
pub(crate) const INET: u8 = 2;
/// `AF_INET6`.
pub(crate) const INET6: u8 = 10;
/// `AF_MPLS`.
pub(crate) const MPLS: u8 = 28;

/// A netlink message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    /// Its type.
    pub(crate) kind: u16,
    /// Its flags.
    pub(crate) flags: u16,
    /// The number of the request that it answers.
    pub(crate) sequence: u32,
    /// What follows the netlink header.
    pub(crate) body: &'a [u8],
}

/// The messages of a frame.
pub(crate) struct Messages<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, Violation>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let rest = core::mem::take(&mut self.0);
        let Some(length) = number(rest) else {
            // Less than a length: the frame ends within a message.
            return Some(Err(Violation::MessageLength(0)));
        };
        let Some(message) = usize::try_from(length).ok().and_then(|length| rest.get(..length))
        else {
            return Some(Err(Violation::MessageLength(length)));
        };
        let [_, _, _, _, low, high, flags_low, flags_high, sequence @ ..] = message else {
            return Some(Err(Violation::MessageLength(length)));
        };
        let (Some(body), Some(sequence)) = (message.get(HEADER..), number(sequence)) else {
            return Some(Err(Violation::MessageLength(length)));
        };
        let [kind, flags] = [[*low, *high], [*flags_low, *flags_high]].map(u16::from_ne_bytes);
        self.0 = rest.get(message.len().next_multiple_of(4)..).unwrap_or_default();
        Some(Ok(Message { kind, flags, sequence, body }))
    }
}

impl<'a> Message<'a> {
    /// The message's own header of `N` bytes, and the attributes behind it.
    pub(crate) fn header<const N: usize>(&self) -> Result<([u8; N], &'a [u8]), Violation> {
        match self.body.split_first_chunk::<N>() {
            Some((header, attributes)) => Ok((*header, attributes)),
            None => Err(Violation::ShortMessage(self.kind)),
        }
    }
}

/// Call `each` with kind and value of each attribute.
pub(crate) fn each_attribute<'a>(
    message: u16,
    attributes: &'a [u8],
    mut each: impl FnMut(u16, &'a [u8]) -> Result<(), Violation>,
) -> Result<(), Violation> {
    for attribute in NlasIterator::new(attributes) {
        let attribute = attribute.map_err(|_| Violation::Attribute(message))?;
        let value = attribute.into_inner();
        let end = usize::from(u16::from_ne_bytes([value[0], value[1]]));
        each(attribute.kind(), &value[4..end])?;
    }
    Ok(())
}

/// A number of four bytes at the beginning of `bytes`.
pub(crate) fn number(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

/// An attribute that is a number of four bytes.
pub(crate) fn word(message: u16, value: &[u8]) -> Result<u32, Violation> {
    match <[u8; 4]>::try_from(value) {
        Ok(bytes) => Ok(u32::from_ne_bytes(bytes)),
        Err(_) => Err(Violation::Attribute(message)),
    }
}

/// An attribute that is a number of two bytes.
pub(crate) fn half(message: u16, value: &[u8]) -> Result<u16, Violation> {
    match <[u8; 2]>::try_from(value) {
        Ok(bytes) => Ok(u16::from_ne_bytes(bytes)),
        Err(_) => Err(Violation::Attribute(message)),
    }
}

/// An address of either version, by its length.
pub(crate) fn address(value: &[u8]) -> Result<IpAddr, Violation> {
    if let Ok(octets) = <[u8; 4]>::try_from(value) {
        return Ok(Ipv4Addr::from(octets).into());
    }
    match <[u8; 16]>::try_from(value) {
        Ok(octets) => Ok(Ipv6Addr::from(octets).into()),
        Err(_) => Err(Violation::Address(value.len())),
    }
}

/// The address of a `struct rtvia`: its version in two bytes, and the address.
pub(crate) fn via(value: &[u8]) -> Result<Option<IpAddr>, Violation> {
    match value.split_first_chunk::<2>() {
        Some((family, octets)) => match (u16::from_ne_bytes(*family), octets.len()) {
            (2, 4) | (10, 16) => address(octets).map(Some),
            (2 | 10, length) => Err(Violation::Address(length)),
            _ => Ok(None),
        },
        None => Err(Violation::Address(value.len())),
    }
}
