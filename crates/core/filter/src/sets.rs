//! Sets of networks: ranges that do not touch, in order; and the sets that are built in.
//!
//! Called by: `text`, which reads them; `program`, where a set is one bit of a rule however long it
//! is; the plain list, which searches the ranges. RFC 6890 and the registries that it founded, RFC
//! 1918, 4193, 3927, 5771, 5737, 3849.

use core::net::IpAddr;

use base::Cidr;

/// Networks under one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    /// Its name, without `@`.
    pub name: String,
    /// IPv4 addresses: first and last of each range, in order; ranges do not touch.
    pub v4: Vec<(u32, u32)>,
    /// The same of IPv6.
    pub v6: Vec<(u128, u128)>,
}

impl Set {
    /// A set of these networks, which may overlap.
    #[must_use]
    pub fn new(name: &str, networks: &[Cidr]) -> Set {
        let mut set = Set { name: name.to_owned(), ..Set::default() };
        for network in networks {
            match range(network) {
                Range::V4(first, last) => set.v4.push((first, last)),
                Range::V6(first, last) => set.v6.push((first, last)),
            }
        }
        join(&mut set.v4, |last| last.checked_add(1));
        join(&mut set.v6, |last| last.checked_add(1));
        set
    }

    /// This set with more networks.
    #[must_use]
    pub fn with(&self, networks: &[Cidr]) -> Set {
        self.joined(&Set::new(&self.name, networks))
    }

    /// This set with the networks of another one.
    #[must_use]
    pub fn joined(&self, other: &Set) -> Set {
        let mut set = self.clone();
        set.v4.extend(&other.v4);
        set.v6.extend(&other.v6);
        join(&mut set.v4, |last| last.checked_add(1));
        join(&mut set.v6, |last| last.checked_add(1));
        set
    }

    /// Is `addr` in one of the networks?
    #[must_use]
    #[inline]
    pub fn contains(&self, addr: IpAddr) -> bool {
        match addr {
            IpAddr::V4(a) => within(&self.v4, a.to_bits()),
            IpAddr::V6(a) => within(&self.v6, a.to_bits()),
        }
    }
}

fn within<K: Ord + Copy>(ranges: &[(K, K)], key: K) -> bool {
    let behind = ranges.partition_point(|&(first, _)| first <= key);
    behind.checked_sub(1).and_then(|at| ranges.get(at)).is_some_and(|&(_, last)| key <= last)
}

/// Sort ranges, and join those that overlap or touch; `after` is the key behind another one.
pub(crate) fn join<K: Ord + Copy>(ranges: &mut Vec<(K, K)>, after: fn(K) -> Option<K>) {
    ranges.sort_unstable();
    let mut kept: usize = 0;
    for at in 0..ranges.len() {
        let next = ranges[at];
        match kept.checked_sub(1).and_then(|before| ranges.get_mut(before)) {
            Some(before) if after(before.1).is_none_or(|behind| next.0 <= behind) => {
                before.1 = before.1.max(next.1);
            }
            _ => {
                ranges[kept] = next;
                kept += 1;
            }
        }
    }
    ranges.truncate(kept);
    ranges.shrink_to_fit();
}

/// The first and the last address of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Range {
    V4(u32, u32),
    V6(u128, u128),
}

pub(crate) fn range(network: &Cidr) -> Range {
    let len = u32::from(network.prefix_len);
    match network.network().addr {
        IpAddr::V4(a) => {
            let hosts = u32::MAX.checked_shr(len).unwrap_or(0);
            Range::V4(a.to_bits(), a.to_bits() | hosts)
        }
        IpAddr::V6(a) => {
            let hosts = u128::MAX.checked_shr(len).unwrap_or(0);
            Range::V6(a.to_bits(), a.to_bits() | hosts)
        }
    }
}

/// A set that every configuration has.
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    /// Its name, without `@`.
    pub name: &'static str,
    /// What it is, for people.
    pub meaning: &'static str,
    /// Its networks, as text.
    pub networks: &'static [&'static str],
}

/// The built-in sets.
pub const BUILT_IN: &[BuiltIn] = &[
    BuiltIn {
        name: "private",
        meaning: "private addresses (RFC 1918), unique local addresses (RFC 4193)",
        networks: &["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"],
    },
    BuiltIn {
        name: "link-local",
        meaning: "addresses of one link (RFC 3927, RFC 4291)",
        networks: &["169.254.0.0/16", "fe80::/10"],
    },
    BuiltIn {
        name: "loopback",
        meaning: "addresses inside a host (RFC 1122, RFC 4291)",
        networks: &["127.0.0.0/8", "::1/128"],
    },
    BuiltIn {
        name: "multicast",
        meaning: "groups (RFC 5771, RFC 4291)",
        networks: &["224.0.0.0/4", "ff00::/8"],
    },
    BuiltIn {
        name: "documentation",
        meaning: "addresses for examples (RFC 5737, 3849, 9637)",
        networks: &[
            "192.0.2.0/24",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "2001:db8::/32",
            "3fff::/20",
        ],
    },
    BuiltIn {
        name: "special",
        meaning: "every special-purpose range of the registries of RFC 6890",
        networks: SPECIAL,
    },
    BuiltIn {
        name: "bogons",
        meaning: "sources that no packet from the Internet has: ranges that are not globally \
                  reachable, multicast, reserved",
        networks: BOGONS,
    },
];

/// The networks of `@private`.
pub(crate) fn private() -> impl Iterator<Item = Cidr> {
    let set = BUILT_IN.iter().find(|set| set.name == "private");
    let networks = set.map_or(&[][..], |set| set.networks);
    networks.iter().filter_map(|network| network.parse().ok())
}

/// IANA IPv4 and IPv6 Special-Purpose Address Registries (RFC 6890 section 2.2).
const SPECIAL: &[&str] = &[
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.31.196.0/24",
    "192.52.193.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "192.175.48.0/24",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "240.0.0.0/4",
    "255.255.255.255/32",
    "::/128",
    "::1/128",
    "::ffff:0:0/96",
    "64:ff9b::/96",
    "64:ff9b:1::/48",
    "100::/64",
    "100:0:0:1::/64",
    "2001::/23",
    "2001:db8::/32",
    "2002::/16",
    "2620:4f:8000::/48",
    "3fff::/20",
    "5f00::/16",
    "fc00::/7",
    "fe80::/10",
];

/// The ranges of `SPECIAL` that are not globally reachable, multicast, and what was withdrawn
/// (IPv4-compatible and site-local addresses, RFC 4291 sections 2.5.5.1 and 2.5.7).
const BOGONS: &[&str] = &[
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "::/96",
    "::ffff:0:0/96",
    "64:ff9b:1::/48",
    "100::/64",
    "100:0:0:1::/64",
    "2001:2::/48",
    "2001:10::/28",
    "2001:db8::/32",
    "3fff::/20",
    "5f00::/16",
    "fc00::/7",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
];
