//! Router solicitations and advertisements.
//!
//! Called by: `inet::router` and `host::ra`, which check the hop limit and the source. RFC 4861
//! sections 4.1, 4.2 and 6.1.2, RFC 4191 section 2.2 (preference).

use base::{DropReason, MacAddr};
use core::net::Ipv6Addr;

use super::{
    NdOptions, Preference, ROUTER_ADVERTISEMENT, ROUTER_SOLICITATION, SOURCE_LINK_ADDR,
    set_checksum,
};
use crate::bytes::{be16, be32, put};

/// Bytes before the options.
const HEADER_LEN: usize = 16;
/// Maximum number of options. With a prefix each, fewer fit into 1500 bytes.
const OPTIONS_MAX: usize = 64;

/// A router advertisement.
#[derive(Clone, Copy, Debug)]
pub struct RouterAdvertisement<'a> {
    /// Hop limit for hosts to use; 0: not specified.
    pub hop_limit: u8,
    /// Addresses are available by DHCPv6 (M).
    pub managed: bool,
    /// Other settings are available by DHCPv6 (O).
    pub other: bool,
    /// The preference of the sender as a default router.
    pub preference: Preference,
    /// How long the sender is a default router, in seconds; 0: it is none.
    pub lifetime_s: u16,
    /// How long a neighbour is reachable after a confirmation, in ms; 0: not specified.
    pub reachable_ms: u32,
    /// The time between solicitations, in ms; 0: not specified.
    pub retransmit_ms: u32,
    /// Prefixes and the other options.
    pub options: NdOptions<'a>,
}

impl<'a> RouterAdvertisement<'a> {
    /// Parse `message`, an ICMPv6 message with a correct checksum.
    ///
    /// # Errors
    /// [`DropReason::IcmpMalformed`]: another type, a code other than 0, below 16 bytes, options
    /// whose lengths are wrong, or more than 64 of them.
    pub fn parse(message: &'a [u8]) -> Result<RouterAdvertisement<'a>, DropReason> {
        let (b, options) =
            message.split_first_chunk::<HEADER_LEN>().ok_or(DropReason::IcmpMalformed)?;
        if (b[0], b[1]) != (ROUTER_ADVERTISEMENT, 0) {
            return Err(DropReason::IcmpMalformed);
        }
        let flags = b[5];
        Ok(RouterAdvertisement {
            hop_limit: b[4],
            managed: flags & 0x80 != 0,
            other: flags & 0x40 != 0,
            // RFC 4191 section 2.2: the reserved value counts as medium.
            preference: Preference::of_bits(flags >> 3).unwrap_or_default(),
            lifetime_s: be16(b, 6),
            reachable_ms: be32(b, 8),
            retransmit_ms: be32(b, 12),
            options: NdOptions::parse(options, OPTIONS_MAX)?,
        })
    }

    /// The sender's link address.
    pub fn link_addr(&self) -> Option<MacAddr> {
        self.options.link_addr(SOURCE_LINK_ADDR)
    }
}

/// Write a router solicitation with our link address to `buf`, and return its length, 16 bytes;
/// `None`, with nothing written, if `buf` is shorter.
pub fn router_solicitation(
    buf: &mut [u8],
    mac: MacAddr,
    src: Ipv6Addr,
    dst: Ipv6Addr,
) -> Option<usize> {
    let message = buf.first_chunk_mut::<16>()?;
    put(message, 0, [ROUTER_SOLICITATION, 0, 0, 0, 0, 0, 0, 0]);
    put(message, 8, [SOURCE_LINK_ADDR, 1]);
    put(message, 10, mac.0);
    set_checksum(message, src, dst);
    Some(message.len())
}

/// Is `message`, an ICMPv6 message whose checksum is right, a valid router solicitation from this
/// source? RFC 4861 section 6.1.1; the caller checks the hop limit.
pub fn is_router_solicitation(message: &[u8], src: Ipv6Addr) -> bool {
    let Some((&[kind, code, ..], options)) = message.split_first_chunk::<8>() else { return false };
    let Ok(options) = NdOptions::parse(options, OPTIONS_MAX) else { return false };
    let has_link_addr = options.link_addr(SOURCE_LINK_ADDR).is_some();
    (kind, code) == (ROUTER_SOLICITATION, 0) && !(src.is_unspecified() && has_link_addr)
}
