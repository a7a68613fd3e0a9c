//! Writes router advertisements, option by option.
//!
//! Called by: `host::ra`. RFC 4861 sections 4.2 and 4.6, RFC 4191 section 2.2, RFC 8106 section 5.
//! A router sends a few of them in an hour, so they are made in a vector.

use base::MacAddr;
use core::net::Ipv6Addr;

use super::option::{DNSSL, MTU, PREFIX, RDNSS};
use super::{Preference, Prefix, ROUTER_ADVERTISEMENT, SOURCE_LINK_ADDR, set_checksum};

/// Bytes of the longest option.
const OPTION_MAX: usize = 255 * 8;

/// A router advertisement in the making.
#[derive(Clone, Debug)]
pub struct AdvertisementWriter {
    bytes: Vec<u8>,
}

impl AdvertisementWriter {
    /// The fields in front of the options: the hop limit for hosts (0: not said), the flags M and
    /// O, the preference and lifetime as a default router, in seconds. The times for reachability
    /// are left to hosts.
    pub fn new(
        hop_limit: u8,
        managed: bool,
        other: bool,
        preference: Preference,
        lifetime_s: u16,
    ) -> AdvertisementWriter {
        let flag = |set, bit| if set { bit } else { 0 };
        let flags = flag(managed, 0x80) | flag(other, 0x40) | preference.bits() << 3;
        let mut bytes = vec![ROUTER_ADVERTISEMENT, 0, 0, 0, hop_limit, flags];
        bytes.extend(lifetime_s.to_be_bytes());
        bytes.extend([0; 8]);
        AdvertisementWriter { bytes }
    }

    /// The sender's link address.
    pub fn source_link_addr(&mut self, address: MacAddr) {
        self.bytes.extend([SOURCE_LINK_ADDR, 1]);
        self.bytes.extend(address.0);
    }

    /// A prefix; bits behind its length are cleared.
    pub fn prefix(&mut self, prefix: &Prefix) {
        let flag = |set, bit| if set { bit } else { 0 };
        let flags = flag(prefix.on_link, 0x80) | flag(prefix.autonomous, 0x40);
        let len = prefix.prefix_len.min(128);
        let mask = u128::MAX.checked_shl(u32::from(128 - len)).unwrap_or(0);
        self.bytes.extend([PREFIX, 4, len, flags]);
        self.bytes.extend(prefix.valid_s.to_be_bytes());
        self.bytes.extend(prefix.preferred_s.to_be_bytes());
        self.bytes.extend([0; 4]);
        self.bytes.extend((prefix.prefix.to_bits() & mask).to_be_bytes());
    }

    /// The MTU of the link in bytes.
    pub fn mtu(&mut self, bytes: u32) {
        self.bytes.extend([MTU, 1, 0, 0]);
        self.bytes.extend(bytes.to_be_bytes());
    }

    /// Recursive name servers, with their lifetime in seconds; nothing if there are none, or more
    /// than fit into an option (127).
    pub fn name_servers(&mut self, servers: &[Ipv6Addr], lifetime_s: u32) {
        let value: Vec<u8> = servers.iter().flat_map(Ipv6Addr::octets).collect();
        self.names(RDNSS, &value, lifetime_s);
    }

    /// Search domains in wire format (RFC 1035 section 3.1), one behind the other, with their
    /// lifetime in seconds; nothing if there are none, or more than fit into an option.
    pub fn search_domains(&mut self, domains: &[u8], lifetime_s: u32) {
        self.names(DNSSL, domains, lifetime_s);
    }

    fn names(&mut self, kind: u8, value: &[u8], lifetime_s: u32) {
        let len = (8 + value.len()).next_multiple_of(8);
        if value.is_empty() || len > OPTION_MAX {
            return;
        }
        self.bytes.extend([kind, (len / 8) as u8, 0, 0]);
        self.bytes.extend(lifetime_s.to_be_bytes());
        self.bytes.extend(value);
        self.bytes.resize(self.bytes.len() + len - 8 - value.len(), 0);
    }

    /// The ICMPv6 message with its checksum.
    pub fn finish(mut self, src: Ipv6Addr, dst: Ipv6Addr) -> Vec<u8> {
        set_checksum(&mut self.bytes, src, dst);
        self.bytes
    }
}
