//! The options of neighbour discovery messages, as a bounded list.
//!
//! Called by: the messages of this folder, and `inet` for those of a router advertisement. RFC 4861
//! section 4.6, RFC 4191 section 2.3 (routes), RFC 8106 section 5 (name servers, search domains),
//! RFC 7527 section 4.1 (nonces). An option that is unknown here, or whose fields contradict its
//! length, is [`NdOption::Other`]: it is skipped, and the others are still used (RFC 4861 section
//! 6.1.2).

use base::{DropReason, MacAddr};
use core::net::Ipv6Addr;

use super::{SOURCE_LINK_ADDR, TARGET_LINK_ADDR};
use crate::bytes::{array, be32};

pub(super) const PREFIX: u8 = 3;
pub(super) const MTU: u8 = 5;
pub(super) const NONCE: u8 = 14;
const ROUTE: u8 = 24;
pub(super) const RDNSS: u8 = 25;
pub(super) const DNSSL: u8 = 31;

/// A random number, by which our own solicitation, looped back, differs from another host's.
pub type Nonce = [u8; 6];

/// The preference of a router or a route, RFC 4191 section 2.1; a greater one is preferred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Preference {
    /// The bits 11.
    Low,
    /// The bits 00, and for a router the reserved value 10.
    #[default]
    Medium,
    /// The bits 01.
    High,
}

impl Preference {
    /// The two bits in a packet.
    pub(super) const fn bits(self) -> u8 {
        match self {
            Preference::Medium => 0,
            Preference::High => 1,
            Preference::Low => 3,
        }
    }

    /// The preference that two bits in a packet mean; `None` for the reserved value.
    pub(super) const fn of_bits(bits: u8) -> Option<Preference> {
        match bits & 3 {
            0 => Some(Preference::Medium),
            1 => Some(Preference::High),
            3 => Some(Preference::Low),
            _ => None,
        }
    }
}

/// A prefix information option, RFC 4861 section 4.6.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The prefix. The bits after its length are not cleared.
    pub prefix: Ipv6Addr,
    /// 0 to 128.
    pub prefix_len: u8,
    /// Addresses with the prefix are on the link (L).
    pub on_link: bool,
    /// Hosts may make addresses from the prefix (A).
    pub autonomous: bool,
    /// Valid lifetime in seconds; all ones: without end.
    pub valid_s: u32,
    /// Preferred lifetime in seconds; all ones: without end.
    pub preferred_s: u32,
}

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NdOption<'a> {
    /// The link address of the sender.
    SourceLinkAddr(MacAddr),
    /// The link address of the target.
    TargetLinkAddr(MacAddr),
    /// A prefix.
    Prefix(Prefix),
    /// The MTU of the link in bytes.
    Mtu(u32),
    /// A nonce, RFC 7527.
    Nonce(Nonce),
    /// A route, RFC 4191 section 2.3.
    Route {
        /// The destination prefix. The bits after its length are not cleared.
        prefix: Ipv6Addr,
        /// 0 to 128.
        prefix_len: u8,
        /// The preference of the route.
        preference: Preference,
        /// Lifetime in seconds; all ones: without end.
        lifetime_s: u32,
    },
    /// Recursive name servers, RFC 8106 section 5.1: 16 bytes each.
    Rdnss {
        /// Lifetime in seconds; all ones: without end.
        lifetime_s: u32,
        /// The addresses.
        servers: &'a [u8],
    },
    /// Search domains, RFC 8106 section 5.2.
    Dnssl {
        /// Lifetime in seconds; all ones: without end.
        lifetime_s: u32,
        /// The names.
        domains: Domains<'a>,
    },
    /// An option that is unknown here.
    Other,
}

/// The options of a message whose lengths have been checked.
#[derive(Clone, Copy, Debug)]
pub struct NdOptions<'a>(&'a [u8]);

impl<'a> NdOptions<'a> {
    /// Check the lengths of the options that fill `bytes`. There may be at most `most` options.
    ///
    /// # Errors
    /// [`DropReason::IcmpMalformed`]: an option of length 0, one past the end, or too many.
    pub fn parse(bytes: &'a [u8], most: usize) -> Result<NdOptions<'a>, DropReason> {
        let mut rest = bytes;
        for _ in 0..most {
            let Some((_, behind)) = split(rest) else { break };
            rest = behind;
        }
        // If bytes are left, they are malformed, or there are too many options.
        if rest.is_empty() { Ok(NdOptions(bytes)) } else { Err(DropReason::IcmpMalformed) }
    }

    /// The options in their order.
    pub fn iter(&self) -> impl Iterator<Item = NdOption<'a>> {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            let (option, behind) = split(rest)?;
            rest = behind;
            Some(parse(option).unwrap_or(NdOption::Other))
        })
    }

    /// The link-layer address option of kind `wanted`; the last one if repeated.
    pub(super) fn link_addr(&self, wanted: u8) -> Option<MacAddr> {
        let address = |option| match option {
            NdOption::SourceLinkAddr(mac) if wanted == SOURCE_LINK_ADDR => Some(mac),
            NdOption::TargetLinkAddr(mac) if wanted == TARGET_LINK_ADDR => Some(mac),
            _ => None,
        };
        self.iter().filter_map(address).last()
    }
}

