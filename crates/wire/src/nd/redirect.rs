//! Redirects.
//!
//! Called by: `inet::redirect`, which checks the sender and the addresses. RFC 4861 sections 4.5 and
//! 8.1.

use base::{DropReason, MacAddr};
use core::net::Ipv6Addr;

use super::{NdOptions, OPTIONS_MAX, REDIRECT, TARGET_LINK_ADDR};
use crate::bytes::array;

/// Bytes before the options.
const HEADER_LEN: usize = 40;

/// A redirect: packets to `destination` had better go to `target`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The better first hop, or the destination itself.
    pub target: Ipv6Addr,
    /// Where packets are going.
    pub destination: Ipv6Addr,
    /// The target's link address, if the router gives it.
    pub link_addr: Option<MacAddr>,
}

impl Redirect {
    /// Parse `message`, an ICMPv6 message whose checksum is right.
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
