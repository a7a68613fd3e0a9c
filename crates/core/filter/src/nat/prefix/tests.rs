//! The example of RFC 6296, and the properties that the translations have to have.

use proptest::prelude::*;

use super::*;

fn cidr(text: &str) -> Cidr {
    text.parse().expect("a network")
}

fn v6(text: &str) -> Ipv6Addr {
    text.parse().expect("an address")
}

#[test]
fn the_example_of_the_rfc() {
    // RFC 6296 3.1-b, 3.2-b, 3.3-a, 3.4-a, 3.4-b: the example of section 3.6.
    let prefix = Prefix::new(cidr("fd01:203:405::/48"), cidr("2001:db8:1::/48")).expect("a prefix");
    assert_eq!(prefix.adjustment, 0xd54f);
    let (internal, external) = (v6("fd01:203:405:1::1234"), v6("2001:db8:1:d550::1234"));
    assert_eq!(prefix.outbound(internal), Some(external));
    assert_eq!(prefix.inbound(external), Some(internal));
}

#[test]
fn a_sum_of_ffff_is_written_as_zero() {
    // RFC 6296 3.2-b, 3.3-a: a word has no 0xffff.
    let prefix = Prefix::new(cidr("fd01:203:405::/48"), cidr("2001:db8:1::/48")).expect("a prefix");
    let (internal, external) = (v6("fd01:203:405:2ab0::1"), v6("2001:db8:1::1"));
    assert_eq!(prefix.outbound(internal), Some(external));
    assert_eq!(prefix.inbound(external), Some(internal));
}

#[test]
fn longer_prefixes_change_the_interface_identifier() {
    // RFC 6296 3.5-a, 3.5-b: the first word that is not 0xffff.
    let prefix = Prefix::new(cidr("fd01:203:405::/56"), cidr("2001:db8:1::/56")).expect("a prefix");
    let pairs = [
        ("fd01:203:405:12:1::1234", "2001:db8:1:12:d550::1234"),
        ("fd01:203:405:12:ffff:1::1234", "2001:db8:1:12:ffff:d550::1234"),
        ("fd01:203:405:12:ffff:ffff:ffff:1", "2001:db8:1:12:ffff:ffff:ffff:d550"),
    ];
    for (internal, external) in pairs {
        assert_eq!(prefix.outbound(v6(internal)), Some(v6(external)));
        assert_eq!(prefix.inbound(v6(external)), Some(v6(internal)));
    }
    assert_eq!(prefix.outbound(v6("fd01:203:405:12:ffff:ffff:ffff:ffff")), None);
}

/// RFC 6296 3.1-a.
#[test]
fn a_shorter_prefix_is_continued_by_zeros() {
    let prefix = Prefix::new(cidr("fd01:203:405:1::/64"), cidr("2001:db8:1::/48"));
    let prefix = prefix.expect("a prefix");
    let (internal, external) = (v6("fd01:203:405:1:1::1234"), v6("2001:db8:1:0:d551::1234"));
    assert_eq!(prefix.outbound(internal), Some(external));
    assert_eq!(prefix.inbound(external), Some(internal));
    assert_eq!(prefix.inbound(v6("2001:db8:1:7:d551::1234")), None);
}

/// RFC 6296 3.2-a.
#[test]
fn subnet_ffff_has_no_external_address() {
    let prefix = Prefix::new(cidr("fd01:203:405::/48"), cidr("2001:db8:1::/48")).expect("a prefix");
    assert_eq!(prefix.outbound(v6("fd01:203:405:ffff::1")), None);
    assert_eq!(prefix.inbound(v6("2001:db8:1:ffff::1")), None);
    assert_eq!(prefix.outbound(v6("fd01:203:406:1::1")), None);
}

#[test]
fn impossible_exchanges_are_refused() {
    let (v4, v6) = (cidr("10.0.0.0/8"), cidr("fd00::/48"));
    assert_eq!(Prefix::new(v4, v6), Err(InvalidPrefix::Version));
    assert_eq!(Prefix::new(v6, cidr("2001:db8::/65")), Err(InvalidPrefix::TooLong));
    assert_eq!(OneToOne::new(v4, v6), Err(InvalidPrefix::Version));
    assert_eq!(OneToOne::new(v4, cidr("192.0.2.0/24")), Err(InvalidPrefix::Lengths));
}

#[test]
fn one_to_one_translation_keeps_the_bits_behind_the_prefix() {
    let pairs = [
        ("10.1.2.0/24", "192.0.2.0/24", "10.1.2.77", "192.0.2.77"),
        ("10.1.2.3/32", "192.0.2.9/32", "10.1.2.3", "192.0.2.9"),
        ("0.0.0.0/0", "0.0.0.0/0", "10.1.2.3", "10.1.2.3"),
        ("fd00::/64", "2001:db8:0:1::/64", "fd00::7", "2001:db8:0:1::7"),
        ("::/0", "::/0", "fd00::7", "fd00::7"),
    ];
    for (inside, outside, addr, translated) in pairs {
        let both = OneToOne::new(cidr(inside), cidr(outside)).expect("an exchange");
        let [addr, translated] =
            [addr, translated].map(|text| text.parse::<IpAddr>().expect("an address"));
        assert_eq!(both.outbound(addr), Some(translated));
        assert_eq!(both.inbound(translated), Some(addr));
    }
    let both = OneToOne::new(cidr("10.1.2.0/24"), cidr("192.0.2.0/24")).expect("an exchange");
    assert_eq!(both.outbound("10.1.3.1".parse().expect("an address")), None);
    assert_eq!(both.outbound("fd00::1".parse().expect("an address")), None);
}

proptest! {
    #[test]
    fn the_sum_stays_and_the_way_back_leads_back(
        [internal, external, host] in any::<[u128; 3]>(),
        lens in (0..65_u8, 0..65_u8),
        noise in prop_oneof![Just(0_u128), Just(u128::MAX), Just(0xffff << 48), Just(0xffff << 64)],
    ) {
        let network = |bits: u128, prefix_len| {
 let addr = Ipv6Addr::from_bits(bits).into();
 Cidr { addr, prefix_len }
};
        let prefix =
            Prefix::new(network(internal, lens.0), network(external, lens.1)).expect("a prefix");
        let addr = Ipv6Addr::from_bits((host | noise) & !prefix.mask | prefix.internal);
        let Some(out) = prefix.outbound(addr) else { return Ok(()) };
        prop_assert_eq!(out.to_bits() & prefix.mask, prefix.external);
        let (before, after) = (sum(addr.to_bits()), sum(out.to_bits()));
        prop_assert_eq!(before % 0xffff, after % 0xffff);
        let back = prefix.inbound(out);
        prop_assert_eq!(back, Some(addr));
    }
}
