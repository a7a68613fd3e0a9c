//! The examples of RFC 6724 section 10, and the choice of IPv4 sources.

use core::net::IpAddr;

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn address(text: &str) -> Address {
    Address::fixed(text.parse().expect("an address and a prefix length"))
}

fn chosen(addresses: &[Address], dst: &str) -> Option<IpAddr> {
    source(addresses.iter(), ip(dst), ip(dst))
}

/// Section 10.1, in both orders of the candidates.
/// RFC 6724 5-a, 5-b, 5-d, 5-f.
#[test]
fn the_sources_of_the_rfc() {
    for (dst, candidates, expected) in [
        ("2001:db8:1::1", ["2001:db8:3::1/64", "fe80::1/64"], "2001:db8:3::1"),
        ("ff05::1", ["2001:db8:3::1/64", "fe80::1/64"], "2001:db8:3::1"),
        ("2001:db8:1::1", ["2001:db8:1::1/64", "2001:db8:2::1/64"], "2001:db8:1::1"),
        ("fe80::1", ["fe80::2/64", "2001:db8:1::1/64"], "fe80::2"),
        ("2001:db8:1::1", ["2001:db8:1::2/64", "2001:db8:3::2/64"], "2001:db8:1::2"),
        (
            "2002:c633:6401::1",
            ["2002:c633:6401::d5e3:7953:13eb:22e8/64", "2001:db8:1::2/64"],
            "2002:c633:6401::d5e3:7953:13eb:22e8",
        ),
    ] {
        let both = candidates.map(address);
        assert_eq!(chosen(&both, dst), Some(ip(expected)), "{dst}");
        assert_eq!(chosen(&[both[1], both[0]], dst), Some(ip(expected)), "{dst}, other order");
    }
}

/// RFC 6724 5-c, 5-e.
#[test]
fn deprecated_addresses_come_last_and_temporary_ones_first() {
    let mut old = address("2001:db8:1::1/64");
    let new = address("2001:db8:9::1/64");
    old.state = AddressState::Deprecated;
    // The deprecated address loses although it has more bits in common with the destination.
    assert_eq!(chosen(&[old, new], "2001:db8:1::9"), Some(new.ip()));
    assert_eq!(chosen(&[old], "2001:db8:1::9"), Some(old.ip()));
    let mut temporary = address("2001:db8:5::7/64");
    temporary.origin = Origin::Temporary;
    let stable = address("2001:db8:1::2/64");
    assert_eq!(chosen(&[stable, temporary], "2001:db8:1::9"), Some(temporary.ip()));
}

#[test]
fn what_is_not_usable_is_not_chosen() {
    let mut only = address("2001:db8:1::1/64");
    for state in [AddressState::Tentative, AddressState::Duplicated] {
        only.state = state;
        assert_eq!(chosen(&[only], "2001:db8:1::9"), None);
    }
    assert_eq!(chosen(&[address("192.0.2.1/24")], "2001:db8::1"), None);
}

#[test]
fn an_ipv4_packet_is_from_the_network_of_its_next_hop() {
    let ours = ["192.0.2.1/24", "198.51.100.1/24"].map(address);
    let by = |hop: &str| source(ours.iter(), ip("203.0.113.9"), ip(hop));
    assert_eq!(by("198.51.100.254"), Some(ip("198.51.100.1")));
    assert_eq!(by("192.0.2.254"), Some(ip("192.0.2.1")));
    // The gateway is in no network of ours: the first address is used.
    assert_eq!(by("10.0.0.1"), Some(ip("192.0.2.1")));
}

/// Section 10.2.
/// RFC 6724 6-a, 6-b, 6-c.
#[test]
fn the_destinations_of_the_rfc() {
    let order = |mut pairs: Vec<(&str, Option<&str>)>| {
        let mut list: Vec<_> = pairs.drain(..).map(|(d, s)| (ip(d), s.map(ip))).collect();
        order_destinations(&mut list);
        list.first().map(|(dst, _)| *dst)
    };
    let v6 = ("2001:db8:1::1", Some("2001:db8:1::2"));
    assert_eq!(order(vec![("198.51.100.121", Some("169.254.13.78")), v6]), Some(ip(v6.0)));
    let v4 = ("198.51.100.121", Some("198.51.100.117"));
    assert_eq!(order(vec![("2001:db8:1::1", Some("fe80::1")), v4]), Some(ip(v4.0)));
    // A native IPv6 path is tried before IPv4 because of its precedence, IPv4 before 6to4 because
    // of its label.
    assert_eq!(order(vec![("10.1.2.3", Some("10.1.2.4")), v6]), Some(ip(v6.0)));
    let six_to_four = ("2002:c633:6401::1", Some("fe80::2"));
    assert_eq!(order(vec![six_to_four, v6]), Some(ip(v6.0)));
    // An address without a route comes last.
    assert_eq!(order(vec![("2001:db8:1::1", None), v4]), Some(ip(v4.0)));
    // The address with the smaller scope comes first.
    let near = ("fe80::1", Some("fe80::2"));
    assert_eq!(order(vec![v6, near]), Some(ip("fe80::1")));
    // The address with the longer common prefix comes first.
    let other = ("2001:db8:3ffe::1", Some("2001:db8:3f44::2"));
    let nearer = ("2001:db8:1::1", Some("2001:db8:1::2"));
    assert_eq!(order(vec![other, nearer]), Some(ip(nearer.0)));
}

#[test]
fn scopes() {
    for (addr, expected) in [
        ("ff01::1", Scope::InterfaceLocal),
        ("ff02::1", Scope::LinkLocal),
        ("ff05::1:3", Scope::SiteLocal),
        ("ff08::1", Scope::OrganizationLocal),
        ("ff0e::1", Scope::Global),
        ("fe80::1", Scope::LinkLocal),
        ("fec0::1", Scope::SiteLocal),
        ("fd00::1", Scope::Global),
        ("::1", Scope::LinkLocal),
        ("127.0.0.1", Scope::LinkLocal),
        ("169.254.3.4", Scope::LinkLocal),
        ("10.0.0.1", Scope::Global),
        ("::ffff:169.254.3.4", Scope::LinkLocal),
    ] {
        assert_eq!(scope(ip(addr)), expected, "{addr}");
    }
    assert!(is_link_scoped(ip("fe80::1")) && is_link_scoped(ip("ff02::1")));
    assert!(!is_link_scoped(ip("ff05::1")) && !is_link_scoped(ip("169.254.1.1")));
}
