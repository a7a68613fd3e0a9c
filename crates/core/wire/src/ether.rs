//! The Ethernet header: the first 14 bytes of every frame on an Ethernet port.
//!
//! Called by: `inet::ether`, `inet::ip_output` and `stack/resolve.rs`. The device handles the frame
//! check sequence. IEEE 802.3 section 3.2; RFC 894, RFC 2464.

use base::{DropReason, MacAddr};

use crate::bytes::{array, be16, put};

/// Bytes of the header.
pub const HEADER_LEN: usize = 14;

/// Ethernet type of IPv4, RFC 894.
pub const IPV4: u16 = 0x0800;
/// Ethernet type of ARP, RFC 826.
pub const ARP: u16 = 0x0806;
/// Ethernet type of a customer VLAN tag, IEEE 802.1Q; a [`crate::vlan::Header`] follows.
pub const VLAN: u16 = 0x8100;
/// Ethernet type of a provider's VLAN tag, the outer one of two, IEEE 802.1ad; same header.
pub const SERVICE_VLAN: u16 = 0x88a8;
/// Ethernet type of IPv6, RFC 2464.
pub const IPV6: u16 = 0x86dd;

/// An Ethernet II header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Destination station or group.
    pub dst: MacAddr,
    /// Source station.
    pub src: MacAddr,
    /// Type of the payload: [`IPV4`], [`ARP`], [`VLAN`], [`IPV6`]; below 1536 an IEEE 802.3 length.
    pub ethertype: u16,
}

impl Header {
    /// Parse the header at the start of `frame`.
    ///
    /// # Errors
    /// [`DropReason::EtherShort`] below 14 bytes.
    #[inline]
    pub fn parse(frame: &[u8]) -> Result<Header, DropReason> {
        let b = frame.first_chunk::<HEADER_LEN>().ok_or(DropReason::EtherShort)?;
        Ok(Header { dst: MacAddr(array(b, 0)), src: MacAddr(array(b, 6)), ethertype: be16(b, 12) })
    }

    /// Write the 14 bytes; `false` if `buf` is shorter.
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) -> bool {
        let Some(b) = buf.first_chunk_mut::<HEADER_LEN>() else { return false };
        put(b, 0, self.dst.0);
        put(b, 6, self.src.0);
        put(b, 12, self.ethertype.to_be_bytes());
        true
    }
}

#[cfg(test)]
mod tests;
