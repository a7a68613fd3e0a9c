//! The compiled rules decide as the plain list does.

use core::net::{Ipv4Addr, Ipv6Addr};

use filter::Set;
use proptest::prelude::*;

use super::*;
use crate::group::GROUPS;
use crate::name::Pattern;
use crate::plain;
use crate::rules::Sni;

/// Addresses near the edges of groups, and others.
fn address() -> impl Strategy<Value = IpAddr> {
    let near = prop::sample::select(vec![
        "10.0.0.0",
        "10.0.2.2",
        "127.0.0.1",
        "169.254.169.254",
        "172.31.255.255",
        "8.8.8.8",
        "100.64.0.1",
        "198.51.100.7",
        "224.0.0.1",
        "0.0.0.0",
        "::",
        "::1",
        "fe80::1",
        "fd00:ec2::254",
        "2001:db8::1",
        "2606:4700::1",
        "64:ff9b::",
        "64:ff9b:1::",
        "2002:a00:1::",
        "2001:0::1",
        "ff02::1",
    ]);
    let near =
        (near, any::<u8>()).prop_map(|(text, more)| match text.parse().expect("an address") {
            IpAddr::V4(v4) => IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() ^ u32::from(more % 4))),
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() ^ u128::from(more % 4))),
        });
    let inside = (0..4_usize, near.clone()).prop_map(|(kind, address)| {
        let IpAddr::V4(v4) = address else { return address };
        let bits = u128::from(v4.to_bits());
        IpAddr::V6(Ipv6Addr::from_bits(match kind {
            0 => 0x0064_ff9b << 96 | bits,
            1 => 0x2002 << 112 | bits << 80 | 1,
            2 => 0x2001 << 112 | u128::from(!v4.to_bits()),
            _ => bits,
        }))
    });
    let any = any::<u128>().prop_map(|bits| match bits & 1 {
        0 => IpAddr::V4(Ipv4Addr::from_bits(bits as u32)),
        _ => IpAddr::V6(Ipv6Addr::from_bits(bits)),
    });
    prop_oneof![4 => near, 3 => inside, 1 => any]
}

const NAMES: [&str; 6] = ["a.test", "b.a.test", "c.b.a.test", "b.test", "test", "xa.test"];

fn target() -> impl Strategy<Value = Target> {
    let pattern =
        (prop::sample::select(NAMES.to_vec()), any::<bool>()).prop_map(|(name, below)| {
            Target::Name(Pattern {
                name: DomainName::parse(name).expect("a name"),
                is_below: below,
            })
        });
    let network = (address(), any::<u8>()).prop_map(|(address, len)| {
        let most = if address.is_ipv4() { 33 } else { 129 };
        let cidr = Cidr::new(address, len % most).expect("short enough");
        Target::Network(cidr.network())
    });
    let group = prop::sample::select(GROUPS.to_vec()).prop_map(|(_, group)| Target::Group(group));
    prop_oneof![pattern, network, group, (0..2_usize).prop_map(Target::Set)]
}

fn rule() -> impl Strategy<Value = Rule> {
    let service = (prop::sample::select(vec![TCP, UDP, ICMP, ICMPV6]), 0..4_u16, 0..3_u16)
        .prop_map(|(protocol, first, more)| match protocol {
            TCP | UDP => Service { protocol, first, last: first + more },
            _ => Service::all(protocol),
        });
    let action = prop::sample::select(vec![Action::Allow, Action::Deny, Action::Ask]);
    (action, prop::collection::vec(target(), 0..4), prop::collection::vec(service, 0..3)).prop_map(
        |(action, targets, services)| Rule {
            line: 1,
            is_argument: false,
            action,
            targets,
            services,
            sni: Sni::Tls,
            via: None,
        },
    )
}

fn rules() -> impl Strategy<Value = Rules> {
    let network = (address(), any::<u8>()).prop_map(|(address, len)| {
        let most = if address.is_ipv4() { 33 } else { 129 };
        Cidr::new(address, len % most).expect("short enough").network()
    });
    let set = prop::collection::vec(network, 0..5).prop_map(|all| Set::new("set", &all));
    (prop::collection::vec(rule(), 0..9), prop::collection::vec(set, 2))
        .prop_map(|(rules, sets)| Rules { rules, sets, ..Rules::default() })
}

fn destination() -> impl Strategy<Value = Destination> {
    let protocol = prop::sample::select(vec![Protocol::Tcp, Protocol::Udp, Protocol::Echo]);
    (protocol, address(), 0..6_u16).prop_map(|(protocol, address, port)| {
        Destination::new(protocol, address, if protocol == Protocol::Echo { 0 } else { port })
    })
}

fn flow() -> impl Strategy<Value = (Destination, Vec<&'static str>)> {
    (destination(), prop::sample::subsequence(NAMES.to_vec(), 0..3))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn the_tables_decide_as_the_list_does(
        rules in rules(),
        flows in prop::collection::vec(flow(), 20),
        own in prop::collection::vec(address(), 0..3),
    ) {
        let host = HostAddresses { own, stand_ins: vec!["10.0.2.2".parse().expect("an address")] };
        let mut fence = crate::Fence::new(rules.clone(), host.clone()).expect("few rules");
        for (to, names) in flows {
            let names: Vec<DomainName> =
                names.iter().map(|name| DomainName::parse(name).expect("a name")).collect();
            fence.pins = crate::pins::Pins::default();
            let known: Vec<_> = names.iter().map(|name| std::sync::Arc::new(crate::pins::Known {
                rules: fence.compiled.of_name(name),
                name: name.clone(),
            })).collect();
            if !known.is_empty() {
                let ttl = base::Duration::from_secs(60);
                fence.pins.add(to.address, &known, ttl, fence.now, &mut fence.budget);
            }
            let expected = plain::first(&rules, &host, &to, &names);
            prop_assert_eq!(fence.decide(&to).rule, expected, "{:?} {:?}", to, names);
        }
    }
}
