//! Rules of NAT: what matches, and what it becomes.

use base::IpVersion;

use super::{net, read};
use crate::packet::ROUTER;
use crate::rules::{Filtering, Nat, NatRule, PortMap, Ports, Target};
use crate::text::Source;

fn nat(text: &str) -> NatRule {
    let all = read(&Source { nat: text, ..Source::default() }).expect("rules without mistakes");
    all.nat.into_iter().next().expect("a rule")
}

#[test]
fn the_last_to_of_a_rule_is_its_target() {
    let rule = nat("source out wan from 10.0.0.0/8 to !192.168.0.0/16 tcp to port");
    let matches = rule.source.expect("a match for sources");
    assert_eq!(matches.out_ports, Ports::Of(vec![1]));
    assert!(matches.to.negated);
    let Nat::Source { target, ports, filtering, block } = rule.nat else {
        panic!("{:?}", rule.nat)
    };
    assert_eq!((target, ports), (Target::Port, (1024, 60999)));
    assert_eq!((filtering, block), (Filtering::Address, None));
}

#[test]
fn source_nat_has_ports_filtering_and_blocks() {
    let rule =
        nat("source out wan to 203.0.113.0/28 ports 2000-3999 filtering independent block 200");
    let expected = Nat::Source {
        target: Target::Network(net("203.0.113.0/28")),
        ports: (2000, 3999),
        filtering: Filtering::Independent,
        block: Some(200),
    };
    assert_eq!(rule.nat, expected);
    assert_eq!(rule.source.expect("a match").version, Some(IpVersion::V4));
    assert_eq!(nat("keep out wan to @private").nat, Nat::Keep);
}

#[test]
fn dest_maps_ports_one_by_one_or_to_one() {
    let port = |text: &str| match nat(text).nat {
        Nat::Dest { port, .. } => port,
        other => panic!("{other:?}"),
    };
    let one = port("dest in wan to self tcp 8443 to 10.0.0.5:443");
    assert_eq!(one, Some(PortMap { from: 8443, to: 443, is_range: false }));
    let range = port("dest in wan {tcp, udp} 8000-8010 to 10.0.0.5:9000-9010").expect("a map");
    assert_eq!((range.map(8000), range.map(8007)), (9000, 9007));
    let many = port("dest in wan tcp 80,8080 to [2001:db8::5]:http").expect("a map");
    assert_eq!((many.map(80), many.map(8080)), (80, 80));
    assert_eq!(port("dest in wan tcp 80 to 10.0.0.5"), None);
    let rule = nat("dest in wan to self tcp 80 to 10.0.0.5");
    assert_eq!(rule.dest.expect("a match").out_ports, Ports::Of(vec![ROUTER]));
}

/// RFC 6296 4.1-a.
#[test]
fn one_to_one_rules_match_in_both_directions() {
    let rule = nat("prefix out wan fd00:1::/48 to 2001:db8:1::/48");
    let (source, dest) = (rule.source.expect("sources"), rule.dest.expect("destinations"));
    assert_eq!(source.from.networks, [net("fd00:1::/48")]);
    assert_eq!(dest.to.networks, [net("2001:db8:1::/48")]);
    assert_eq!((source.out_ports, dest.in_ports), (Ports::Of(vec![1]), Ports::Of(vec![1])));
    let rule = nat("both out wan 10.0.0.5 to 203.0.113.5");
    let (inside, outside) = (net("10.0.0.5/32"), net("203.0.113.5/32"));
    assert_eq!(rule.nat, Nat::Both { inside, outside });
}
