//! Neighbour solicitations and advertisements, which replace ARP in IPv6. `router.rs` has the
//! messages between hosts and routers, `redirect.rs` redirects, `option.rs` the options of all
//! these messages.
//!
//! Called by: `inet::nd`, which checks the hop limit (255) and the addresses. RFC 4861 sections
//! 4.3, 4.4, 4.6, 7.1.1 and 7.1.2; RFC 4862 section 5.4 for DAD (source `::`).

mod option;
mod redirect;
mod router;
mod write;

pub use option::{Domains, NdOption, NdOptions, Nonce, Preference, Prefix};
pub use redirect::Redirect;
pub use router::{RouterAdvertisement, is_router_solicitation, router_solicitation};
pub use write::AdvertisementWriter;

use base::{DropReason, MacAddr};
use core::net::Ipv6Addr;

use crate::bytes::{array, put};
use crate::checksum::Ladder;
use crate::icmpv6;

/// Bytes before the options.
pub const HEADER_LEN: usize = 24;
/// Bytes of a message with a link-layer address option: the most `emit` writes.
pub const LEN_MAX: usize = 32;

/// ICMPv6 type of a neighbour solicitation.
pub const SOLICITATION: u8 = 135;
/// ICMPv6 type of a neighbour advertisement.
pub const ADVERTISEMENT: u8 = 136;

/// ICMPv6 type of a router solicitation.
pub const ROUTER_SOLICITATION: u8 = 133;
/// ICMPv6 type of a router advertisement.
pub const ROUTER_ADVERTISEMENT: u8 = 134;
/// ICMPv6 type of a redirect.
pub const REDIRECT: u8 = icmpv6::REDIRECT;

/// Maximum number of options in a solicitation, advertisement or redirect (RFC 4861 names no
/// limit).
const OPTIONS_MAX: usize = 16;

const SOURCE_LINK_ADDR: u8 = 1;
const TARGET_LINK_ADDR: u8 = 2;

const ROUTER: u8 = 0x80;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

/// The type of message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Requests the link address of the target.
    Solicitation,
    /// Announces the link address of the target, which the sender has.
    Advertisement {
        /// The sender is a router.
        router: bool,
        /// The advertisement answers a solicitation.
        solicited: bool,
        /// The advertisement replaces the entry in the neighbour table.
        overrides: bool,
    },
}

/// A neighbour solicitation or advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The type, with the flags.
    pub kind: Kind,
    /// The address that is solicited or advertised; never multicast.
    pub target: Ipv6Addr,
    /// The source link-layer address option of a solicitation, or the target link-layer address
    /// option of an advertisement; the last one if there are several.
    pub link_addr: Option<MacAddr>,
}

impl Header {
    /// Parse `message`, an ICMPv6 message that [`icmpv6::Header::parse`] accepted.
    ///
    /// # Errors
    /// [`DropReason::IcmpMalformed`]: neither of the two types, a code other than 0, below 24
    /// bytes, a multicast target, an option of length 0 or past the end, or more than 16 options.
    pub fn parse(message: &[u8]) -> Result<Header, DropReason> {
        let (b, options) =
            message.split_first_chunk::<HEADER_LEN>().ok_or(DropReason::IcmpMalformed)?;
        let flags = b[4];
        let (kind, wanted) = match (b[0], b[1]) {
            (SOLICITATION, 0) => (Kind::Solicitation, SOURCE_LINK_ADDR),
            (ADVERTISEMENT, 0) => (
                Kind::Advertisement {
                    router: flags & ROUTER != 0,
                    solicited: flags & SOLICITED != 0,
                    overrides: flags & OVERRIDE != 0,
                },
                TARGET_LINK_ADDR,
            ),
            _ => return Err(DropReason::IcmpMalformed),
        };
        let target = Ipv6Addr::from(array::<_, 16>(b, 8));
        if target.is_multicast() {
            return Err(DropReason::IcmpMalformed);
        }
        let options = NdOptions::parse(options, OPTIONS_MAX)?;
        Ok(Header { kind, target, link_addr: options.link_addr(wanted) })
    }

    /// The nonce of a message that [`Header::parse`] accepted, RFC 7527 section 4.1.
    pub fn nonce(message: &[u8]) -> Option<Nonce> {
        let options = NdOptions::parse(message.get(HEADER_LEN..)?, OPTIONS_MAX).ok()?;
        options.iter().find_map(|option| match option {
            NdOption::Nonce(nonce) => Some(nonce),
            _ => None,
        })
    }

    /// Write a solicitation for duplicate address detection, from `::`, with a nonce. Returns its
    /// length, 32 bytes; `None`, with nothing written, if `buf` is shorter. RFC 4862 section 5.4.2,
    /// RFC 7527 section 4.1.
    pub fn emit_probe(
        buf: &mut [u8],
        target: Ipv6Addr,
        group: Ipv6Addr,
        nonce: Nonce,
    ) -> Option<usize> {
        let message = buf.first_chunk_mut::<LEN_MAX>()?;
        put(message, 0, [SOLICITATION, 0, 0, 0, 0, 0, 0, 0]);
        put(message, 8, target.octets());
        put(message, HEADER_LEN, [option::NONCE, 1]);
        put(message, HEADER_LEN + 2, nonce);
        set_checksum(message, Ipv6Addr::UNSPECIFIED, group);
        Some(LEN_MAX)
    }

    /// Write the message with its checksum to the start of `buf` and return its length, 24 or 32
    /// bytes; `None`, with nothing written, if `buf` is shorter.
    pub fn emit(&self, buf: &mut [u8], src: Ipv6Addr, dst: Ipv6Addr) -> Option<usize> {
        let len = if self.link_addr.is_some() { LEN_MAX } else { HEADER_LEN };
        let message = buf.get_mut(..len)?;
        let (b, option) = message.split_first_chunk_mut::<HEADER_LEN>()?;
        let (kind, flags, option_kind) = match self.kind {
            Kind::Solicitation => (SOLICITATION, 0, SOURCE_LINK_ADDR),
            Kind::Advertisement { router, solicited, overrides } => {
                let flag = |set, bit| if set { bit } else { 0 };
                let flags =
                    flag(router, ROUTER) | flag(solicited, SOLICITED) | flag(overrides, OVERRIDE);
                (ADVERTISEMENT, flags, TARGET_LINK_ADDR)
            }
        };
        put(b, 0, [kind, 0, 0, 0, flags, 0, 0, 0]);
        put(b, 8, self.target.octets());
        if let (Some(mac), Some(option)) = (self.link_addr, option.first_chunk_mut::<8>()) {
            put(option, 0, [option_kind, 1]);
            put(option, 2, mac.0);
        }
        set_checksum(message, src, dst);
        Some(len)
    }
}

/// Set the checksum of a message whose checksum field is zero.
fn set_checksum(message: &mut [u8], src: Ipv6Addr, dst: Ipv6Addr) {
    let field = icmpv6::pseudo(src, dst, message.len()).plus(Ladder::best().sum(message)).field();
    if let Some(b) = message.first_chunk_mut::<4>() {
        put(b, 2, field);
    }
}

#[cfg(test)]
mod tests;
