//! Checks a frame's Ethernet header: its destination and its EtherType. RFC 894, RFC 2464.
//!
//! Called by: `stack/rx.rs`, before any other layer.

use base::{DropReason, MacAddr};
use wire::ether;

/// The protocol of a frame's payload, by its EtherType.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// An IPv4 packet.
    Ipv4,
    /// An IPv6 packet.
    Ipv6,
    /// ARP.
    Arp,
}

/// Check the Ethernet header of a frame to the MAC address `ours` or to a group address. Returns
/// the protocol of its payload, and `true` if the destination is a group address (multicast or
/// broadcast).
///
/// # Errors
/// [`DropReason::EtherShort`], [`DropReason::EtherNotForUs`], [`DropReason::EtherTypeUnknown`].
#[inline(always)]
pub fn ether_input(frame: &[u8], ours: MacAddr) -> Result<(Carries, bool), DropReason> {
    let header = ether::Header::parse(frame)?;
    if !header.dst.is(ours) {
        return to_group(&header).map(|carries| (carries, true));
    }
    what_it_carries(header.ethertype).map(|carries| (carries, false))
}

#[cold]
fn to_group(header: &ether::Header) -> Result<Carries, DropReason> {
    if header.dst.is_group() {
        what_it_carries(header.ethertype)
    } else {
        Err(DropReason::EtherNotForUs)
    }
}

#[inline(always)]
fn what_it_carries(ethertype: u16) -> Result<Carries, DropReason> {
    Ok(match ethertype {
        ether::IPV4 => Carries::Ipv4,
        ether::IPV6 => Carries::Ipv6,
        ether::ARP => Carries::Arp,
        _ => return Err(DropReason::EtherTypeUnknown),
    })
}
