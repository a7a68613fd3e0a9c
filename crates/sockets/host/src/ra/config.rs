//! The settings of a router that advertises itself, and what makes them unusable.
//!
//! Called by: programs, and `ra.rs`. RFC 4861 section 6.2.1 (the variables and their ranges), RFC
//! 8319 (router lifetimes of up to 65,535 s).

use core::fmt;
use core::net::{IpAddr, Ipv6Addr};

use base::{Cidr, Duration, MacAddr};
use wire::nd::Preference;

use crate::names;

/// Prefixes, servers and domains of one advertisement: it fits the IPv6 minimum MTU.
const ENTRIES_MAX: usize = 8;
/// Bytes of all search domains together.
const SEARCH_BYTES_MAX: usize = 512;
const LIFETIME_MAX: Duration = Duration::from_secs(65_535);
/// The smallest MTU of IPv6 (RFC 8200 section 5).
const MTU_MIN: u32 = 1_280;

/// When advertisements to all hosts are sent that nobody asked for, after the first three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interval {
    /// Never: hosts that come later ask.
    Never,
    /// After a random time between these two; 3 s or more, and at most 65,535 s.
    Between {
        /// The shortest; at most three quarters of the longest.
        min: Duration,
        /// The longest, 4 s or more.
        max: Duration,
    },
}

/// A prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The network; host bits are not sent.
    pub network: Ipv6Addr,
    /// 0 to 128; hosts make addresses from a prefix of 64.
    pub prefix_len: u8,
    /// Addresses of the prefix are on the link (L).
    pub on_link: bool,
    /// Hosts may make addresses from it (A).
    pub autonomous: bool,
    /// How long it is valid; `None`: for ever.
    pub valid: Option<Duration>,
    /// How long addresses made from it are preferred, not longer than it is valid; `None`: for
    /// ever.
    pub preferred: Option<Duration>,
}

impl Prefix {
    /// A network on the link for addresses of hosts, for ever.
    pub const fn new(network: Ipv6Addr, prefix_len: u8) -> Prefix {
        let (on_link, autonomous) = (true, true);
        Prefix { network, prefix_len, on_link, autonomous, valid: None, preferred: None }
    }
}

/// The settings of a [`crate::ra::Router`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The router's link-local address on the port.
    pub source: Ipv6Addr,
    /// The port's link address, so that hosts need not ask for it.
    pub hardware: Option<MacAddr>,
    /// The hop limit for packets of hosts; 0: not said.
    pub hop_limit: u8,
    /// Addresses are available by DHCPv6 (M).
    pub managed: bool,
    /// Other settings are available by DHCPv6 (O).
    pub other: bool,
    /// For how long after an advertisement the router is a default router; zero: it is none. At
    /// most 65,535 s.
    pub router_lifetime: Duration,
    /// Its preference as a default router.
    pub preference: Preference,
    /// Networks, 8 at most.
    pub prefixes: Vec<Prefix>,
    /// The MTU of the link in bytes, 1,280 or more; `None`: not said.
    pub mtu: Option<u32>,
    /// Name servers, 8 at most.
    pub dns_servers: Vec<Ipv6Addr>,
    /// Domains to search, 8 at most.
    pub search: Vec<String>,
    /// How long name servers and domains are used after an advertisement; `None`: for ever.
    pub dns_lifetime: Option<Duration>,
    /// When to advertise to all hosts unasked.
    pub interval: Interval,
}

impl Config {
    /// A default router with one network, which is valid for ever; after the first advertisements
    /// it answers only.
    pub fn new(source: Ipv6Addr, hardware: MacAddr, prefix: Prefix) -> Config {
        Config {
            source,
            hardware: Some(hardware),
            hop_limit: 64,
            managed: false,
            other: false,
            router_lifetime: LIFETIME_MAX,
            preference: Preference::Medium,
            prefixes: vec![prefix],
            mtu: None,
            dns_servers: Vec::new(),
            search: Vec::new(),
            dns_lifetime: None,
            interval: Interval::Never,
        }
    }

    /// The search domains in wire format.
    pub(super) fn check(&self) -> Result<Vec<u8>, ConfigError> {
        if !self.source.is_unicast_link_local() {
            return Err(ConfigError::Source);
        }
        if self.router_lifetime > LIFETIME_MAX {
            return Err(ConfigError::Lifetime);
        }
        if self.mtu.is_some_and(|mtu| mtu < MTU_MIN) {
            return Err(ConfigError::Mtu);
        }
        let lists = [self.prefixes.len(), self.dns_servers.len(), self.search.len()];
        if lists.iter().any(|&entries| entries > ENTRIES_MAX) {
            return Err(ConfigError::List);
        }
        if let Interval::Between { min, max } = self.interval {
            let second = Duration::from_secs(1);
            let is_in_range = max >= second.saturating_mul(4) && max <= LIFETIME_MAX;
            let is_ordered =
                min >= second.saturating_mul(3) && min.as_millis() <= max.as_millis() / 4 * 3;
            if !is_in_range || !is_ordered {
                return Err(ConfigError::Interval);
            }
        }
        self.prefixes.iter().try_for_each(check_prefix)?;
        let mut search = Vec::new();
        for name in &self.search {
            let wire = names::to_wire(name);
            search.extend(wire.ok_or_else(|| ConfigError::Name(name.clone()))?);
        }
        if search.len() > SEARCH_BYTES_MAX { Err(ConfigError::List) } else { Ok(search) }
    }
}

fn check_prefix(prefix: &Prefix) -> Result<(), ConfigError> {
    let ever = Duration::MAX;
    let is_ordered = prefix.preferred.unwrap_or(ever) <= prefix.valid.unwrap_or(ever);
    let network = Cidr::new(IpAddr::V6(prefix.network), prefix.prefix_len);
    // RFC 4861 6.2.3-b: the link-local prefix is not advertised.
    let is_link_local = prefix.network.is_unicast_link_local() || prefix.network.is_multicast();
    match network {
        Some(_) if is_ordered && !is_link_local => Ok(()),
        _ => Err(ConfigError::Prefix(prefix.network)),
    }
}

/// A [`Config`] that a router cannot use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The source is not link-local.
    Source,
    /// The router lifetime is too long.
    Lifetime,
    /// The MTU is below that of IPv6.
    Mtu,
    /// Too many entries.
    List,
    /// The interval.
    Interval,
    /// A prefix, by its network.
    Prefix(Ipv6Addr),
    /// A name of a domain.
    Name(String),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Source => f.write_str(
                "a router advertises itself from its link-local address: give one of fe80::/10",
            ),
            ConfigError::Lifetime => f.write_str("the router lifetime is 65535 s at most"),
            ConfigError::Mtu => f.write_str("the MTU of a link with IPv6 is 1280 bytes or more"),
            ConfigError::List => write!(
                f,
                "an advertisement has room for {ENTRIES_MAX} prefixes, servers and domains each, \
                 and for {SEARCH_BYTES_MAX} bytes of domains: give fewer"
            ),
            ConfigError::Interval => f.write_str(
                "the longest interval is 4 s to 65535 s, the shortest 3 s to three quarters of it",
            ),
            ConfigError::Prefix(network) => write!(
                f,
                "{network} cannot be advertised: a prefix is neither link-local nor multicast, \
                 has a length of up to 128, and is not preferred for longer than it is valid"
            ),
            ConfigError::Name(name) => write!(
                f,
                "'{}' is no domain: write letters, digits, hyphens and dots",
                name.escape_debug()
            ),
        }
    }
}

impl core::error::Error for ConfigError {}
