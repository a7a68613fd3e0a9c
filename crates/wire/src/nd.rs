//! Neighbour solicitations and advertisements, which replace ARP in IPv6.
//!
//! Called by: `inet::nd`, which checks the hop limit (255) and the addresses. RFC 4861 sections
//! 4.3, 4.4, 4.6, 7.1.1 and 7.1.2; RFC 4862 section 5.4 for DAD (source `::`).

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

/// Maximum number of options in a message (RFC 4861 names no limit).
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
        /// It answers a solicitation.
        solicited: bool,
        /// It replaces the entry in the neighbour table.
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
    /// The source link-layer address option of a solicitation, or the target one of an
    /// advertisement; the last one if repeated.
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
        Ok(Header { kind, target, link_addr: link_addr(options, wanted)? })
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
        let field = icmpv6::pseudo(src, dst, len).plus(Ladder::best().sum(message)).field();
        put(message.first_chunk_mut::<4>()?, 2, field);
        Some(len)
    }
}

/// The link-layer address option of kind `wanted`; others are skipped by their length.
fn link_addr(mut options: &[u8], wanted: u8) -> Result<Option<MacAddr>, DropReason> {
    let mut found = None;
    for _ in 0..OPTIONS_MAX {
        let [kind, units, ..] = *options else {
            // A single byte left over is malformed.
            return if options.is_empty() { Ok(found) } else { Err(DropReason::IcmpMalformed) };
        };
        let len = usize::from(units) * 8;
        let option = options.get(..len).ok_or(DropReason::IcmpMalformed)?;
        if len == 0 {
            return Err(DropReason::IcmpMalformed);
        }
        if kind == wanted
            && let Ok(b) = <&[u8; 8]>::try_from(option)
        {
            found = Some(MacAddr(array(b, 2)));
        }
        options = options.get(len..).unwrap_or_default();
    }
    if options.is_empty() { Ok(found) } else { Err(DropReason::IcmpMalformed) }
}

#[cfg(test)]
mod tests;
