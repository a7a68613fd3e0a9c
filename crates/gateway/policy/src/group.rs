//! Groups of addresses with names, the host's own addresses, and IPv4 addresses inside of IPv6
//! ones.
//!
//! Called by: `text`, `compiled`, `resolving`. RFC 6890 and its registries, by way of the sets that
//! are built into the filter; RFC 4291 section 2.5.5 (mapped and compatible addresses), RFC 3056
//! (6to4), RFC 4380 (Teredo), RFC 6052 and 8215 (NAT64). The addresses of metadata services are
//! those that the documents of their operators name.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::Cidr;
use filter::Set;
use filter::sets::BUILT_IN;

/// A group of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Every address.
    Any,
    /// Addresses of the Internet: none of the other groups, and no special purpose.
    Public,
    /// Private addresses and unique local ones.
    Private,
    /// Addresses of one link.
    LinkLocal,
    /// Addresses at which machines of a cloud get their keys.
    Metadata,
    /// The host: all its addresses, loopback, and those that stand for it.
    Host,
    /// Loopback addresses. To allow one takes `host`.
    Loopback,
    /// Multicast groups.
    Multicast,
}

/// The words in rules.
pub const GROUPS: [(&str, Group); 8] = [
    ("any", Group::Any),
    ("public", Group::Public),
    ("private", Group::Private),
    ("link-local", Group::LinkLocal),
    ("metadata", Group::Metadata),
    ("host", Group::Host),
    ("loopback", Group::Loopback),
    ("multicast", Group::Multicast),
];

/// Services of clouds that give keys and user data to whoever asks.
const METADATA: &[&str] = &[
    // EC2, Google, Azure, Oracle, DigitalOcean, Hetzner, OpenStack and others.
    "169.254.169.254",
    "fd00:ec2::254",
    "fd20:ce::254",
    "fd00:c1::a9fe:a9fe",
    "fe80::a9fe:a9fe",
    // Keys of containers (ECS) and of pods (EKS).
    "169.254.170.2",
    "169.254.170.23",
    "fd00:ec2::23",
    // Azure's wire server, Alibaba, Oracle's classic cloud, Tencent, Scaleway.
    "168.63.129.16",
    "100.100.100.200",
    "192.0.0.192",
    "169.254.0.23",
    "169.254.42.42",
    "fd00:42::42",
];

/// Loopback, and the unspecified addresses: a connect to them reaches the host itself (Linux).
const LOOPBACK: &[&str] = &["127.0.0.0/8", "0.0.0.0/32", "::1/128", "::/128"];

/// Prefixes of IPv6 addresses that have an IPv4 address inside.
const TRANSITION: &[&str] = &["::/96", "64:ff9b::/96", "64:ff9b:1::/48", "2001::/32", "2002::/16"];

/// The addresses of the host, as far as rules care.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostAddresses {
    /// All addresses of its interfaces.
    pub own: Vec<IpAddr>,
    /// Addresses of the guest's network that lead to the host's loopback addresses.
    pub stand_ins: Vec<IpAddr>,
}

impl Group {
    /// The word in rules.
    pub fn name(self) -> &'static str {
        GROUPS.iter().find(|(_, group)| *group == self).map_or("", |(name, _)| name)
    }

    /// The addresses of the group.
    pub fn set(self, host: &HostAddresses) -> Set {
        let built_in = |name: &str| {
            let set = BUILT_IN.iter().find(|set| set.name == name);
            set_of(set.map_or(&[][..], |set| set.networks))
        };
        match self {
            Group::Any => set_of(&["0.0.0.0/0", "::/0"]),
            Group::Public => {
                let others = [built_in("bogons"), set_of(TRANSITION), set_of(METADATA)];
                let others = others.iter().fold(Group::Host.set(host), |all, one| all.joined(one));
                minus(&Group::Any.set(host), &others)
            }
            Group::Private => built_in("private"),
            Group::LinkLocal => built_in("link-local"),
            Group::Metadata => set_of(METADATA),
            Group::Host => Group::Loopback.set(host).with(&hosts(&host.own)),
            Group::Loopback => set_of(LOOPBACK).with(&hosts(&host.stand_ins)),
            Group::Multicast => built_in("multicast"),
        }
    }
}

/// The addresses that have an IPv4 address inside.
pub(crate) fn transition() -> Set {
    set_of(TRANSITION)
}

fn hosts(addresses: &[IpAddr]) -> Vec<Cidr> {
    addresses.iter().map(|address| Cidr::host(address.to_canonical())).collect()
}

fn set_of(networks: &[&str]) -> Set {
    let read = |text: &&str| filter::text::parts::network(text).ok();
    Set::new("", &networks.iter().filter_map(read).collect::<Vec<Cidr>>())
}

