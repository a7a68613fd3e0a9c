//! Options of a device, and how they fit together.

use wirespeed::{LinkKind, Mtu};

use super::device::{Kind, Tags};
use super::*;

fn args(addr: &[&str], via: &[&str]) -> Args {
    Args {
        dev: Some(Dev { kind: Kind::Tap(LinkKind::Ethernet), name: "ws0".to_owned() }),
        addr: addr.iter().map(|a| a.parse().expect("a network, or auto")).collect(),
        vlan: None,
        neigh_mtu: Vec::new(),
        mitigation: None,
        via: via.iter().map(|a| a.parse().expect("an address")).collect(),
    }
}

#[test]
fn devices_have_a_kind_and_a_name() {
    let dev: Dev = "tap:ws0".parse().expect("a device");
    assert_eq!((dev.kind, dev.name.as_str()), (Kind::Tap(LinkKind::Ethernet), "ws0"));
    let dev: Dev = "tun:t1".parse().expect("a device");
    assert_eq!((dev.kind, dev.name.as_str()), (Kind::Tap(LinkKind::Ip), "t1"));
    let dev: Dev = "packet:eth0".parse().expect("a device");
    assert_eq!((dev.kind, dev.name.as_str()), (Kind::Packet, "eth0"));
    for bad in ["", "tap", "tap:", "eth:0", "ws0"] {
        assert!(bad.parse::<Dev>().is_err(), "{bad}");
    }
}

#[test]
fn a_neighbours_mtu_has_an_address_and_a_size() {
    let given: NeighbourMtu = "192.0.2.9=1500".parse().expect("both");
    assert_eq!((given.ip.to_string(), given.mtu), ("192.0.2.9".to_owned(), Mtu::ETHERNET));
    assert!("2001:db8::1=65535".parse::<NeighbourMtu>().is_ok());
    for bad in ["", "=", "192.0.2.9", "192.0.2.9=", "=1500", "x=1500", "192.0.2.9=67"] {
        assert!(bad.parse::<NeighbourMtu>().is_err(), "{bad}");
    }
    for bad in ["192.0.2.9=65536", "192.0.2.9=1500=1", "192.0.2.9=-1", "192.0.2.9=1500 "] {
        assert!(bad.parse::<NeighbourMtu>().is_err(), "{bad}");
    }
}

#[test]
fn a_vlan_is_one_number_or_two() {
    assert_eq!("5".parse(), Ok(Tags { outer: None, id: 5 }));
    assert_eq!("4094.1".parse(), Ok(Tags { outer: Some(4094), id: 1 }));
    for bad in ["", "0", "4095", "5.", ".5", "1.2.3", "x"] {
        assert!(bad.parse::<Tags>().is_err(), "{bad}");
    }
}

#[test]
fn a_host_is_not_ourselves_and_a_silent_one_may_lack_its_address() {
    let args = args(&["192.0.2.2/24"], &[]);
    let host = |text: &str| text.parse::<IpAddr>().expect("an address");
    assert!(args.check_host(host("192.0.2.2")).is_err_and(|e| e.is::<Usage>()));
    assert!(args.check_host(host("192.0.2.1")).is_ok());
    let hint = args.hint(host("192.0.2.1")).expect("of our network");
    assert!(hint.contains("`sudo ip addr add 192.0.2.1/24 dev ws0`"), "{hint}");
    assert_eq!(args.hint(host("198.51.100.1")), None);
    let dev = Some("packet:eth0".parse().expect("a device"));
    assert_eq!(Args { dev, ..args }.hint(host("192.0.2.1")), None, "it is another machine");
}

#[test]
fn what_is_missing_is_asked_for() {
    assert!(Args::default().check().is_err());
    assert!(args(&[], &[]).check().is_err());
    assert!(args(&["192.0.2.2/24"], &["198.51.100.1"]).check().is_err());
    assert!(args(&["192.0.2.2/24"], &["192.0.2.1"]).check().is_ok());
    for (no_host, via) in
        [("127.0.0.1/8", "127.0.0.2"), ("0.1.2.3/24", "0.1.2.1"), ("::1/64", "::2")]
    {
        let said = args(&[no_host], &[via]).check().map(drop).map_err(|e| e.to_string());
        assert!(said.is_err_and(|e| e.contains("no host can have")), "{no_host}");
    }
    assert!(args(&["240.0.0.2/24"], &["240.0.0.1"]).check().is_ok());
    for (alone, other, via) in [
        ("192.0.2.2/32", "198.51.100.1/24", "203.0.113.1"),
        ("2001:db8::2/128", "2001:db8:1::1/64", "fe80::1"),
    ] {
        let said = args(&[alone], &[]).check().map(drop).map_err(|e| e.to_string());
        assert!(said.is_err_and(|e| e.contains("or a gateway by --via")), "{alone}");
        assert!(args(&[alone], &[via]).check().is_ok(), "the gateway is on the link");
        assert!(args(&[alone, other], &[]).check().is_ok(), "it has neighbours by the other");
    }
    assert!(args(&["192.0.2.2/32", "2001:db8::2/64"], &[]).check().is_err());
    assert!(args(&["auto"], &[]).check().is_ok());
    assert!(args(&["auto"], &["fe80::1"]).check().is_ok());
    assert!(args(&["auto"], &["192.0.2.1"]).check().is_err(), "auto is IPv6");
    assert!(args(&["dhcp"], &["192.0.2.1"]).check().is_ok());
    assert!(args(&["dhcp"], &["fe80::1"]).check().is_err(), "dhcp is IPv4");
}

#[test]
fn a_link_local_gateway_and_host_are_on_the_devices_link() {
    let six = ["2001:db8:1::2/64"];
    for via in ["fe80::1", "fe80::1%ws0", "fe80::1%1"] {
        assert!(args(&six, &[via]).check().is_ok(), "{via}");
    }
    let error = |addr: &[&str], via: &str| {
        args(addr, &[via]).check().map(|_| ()).expect_err("refused").to_string()
    };
    assert!(error(&six, "fe80::1%eth0").contains("fe80::1%ws0"));
    assert!(error(&["192.0.2.2/24"], "fe80::1").contains("none of our networks"));
    assert!("192.0.2.1%ws0".parse::<args::Zoned>().is_err());
    let host = |text: &str| args(&six, &[]).address(text);
    assert_eq!(host("fe80::1%ws0").ok().flatten(), "fe80::1".parse().ok());
    assert_eq!(host("fe80::1").ok().flatten(), "fe80::1".parse().ok());
    assert_eq!(host("fe80.example").ok(), Some(None));
    for bad in ["fe80::1%eth0", "2001:db8::1%ws0", "example%ws0"] {
        assert!(host(bad).is_err(), "{bad}");
    }
}

#[test]
fn an_address_or_how_to_get_one() {
    assert_eq!("auto".parse(), Ok(Addr::Auto));
    assert_eq!("dhcp".parse(), Ok(Addr::Dhcp));
    let fixed = "2001:db8::1/64".parse().expect("a network");
    assert_eq!("2001:db8::1/64".parse(), Ok(Addr::Fixed(fixed)));
    for bad in ["", "Auto", "192.0.2.1", "192.0.2.1/33", "dhcp6"] {
        assert!(bad.parse::<Addr>().is_err(), "{bad}");
    }
}
