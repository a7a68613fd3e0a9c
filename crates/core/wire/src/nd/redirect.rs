//! Redirects of IPv6.
//!
//! Called by: `inet::redirect`, which checks the sender and the addresses; `stack/forward` of a
//! router. RFC 4861 sections 4.5, 4.6.3 and 8.1.

use base::{DropReason, MacAddr};
use core::net::Ipv6Addr;

use super::{NdOptions, OPTIONS_MAX, REDIRECT, TARGET_LINK_ADDR, set_checksum};
use crate::bytes::{array, put};
use crate::ipv6;

/// Bytes before the options.
const HEADER_LEN: usize = 40;
/// Bytes of the target's link address option.
const LINK_ADDR_LEN: usize = 8;
/// Type of the option that quotes the packet, and bytes of that option before the packet.
const REDIRECTED: u8 = 4;
const REDIRECTED_LEN: usize = 8;

/// A redirect: packets to `destination` are to be sent to `target`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The better first hop, or the destination itself.
    pub target: Ipv6Addr,
    /// The destination of the packets.
    pub destination: Ipv6Addr,
    /// The target's link address, if the router gives it.
    pub link_addr: Option<MacAddr>,
}

impl Redirect {
    /// Bytes of the longest redirect: with its IP header it fits the smallest MTU of IPv6.
    pub const LEN_MAX: usize = 1280 - ipv6::HEADER_LEN;

    /// Write a redirect about `packet` to the start of `buf`, which quotes as much of the packet as
    /// fits. Returns its length, a multiple of 8 bytes; `None`, with nothing written, if `buf` is
    /// shorter than [`Redirect::LEN_MAX`].
    pub fn emit(
        &self,
        buf: &mut [u8],
        packet: &[u8],
        src: Ipv6Addr,
        dst: Ipv6Addr,
    ) -> Option<usize> {
        let buf = buf.first_chunk_mut::<{ Redirect::LEN_MAX }>()?;
        put(buf, 0, [REDIRECT, 0, 0, 0, 0, 0, 0, 0]);
        put(buf, 8, self.target.octets());
        put(buf, 24, self.destination.octets());
        let mut at = HEADER_LEN;
        if let Some(mac) = self.link_addr {
            put(buf, at, [TARGET_LINK_ADDR, 1]);
            put(buf, at + 2, mac.0);
            at += LINK_ADDR_LEN;
        }
        // Options are counted in units of 8 bytes.
        let quoted = packet.len().min(Redirect::LEN_MAX - at - REDIRECTED_LEN) & !7;
        let units = ((REDIRECTED_LEN + quoted) / 8) as u8;
        put(buf, at, [REDIRECTED, units, 0, 0, 0, 0, 0, 0]);
        at += REDIRECTED_LEN;
        buf[at..at + quoted].copy_from_slice(&packet[..quoted]);
        set_checksum(&mut buf[..at + quoted], src, dst);
        Some(at + quoted)
    }

    /// Parse `message`, an ICMPv6 message with a correct checksum.
    ///
    /// # Errors
    /// [`DropReason::IcmpMalformed`]: another type, a code other than 0, below 40 bytes, options
    /// whose lengths are wrong, or more than 16 of them.
    pub fn parse(message: &[u8]) -> Result<Redirect, DropReason> {
        let (b, options) =
            message.split_first_chunk::<HEADER_LEN>().ok_or(DropReason::IcmpMalformed)?;
        if (b[0], b[1]) != (REDIRECT, 0) {
            return Err(DropReason::IcmpMalformed);
        }
        let link_addr = NdOptions::parse(options, OPTIONS_MAX)?.link_addr(TARGET_LINK_ADDR);
        Ok(Redirect {
            target: Ipv6Addr::from(array::<_, 16>(b, 8)),
            destination: Ipv6Addr::from(array::<_, 16>(b, 24)),
            link_addr,
        })
    }
}