/// The set without the addresses of another one.
pub(crate) fn minus(set: &Set, without: &Set) -> Set {
    Set {
        name: set.name.clone(),
        v4: cut(&set.v4, &without.v4, |key| key.checked_sub(1), |key| key.checked_add(1)),
        v6: cut(&set.v6, &without.v6, |key| key.checked_sub(1), |key| key.checked_add(1)),
    }
}

/// Sorted ranges without those of another list, which is sorted too.
fn cut<K: Ord + Copy>(
    ranges: &[(K, K)],
    holes: &[(K, K)],
    before: impl Fn(K) -> Option<K>,
    after: impl Fn(K) -> Option<K>,
) -> Vec<(K, K)> {
    let mut left = Vec::with_capacity(ranges.len());
    for &(first, last) in ranges {
        let mut from = Some(first);
        let begin = holes.partition_point(|&(_, end)| end < first);
        for &(hole, end) in holes[begin..].iter().take_while(|(hole, _)| *hole <= last) {
            let Some(first) = from else { break };
            if first < hole
                && let Some(end) = before(hole)
            {
                left.push((first, end));
            }
            from = after(end);
        }
        if let Some(first) = from.filter(|&first| first <= last) {
            left.push((first, last));
        }
    }
    left
}

/// The IPv4 address inside of an IPv6 address by which an IPv4 host is reached.
pub fn inner(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(v6) = address else { return None };
    let last = |bits: u128| Ipv4Addr::from_bits(bits as u32);
    let bits = v6.to_bits();
    match v6.segments() {
        [0x2002, a, b, ..] => Some(Ipv4Addr::from_bits(u32::from(a) << 16 | u32::from(b))),
        // The client's address is written with all bits inverted (RFC 4380 section 4).
        [0x2001, 0, ..] => Some(last(!bits)),
        [0x64, 0xff9b, 0, 0, 0, 0, ..] | [0x64, 0xff9b, 1, ..] => Some(last(bits)),
        [0, 0, 0, 0, 0, 0, ..] if v6 != Ipv6Addr::LOCALHOST && !v6.is_unspecified() => {
            Some(last(bits))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect(text)
    }

    #[test]
    fn groups_have_their_addresses() {
        let host = HostAddresses { own: vec![ip("203.0.114.9")], stand_ins: vec![ip("10.0.2.2")] };
        for (address, groups) in [
            ("8.8.8.8", "any public"),
            ("2606:4700::1", "any public"),
            ("10.1.2.3", "any private"),
            ("fd12::1", "any private"),
            ("100.64.0.1", "any"),
            ("169.254.169.254", "any link-local metadata"),
            ("168.63.129.16", "any metadata"),
            ("fd00:ec2::254", "any private metadata"),
            ("203.0.114.9", "any host"),
            ("10.0.2.2", "any private host loopback"),
            ("127.9.9.9", "any host loopback"),
            ("0.0.0.0", "any host loopback"),
            ("::", "any host loopback"),
            ("::1", "any host loopback"),
            ("224.0.0.251", "any multicast"),
            ("ff02::1", "any multicast"),
            ("255.255.255.255", "any"),
            ("64:ff9b::808:808", "any"),
            ("2002:808:808::1", "any"),
        ] {
            let has = |group: Group| group.set(&host).contains(ip(address));
            let found: Vec<&str> =
                GROUPS.iter().filter(|(_, group)| has(*group)).map(|(name, _)| *name).collect();
            assert_eq!(found.join(" "), groups, "{address}");
        }
    }

    #[test]
    fn ipv4_addresses_inside_are_found() {
        for (address, inside) in [
            ("64:ff9b::7f00:1", Some("127.0.0.1")),
            ("64:ff9b:1:2::a00:5", Some("10.0.0.5")),
            ("2002:a9fe:a9fe::1", Some("169.254.169.254")),
            ("2001:0:1::f5ff:fffa", Some("10.0.0.5")),
            ("::a00:5", Some("10.0.0.5")),
            ("::1", None),
            ("::", None),
            ("2001:db8::a00:5", None),
            ("10.0.0.5", None),
        ] {
            let inside = inside.map(|text| text.parse().expect(text));
            assert_eq!(inner(ip(address)), inside, "{address}");
            assert_eq!(
                transition().contains(ip(address)),
                inside.is_some() || address == "::1" || address == "::"
            );
        }
    }

    #[test]
    fn ranges_are_cut() {
        let all = |ranges: &[(u32, u32)], holes: &[(u32, u32)]| {
            cut(ranges, holes, |key| key.checked_sub(1), |key| key.checked_add(1))
        };
        assert_eq!(all(&[(0, u32::MAX)], &[(0, 4), (9, 9), (20, u32::MAX)]), [(5, 8), (10, 19)]);
        assert_eq!(all(&[(5, 6), (8, 9)], &[(0, 5), (7, 8)]), [(6, 6), (9, 9)]);
        assert_eq!(all(&[(5, 6)], &[(0, 10)]), []);
        assert_eq!(all(&[(5, 6)], &[(7, 10)]), [(5, 6)]);
    }
}
