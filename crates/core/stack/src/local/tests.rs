//! Broadcast addresses of a port, and addresses that a sender may have.

use super::*;

fn of(addresses: &[&str]) -> LocalAddrs {
    let parsed: Vec<Cidr> = addresses.iter().map(|a| a.parse().expect("a network")).collect();
    LocalAddrs::new(parsed.into_iter())
}

fn ip(addr: &str) -> IpAddr {
    addr.parse().expect("an address")
}

#[test]
fn broadcasts_are_those_of_networks_that_have_one() {
    let ours = of(&["fe80::1/64", "192.0.2.130/25"]);
    for (addr, expected) in [
        ("192.0.2.255", true),
        ("192.0.2.128", true),
        ("192.0.2.130", false),
        ("192.0.2.0", false),
        ("192.0.2.127", false),
        ("255.255.255.255", true),
        ("224.0.0.1", true),
        ("ff02::1", true),
        ("fe80::1", false),
    ] {
        assert_eq!(ours.is_group(ip(addr)), expected, "{addr}");
    }
    for narrow in ["192.0.2.130/31", "192.0.2.130/32"] {
        for addr in ["192.0.2.130", "192.0.2.131", "192.0.2.255"] {
            assert!(!of(&[narrow]).is_group(ip(addr)), "{addr} in {narrow}");
        }
    }
    let all = of(&["1.2.3.4/0"]);
    assert!(all.is_group(ip("0.0.0.0")) && !all.is_group(ip("9.9.9.9")));
}

/// RFC 4291 2.5.2-a, 2.5.3-a, 2.7-a.
#[test]
fn a_sender_is_another_host() {
    let ours = of(&["192.0.2.130/25", "192.0.2.1/32", "2001:db8::1/64"]);
    for us in ["192.0.2.130", "192.0.2.1", "2001:db8::1"] {
        assert!(ours.is_ours(ip(us)) && !ours.may_send(ip(us)), "{us}");
    }
    for other in ["192.0.2.131", "192.0.2.2", "240.0.0.1", "9.9.9.9", "2001:db8::2", "fe80::1"] {
        assert!(!ours.is_ours(ip(other)) && ours.may_send(ip(other)), "{other}");
    }
    for nobody in
        ["192.0.2.255", "224.0.0.1", "127.0.0.1", "0.0.0.0", "255.255.255.255", "::", "::1"]
    {
        assert!(!ours.may_send(ip(nobody)), "{nobody}");
    }
}

fn v4(addr: &str) -> Ipv4Addr {
    addr.parse().expect("an address")
}

/// RFC 1122 3.3.6-a.
#[test]
fn both_forms_are_broadcasts_whichever_is_set() {
    let mut ours = of(&["10.1.2.3/24"]);
    assert_eq!(
        ours.broadcast(v4("10.1.2.3")),
        Some(v4("10.1.2.255")),
        "the default is not the form of ones"
    );
    for to in ["10.1.2.0", "10.1.255.255", "10.255.255.255", "10.0.0.0", "255.255.255.255"] {
        assert!(ours.set_broadcast(v4("10.1.2.3"), v4(to)), "{to}");
        assert_eq!(ours.broadcast(v4("10.1.2.3")), Some(v4(to)));
        for addr in [to, "10.1.2.0", "10.1.2.255", "255.255.255.255", "0.0.0.0"] {
            assert!(ours.is_group(ip(addr)) && !ours.may_send(ip(addr)), "{addr} beside {to}");
        }
        assert!(!ours.is_group(ip("10.1.2.4")) && ours.is_ours(ip("10.1.2.3")));
    }
    for to in ["10.1.2.3", "10.1.2.127", "10.1.5.255", "11.255.255.255", "192.0.2.255"] {
        assert!(!ours.set_broadcast(v4("10.1.2.3"), v4(to)), "{to}");
    }
    assert!(
        !ours.set_broadcast(v4("10.1.2.4"), v4("10.1.2.0")),
        "a broadcast address was set for an address that is not ours"
    );
    let mut narrow = of(&["10.1.2.3/32"]);
    assert!(!narrow.set_broadcast(v4("10.1.2.3"), v4("10.1.2.255")));
    assert_eq!(narrow.broadcast(v4("10.1.2.3")), None);
}

#[test]
fn another_form_than_ours_is_told_from_ours() {
    use BroadcastForm::{Ones, OtherNetwork, Zeros};
    let mut ours = of(&["10.1.2.3/24"]);
    for (dst, form) in [
        ("10.1.2.255", None),
        ("255.255.255.255", None),
        ("10.1.2.0", Some(Zeros)),
        ("0.0.0.0", Some(Zeros)),
        ("10.1.255.255", Some(OtherNetwork)),
        ("10.1.2.127", Some(OtherNetwork)),
        ("10.1.2.3", Some(OtherNetwork)),
    ] {
        assert_eq!(ours.other_form(v4(dst)), form, "{dst}");
    }
    assert!(ours.set_broadcast(v4("10.1.2.3"), v4("10.1.2.0")));
    assert_eq!(ours.other_form(v4("10.1.2.0")), None);
    assert_eq!(ours.other_form(v4("10.1.2.255")), Some(Ones));
}
