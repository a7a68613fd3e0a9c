//! Rules, sets and questions: what they mean, and every mistake with its place.

mod mistakes;
mod nat;

use core::cell::Cell;
use core::net::IpAddr;

use base::{Cidr, IpVersion};

use super::{Mistake, Source, parse};
use crate::packet::ROUTER;
use crate::rules::{Action, Flags, Ports, Rate, Rule, Rules, Service};

const PORTS: &[(&str, u16)] = &[("lan", 0), ("wan", 1), ("guests", 2)];

fn read(source: &Source<'_>) -> Result<Rules, Vec<Mistake>> {
    parse(source, PORTS, &|name| match name {
        "bad.txt" => Ok("192.0.2.0/24 # a net\n\n# nothing\n192.0.2.128/25\n::1\n".to_owned()),
        "broken.txt" => Ok("192.0.2.0/24\n192.0.2/24\n10.0.0.1 10.0.0.2\n".to_owned()),
        _ => Err("no such file".to_owned()),
    })
}

fn rules(text: &str) -> Vec<Rule> {
    read(&Source { rules: text, ..Source::default() }).expect("rules without mistakes").filter
}

fn rule(text: &str) -> Rule {
    let mut all = rules(text);
    assert_eq!(all.len(), 1, "{text}");
    all.remove(0)
}

fn net(text: &str) -> Cidr {
    text.parse().expect("a network")
}

#[test]
fn clauses_come_in_any_order() {
    let one = rule("pass in wan from 192.0.2.0/24 to 10.0.0.5 tcp 443 label web log");
    let other = rule("pass log label web tcp 443 to 10.0.0.5 from 192.0.2.0/24 in wan");
    assert_eq!(one.matches, other.matches);
    assert_eq!((one.label.as_deref(), one.log), (Some("web"), true));
    assert_eq!(one.matches.in_ports, Ports::Of(vec![1]));
    assert_eq!(one.matches.from.networks, [net("192.0.2.0/24")]);
    assert_eq!(one.matches.to.networks, [net("10.0.0.5/32")]);
    assert_eq!(one.matches.version, Some(IpVersion::V4));
    assert_eq!(one.matches.services, [Service { protocol: 6, first: 443, last: 443 }]);
}

#[test]
fn lines_continue_inside_braces_and_comments_end_with_their_line() {
    let all = rules(
        "# first\nblock from { 10.0.0.1, # one\n  10.0.0.2\n} log\n\n  pass tcp 80,443 # web\n",
    );
    assert_eq!(all.len(), 2);
    assert_eq!(all[0].text, "block from {10.0.0.1, 10.0.0.2} log");
    assert_eq!((all[0].line, all[1].line), (2, 6));
    assert_eq!(all[1].text, "pass tcp 80,443");
}

#[test]
fn the_text_of_a_rule_is_read_as_the_same_rule() {
    for text in [
        "pass in {lan, guests} out wan from !{10.0.0.0/8, @private} tcp {80, https}",
        "reject from !@private port 1-2 {tcp, udp} 53",
        "block   to self   icmp   echo-request,unreachable",
    ] {
        let one = rule(text);
        assert_eq!(rule(&one.text).matches, one.matches);
        assert_eq!(rule(&one.text).text, one.text);
    }
}

