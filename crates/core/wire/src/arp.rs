//! ARP for IPv4 over Ethernet: 28 bytes after the Ethernet header.
//!
//! Called by: `inet::nd`. RFC 826; RFC 5227 section 2 for probes (sender 0.0.0.0) and
//! announcements.

use base::{DropReason, MacAddr};
use core::net::Ipv4Addr;

use crate::bytes::{array, be16, put};
use crate::ether;

/// Bytes of a request or reply.
pub const HEADER_LEN: usize = 28;

/// Hardware type Ethernet, protocol type IPv4, address lengths 6 and 4.
const ETHERNET_IPV4: [u8; 6] = {
    let [hi, lo] = ether::IPV4.to_be_bytes();
    [0, 1, hi, lo, 6, 4]
};

/// The operation of an ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Requests the link address of the target.
    Request,
    /// Announces the link address of the sender.
    Reply,
}

/// A request or reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Request or reply.
    pub operation: Operation,
    /// Sender's Ethernet address.
    pub sender_mac: MacAddr,
    /// Sender's IPv4 address; 0.0.0.0 in a probe.
    pub sender_ip: Ipv4Addr,
    /// Target's Ethernet address; ignored in a request.
    pub target_mac: MacAddr,
    /// Target's IPv4 address.
    pub target_ip: Ipv4Addr,
}

impl Header {
    /// Parse the packet at the start of `bytes`; what follows is link padding.
    ///
    /// # Errors
    /// [`DropReason::ArpMalformed`] if short, not IPv4 over Ethernet, or of an unknown operation.
    /// RFC 826 2-a.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Header, DropReason> {
        let b = bytes.first_chunk::<HEADER_LEN>().ok_or(DropReason::ArpMalformed)?;
        if !b.starts_with(&ETHERNET_IPV4) {
            return Err(DropReason::ArpMalformed);
        }
        let operation = match be16(b, 6) {
            1 => Operation::Request,
            2 => Operation::Reply,
            _ => return Err(DropReason::ArpMalformed),
        };
        Ok(Header {
            operation,
            sender_mac: MacAddr(array(b, 8)),
            sender_ip: Ipv4Addr::from(array::<_, 4>(b, 14)),
            target_mac: MacAddr(array(b, 18)),
            target_ip: Ipv4Addr::from(array::<_, 4>(b, 24)),
        })
    }

    /// Write the 28 bytes; `false` if `buf` is shorter.
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) -> bool {
        let Some(b) = buf.first_chunk_mut::<HEADER_LEN>() else { return false };
        let operation: u16 = match self.operation {
            Operation::Request => 1,
            Operation::Reply => 2,
        };
        put(b, 0, ETHERNET_IPV4);
        put(b, 6, operation.to_be_bytes());
        put(b, 8, self.sender_mac.0);
        put(b, 14, self.sender_ip.octets());
        put(b, 18, self.target_mac.0);
        put(b, 24, self.target_ip.octets());
        true
    }
}

#[cfg(test)]
mod tests;