/// The first option, and the bytes that follow it. `None` at the end, or if the option's length is
/// invalid.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = usize::from(*bytes.get(1)?) * 8;
    if len == 0 { None } else { bytes.split_at_checked(len) }
}

/// Parse an option. `option` has at least 8 bytes, and a multiple of 8.
fn parse(option: &[u8]) -> Option<NdOption<'_>> {
    let head = option.first_chunk::<8>()?;
    let is_short = option.len() == 8;
    Some(match head[0] {
        SOURCE_LINK_ADDR if is_short => NdOption::SourceLinkAddr(MacAddr(array(head, 2))),
        TARGET_LINK_ADDR if is_short => NdOption::TargetLinkAddr(MacAddr(array(head, 2))),
        MTU if is_short => NdOption::Mtu(be32(head, 4)),
        NONCE if is_short => NdOption::Nonce(array(head, 2)),
        PREFIX => prefix(option.try_into().ok()?)?,
        ROUTE => route(option, head)?,
        RDNSS if option.len() > 8 && option.len() % 16 == 8 => {
            NdOption::Rdnss { lifetime_s: be32(head, 4), servers: &option[8..] }
        }
        DNSSL if !is_short => {
            NdOption::Dnssl { lifetime_s: be32(head, 4), domains: Domains(&option[8..]) }
        }
        _ => return None,
    })
}

fn prefix(b: &[u8; 32]) -> Option<NdOption<'static>> {
    let (prefix_len, flags) = (b[2], b[3]);
    (prefix_len <= 128).then(|| {
        NdOption::Prefix(Prefix {
            prefix: Ipv6Addr::from(array::<_, 16>(b, 16)),
            prefix_len,
            on_link: flags & 0x80 != 0,
            autonomous: flags & 0x40 != 0,
            valid_s: be32(b, 4),
            preferred_s: be32(b, 8),
        })
    })
}

/// Parse a route option. Its prefix field has 0, 8 or 16 bytes, and at least as many as the prefix
/// length needs.
fn route<'a>(option: &[u8], head: &[u8; 8]) -> Option<NdOption<'a>> {
    let (prefix_len, field) = (head[2], option.get(8..)?);
    if prefix_len > 128 || field.len() > 16 || usize::from(prefix_len) > field.len() * 8 {
        return None;
    }
    let mut octets = [0; 16];
    octets.get_mut(..field.len())?.copy_from_slice(field);
    // RFC 4191 section 2.3: a route with the reserved preference is ignored.
    let preference = Preference::of_bits(head[3] >> 3)?;
    let lifetime_s = be32(head, 4);
    Some(NdOption::Route { prefix: Ipv6Addr::from(octets), prefix_len, preference, lifetime_s })
}

/// Names as RFC 1035 section 3.1 writes them, without compression, padded with zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Domains<'a>(&'a [u8]);

/// Bytes of the longest label, RFC 1035 section 2.3.4.
const LABEL_MAX: usize = 63;
/// Bytes of the longest name as text, without the dot at its end.
const NAME_MAX: usize = 253;

impl<'a> Domains<'a> {
    /// The names as text, in lower case; a name that no host can have ends the list.
    pub fn iter(&self) -> impl Iterator<Item = String> {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            let (name, behind) = domain(rest)?;
            rest = behind;
            Some(name)
        })
    }
}

fn domain(mut bytes: &[u8]) -> Option<(String, &[u8])> {
    let mut name = String::new();
    loop {
        let (&len, behind) = bytes.split_first()?;
        let len = usize::from(len);
        if len == 0 {
            return (!name.is_empty()).then_some((name, behind));
        }
        let (label, behind) = behind.split_at_checked(len)?;
        let is_good = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
        if len > LABEL_MAX || !label.iter().all(is_good) || name.len() + 1 + len > NAME_MAX {
            return None;
        }
        if !name.is_empty() {
            name.push('.');
        }
        name.extend(label.iter().map(|b| char::from(b.to_ascii_lowercase())));
        bytes = behind;
    }
}