#[test]
fn protocols_have_their_ports_and_types() {
    let services = |text: &str| rule(&format!("pass {text}")).matches.services;
    let of = |protocol, first, last| Service { protocol, first, last };
    assert_eq!(services("tcp"), [of(6, 0, 65535)]);
    assert_eq!(services("tcp 80,443"), [of(6, 80, 80), of(6, 443, 443)]);
    assert_eq!(services("udp 1024-2048"), [of(17, 1024, 2048)]);
    assert_eq!(services("{tcp, udp} dns"), [of(6, 53, 53), of(17, 53, 53)]);
    assert_eq!(services("icmp echo-request"), [of(1, 0x800, 0x8ff)]);
    assert_eq!(services("icmp fragmentation-needed"), [of(1, 0x304, 0x304)]);
    assert_eq!(services("icmp 3/4"), [of(1, 0x304, 0x304)]);
    assert_eq!(
        services("icmpv6 {echo-request, packet-too-big}"),
        [of(58, 0x8000, 0x80ff), of(58, 0x200, 0x2ff)]
    );
    assert_eq!(services("proto 47"), services("gre"));
    assert_eq!(services("proto tcp 22"), services("tcp ssh"));
    assert_eq!(services("esp log"), [of(50, 0, 65535)]);
    assert_eq!(services("to any port 22 {tcp, sctp}"), [of(6, 22, 22), of(132, 22, 22)]);
    assert_eq!(rule("pass icmp").matches.version, Some(IpVersion::V4));
    assert_eq!(rule("pass icmpv6").matches.version, Some(IpVersion::V6));
    assert_eq!(rule("pass {icmp, icmpv6} echo-request").matches.version, None);
}

#[test]
fn rates_limits_and_flags_are_read() {
    let one = rule("pass tcp flags S/SA new 200/s per source states 100 per source");
    assert_eq!(one.rate, Some(Rate { per_second: 200, per_source: true }));
    assert_eq!(one.states_per_source, Some(100));
    assert_eq!(one.matches.flags, Some(Flags { set: 0x02, mask: 0x12 }));
    assert_eq!(rule("pass new 5/s").rate, Some(Rate { per_second: 5, per_source: false }));
    assert!(rule("pass loose").loose && rule("pass stateless").stateless);
    assert_eq!(rule("reject").action, Action::Reject);
}

#[test]
fn the_router_is_a_port() {
    assert_eq!(rule("pass in wan to self").matches.out_ports, Ports::Of(vec![ROUTER]));
    assert_eq!(rule("pass to !self").matches.out_ports, Ports::Not(vec![ROUTER]));
    assert_eq!(rule("pass from any to any").matches, rule("pass").matches);
}

#[test]
fn sets_are_read_from_entries_and_files() {
    let sets = [
        ("bad".to_owned(), vec!["file:bad.txt".to_owned(), "2001:db8::1/32".to_owned()]),
        ("both".to_owned(), vec!["@private".to_owned(), "198.51.100.7".to_owned()]),
    ];
    let text = "block from @bad\npass from @both\npass to @bogons";
    let all = read(&Source { rules: text, sets: &sets, ..Source::default() }).expect("sets");
    let addr = |text: &str| text.parse::<IpAddr>().expect("an address");
    assert_eq!(all.sets[0].v4.len(), 1);
    assert!(all.sets[0].contains(addr("192.0.2.200")) && all.sets[0].contains(addr("::1")));
    assert!(all.sets[0].contains(addr("2001:db8::2")) && !all.sets[0].contains(addr("::2")));
    assert!(all.sets[1].contains(addr("10.9.9.9")) && all.sets[1].contains(addr("198.51.100.7")));
    assert_eq!(all.sets[2].name, "bogons");
    assert!(all.sets[2].contains(addr("224.0.0.1")) && !all.sets[2].contains(addr("8.8.8.8")));
}

#[test]
fn every_built_in_set_has_the_networks_that_it_lists() {
    for set in crate::sets::BUILT_IN {
        let text = format!("pass from @{}", set.name);
        let all = read(&Source { rules: &text, ..Source::default() }).expect("a set");
        for network in set.networks {
            assert!(all.sets[0].contains(net(network).addr), "{} {network}", set.name);
            assert_eq!(net(network).network(), net(network), "{} {network}", set.name);
        }
    }
}

#[test]
fn files_are_read_once_a_set() {
    let asked = Cell::new(0);
    let sets = [("a".to_owned(), vec!["file:x".to_owned()])];
    let source = Source { rules: "pass from @a\nblock to @a", sets: &sets, ..Source::default() };
    let file = |_: &str| {
        asked.set(asked.get() + 1);
        Ok(String::new())
    };
    parse(&source, PORTS, &file).expect("an empty set");
    assert_eq!(asked.get(), 1);
}
