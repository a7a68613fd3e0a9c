//! The VLAN tag: 4 bytes after an Ethernet header of type `ether::VLAN`.
//!
//! Called by: `device::vlan` and taps, for ports with tagged frames, and `link`, which does
//! segmentation offload on such frames. For a tag inside a tag, parse again. IEEE 802.1Q section
//! 9.6, IEEE 802.1ad.

use base::{DropReason, LinkKind};

use crate::bytes::{be16, put};
use crate::ether;

/// Bytes of the tag, without the Ethernet type that announces it.
pub const HEADER_LEN: usize = 4;

/// A tag: its control information, and the type of the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Priority code point, 0 to 7.
    pub priority: u8,
    /// May be dropped first under congestion (DEI).
    pub drop_eligible: bool,
    /// VLAN identifier, 0 to 4095; 0 is a priority tag, 4095 is reserved.
    pub id: u16,
    /// Ethernet type of the payload.
    pub ethertype: u16,
}

impl Header {
    /// Parse the tag at the start of `bytes`, which follow the Ethernet header.
    ///
    /// # Errors
    /// [`DropReason::EtherShort`] below 4 bytes.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Header, DropReason> {
        let b = bytes.first_chunk::<HEADER_LEN>().ok_or(DropReason::EtherShort)?;
        let control = be16(b, 0);
        Ok(Header {
            priority: (control >> 13) as u8,
            drop_eligible: control & 0x1000 != 0,
            id: control & 0x0fff,
            ethertype: be16(b, 2),
        })
    }

    /// Write the 4 bytes; `false` if `buf` is shorter, the priority exceeds 7 or the id exceeds
    /// 4095.
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) -> bool {
        let Some(b) = buf.first_chunk_mut::<HEADER_LEN>() else { return false };
        if self.priority > 7 || self.id > 0x0fff {
            return false;
        }
        let control =
            u16::from(self.priority) << 13 | u16::from(self.drop_eligible) << 12 | self.id;
        put(b, 0, control.to_be_bytes());
        put(b, 2, self.ethertype.to_be_bytes());
        true
    }
}

/// Offset of a frame's IP packet, which follows the Ethernet header and any number of tags; 0
/// without a link header. `None` if an Ethernet frame carries something else, or is too short.
pub fn ip_at(frame: &[u8], link: LinkKind) -> Option<usize> {
    if link == LinkKind::Ip {
        return Some(0);
    }
    let mut ethertype = ether::Header::parse(frame).ok()?.ethertype;
    let mut at = ether::HEADER_LEN;
    while matches!(ethertype, ether::VLAN | ether::SERVICE_VLAN) {
        ethertype = Header::parse(frame.get(at..)?).ok()?.ethertype;
        at += HEADER_LEN;
    }
    matches!(ethertype, ether::IPV4 | ether::IPV6).then_some(at)
}
