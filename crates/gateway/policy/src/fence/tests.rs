//! Texts and what they decide: a line of each table is a flow and what becomes of it.

use core::net::IpAddr;
use std::sync::Arc;

use base::Duration;
use gateway::{Ends, Policy};

use super::*;
use crate::pins::Known;
use crate::text::{Argument, Source, parse};

fn ip(text: &str) -> IpAddr {
    text.parse().expect(text)
}

fn name(text: &str) -> DomainName {
    DomainName::parse(text).expect(text)
}

fn host() -> HostAddresses {
    HostAddresses {
        own: vec![ip("198.18.5.5"), ip("203.0.114.9")],
        stand_ins: vec![ip("10.0.2.2")],
    }
}

fn fence_of(source: &Source<'_>) -> Fence {
    let rules = parse(source, &|_| Err("no files".to_owned()));
    let rules = rules.unwrap_or_else(|mistakes| panic!("{}", mistakes[0]));
    Fence::new(rules, host()).expect("few rules")
}

/// A fence with the rules of a file.
pub(crate) fn fence(text: &str) -> Fence {
    fence_of(&Source { file: Some(("policy.toml", text)), ..Source::default() })
}

pub(crate) fn pin(fence: &mut Fence, address: &str, names: &[&str]) {
    let known = |text: &&str| {
        let name = name(text);
        Arc::new(Known { rules: fence.compiled.of_name(&name), name })
    };
    let names: Vec<Arc<Known>> = names.iter().map(known).collect();
    let ttl = Duration::from_secs(300);
    fence.pins.add(ip(address), &names, ttl, fence.now, &mut fence.budget);
}

/// `tcp 192.0.2.1 443`, `echo 192.0.2.1`.
fn destination(text: &str) -> Destination {
    let words: Vec<&str> = text.split(' ').collect();
    let protocol = match words[0] {
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        _ => Protocol::Echo,
    };
    let port = words.get(2).map_or(0, |port| port.parse().expect("a port"));
    Destination::new(protocol, ip(words[1]), port)
}

/// What becomes of a flow, in words: `deny default`, `allow 2`, `ask 1 needed`.
fn words(fence: &Fence, decision: Decision) -> String {
    let rule = decision.rule.and_then(|number| fence.rule(number));
    let rule = rule.map_or("default".to_owned(), |rule| rule.line.to_string());
    let hello = match decision.hello {
        Hello::Ignore => "",
        Hello::NotDenied => " not-denied",
        Hello::IfAny => " if-any",
        Hello::Needed => " needed",
    };
    format!("{} {rule}{hello}", decision.action.name())
}

fn check(fence: &Fence, cases: &[(&str, &str)]) {
    for (flow, expected) in cases {
        let decision = fence.decide(&destination(flow));
        assert_eq!(words(fence, decision), *expected, "{flow}");
    }
}

const FILE: &str = r#"
[[rule]]
allow = ["github.com", "*.github.com"]
ports = ["443", "22/tcp", "443/udp"]
sni = "match"
[[rule]]
allow = ["10.0.0.141", "10.1.0.0/16"]
ports = ["22/tcp", "5432/tcp"]
[[rule]]
deny = ["private", "link-local", "metadata", "host", "multicast"]
[[rule]]
allow = ["public"]
ports = ["80", "echo"]
[[rule]]
allow = ["plain.test"]
[[rule]]
ask = ["any"]
ports = ["8080"]
"#;

#[test]
fn the_first_rule_that_matches_decides() {
    let mut fence = fence(FILE);
    pin(&mut fence, "140.82.121.3", &["github.com"]);
    pin(&mut fence, "140.82.121.4", &["lb.example", "api.github.com"]);
    pin(&mut fence, "140.82.121.5", &["plain.test"]);
    check(
        &fence,
        &[
            ("tcp 140.82.121.3 443", "allow 2 needed"),
            ("udp 140.82.121.3 443", "allow 2 needed"),
            ("tcp 140.82.121.3 80", "allow 11"),
            ("tcp 140.82.121.3 25", "deny default"),
            ("udp 140.82.121.3 22", "deny default"),
            ("tcp 140.82.121.4 22", "allow 2 needed"),
            ("tcp 140.82.121.9 443", "deny default"),
            ("tcp 140.82.121.5 443", "allow 14 if-any"),
            ("udp 140.82.121.5 443", "allow 14 if-any"),
            ("tcp ::ffff:140.82.121.3 443", "allow 2 needed"),
            ("tcp 10.0.0.141 22", "allow 6"),
            ("tcp 10.1.255.255 5432", "allow 6"),
            ("udp 10.1.255.255 5432", "deny 9"),
            ("tcp 10.2.0.0 22", "deny 9"),
            ("echo 10.1.0.1", "deny 9"),
            ("echo 192.0.3.1", "allow 11"),
            ("echo 2606:4700::1", "allow 11"),
            ("tcp 192.0.2.1 80", "deny default"),
            ("tcp 8.8.8.8 8080", "ask 16"),
            ("udp 8.8.8.8 53", "deny default"),
        ],
    );
}

#[test]
fn no_other_form_of_an_address_passes_the_fence() {
    let fence = fence(FILE);
    check(
        &fence,
        &[
            ("tcp 169.254.169.254 80", "deny 9"),
            ("tcp 168.63.129.16 80", "deny 9"),
            ("tcp fd00:ec2::254 80", "deny 9"),
            ("tcp 203.0.114.9 80", "deny 9"),
            ("tcp 127.0.0.1 80", "deny 9"),
            ("tcp 0.0.0.0 80", "deny 9"),
            ("tcp ::1 8080", "deny 9"),
            ("tcp :: 8080", "deny 9"),
            ("tcp ::ffff:127.0.0.1 8080", "deny 9"),
            ("tcp ::127.0.0.1 8080", "deny 9"),
            ("tcp 64:ff9b::127.0.0.1 8080", "deny 9"),
            ("tcp 64:ff9b::169.254.169.254 80", "deny 9"),
            ("tcp 64:ff9b:1:2::10.0.0.1 80", "deny 9"),
            ("tcp 2002:a00:1:: 80", "deny 9"),
            ("tcp 2001:0:1::f5ff:fffa 80", "deny 9"),
            ("tcp 64:ff9b::8.8.8.8 80", "allow 11"),
            ("tcp ff02::fb 8080", "deny 9"),
            ("tcp 10.0.2.2 80", "deny 9"),
            ("tcp 10.1.0.1 22", "allow 6"),
            ("tcp 64:ff9b::10.1.0.1 22", "allow 6"),
        ],
    );
}

#[test]
fn loopback_is_reached_by_the_group_host_alone() {
    let open = fence("default = \"allow\"\n[[rule]]\nallow = [\"any\", \"0.0.0.0/0\", \"::/0\"]\n");
    check(
        &open,
        &[
            ("tcp 127.0.0.1 80", "deny default"),
            ("tcp 0.0.0.0 80", "deny default"),
            ("tcp ::1 80", "deny default"),
            ("tcp 10.0.2.2 80", "deny default"),
            ("tcp 64:ff9b::7f00:1 80", "deny default"),
            ("udp 2002:7f00:1:: 80", "deny default"),
            ("echo 127.0.0.1", "deny default"),
            ("tcp 10.0.0.1 80", "allow 2"),
            ("tcp 203.0.114.9 80", "allow 2"),
            ("tcp 64:ff9b::a00:1 80", "allow 2"),
        ],
    );
    let mut host =
        fence("[[rule]]\nallow = [\"host\"]\nports = [\"80\"]\n[[rule]]\nallow = \"x.test\"");
    pin(&mut host, "127.0.0.1", &["x.test"]);
    pin(&mut host, "192.168.0.1", &["x.test"]);
    check(
        &host,
        &[
            ("tcp 127.0.0.1 80", "allow 1"),
            ("tcp ::1 80", "allow 1"),
            ("tcp 10.0.2.2 80", "allow 1"),
            ("tcp 203.0.114.9 80", "allow 1"),
            ("tcp 64:ff9b::7f00:1 80", "allow 1"),
            ("tcp 127.0.0.1 81", "deny default"),
            ("tcp 192.168.0.1 81", "allow 4 if-any"),
        ],
    );
}

#[test]
fn a_denied_name_denies_its_addresses() {
    let arguments = [Argument::Deny("bad.test"), Argument::Deny("*.ads.test:443")];
    let mut fence = fence_of(&Source { arguments: &arguments, ..Source::default() });
    pin(&mut fence, "192.0.3.1", &["bad.test", "good.test"]);
    pin(&mut fence, "192.0.3.2", &["x.ads.test"]);
    pin(&mut fence, "192.0.3.3", &["good.test"]);
    check(
        &fence,
        &[
            ("tcp 192.0.3.1 80", "deny 1"),
            ("echo 192.0.3.1", "deny 1"),
            ("tcp 192.0.3.2 443", "deny 2"),
            ("tcp 192.0.3.2 80", "allow default not-denied"),
            ("udp 192.0.3.2 443", "allow default not-denied"),
            ("tcp 192.0.3.3 443", "allow default not-denied"),
        ],
    );
    // A hello may name what no answer has given.
    let to = destination("tcp 192.0.3.3 443");
    for (sni, expected) in
        [("good.test", "allow default"), ("bad.test", "deny 1"), ("y.ads.test", "deny 2")]
    {
        let words = words(&fence, fence.decide_named(&to, &name(sni)));
        assert!(words.starts_with(expected), "{sni} {words}");
    }
}

#[test]
fn the_name_in_a_hello_decides_at_a_shared_address() {
    let text = "[[rule]]\nallow = \"one.test\"\nsni = \"match\"\n[[rule]]\nallow = \"two.test\"\n\
                [[rule]]\ndeny = \"10.0.0.0/8\"\n[[rule]]\nallow = \"10.0.0.7\"";
    let mut fence = fence(text);
    pin(&mut fence, "192.0.3.1", &["one.test", "two.test", "three.test"]);
    pin(&mut fence, "10.0.0.7", &["two.test"]);
    let to = destination("tcp 192.0.3.1 443");
    assert_eq!(words(&fence, fence.decide(&to)), "allow 1 needed");
    for (sni, expected) in [
        ("one.test", "allow 1"),
        ("two.test", "allow 4"),
        ("three.test", "deny default"),
        ("four.test", "deny default"),
    ] {
        let words = words(&fence, fence.decide_named(&to, &name(sni)));
        assert!(words.starts_with(expected), "{sni} {words}");
    }
    let other = destination("tcp 192.0.3.2 443");
    assert_eq!(words(&fence, fence.decide_named(&other, &name("one.test"))), "deny default");
    let private = destination("tcp 10.0.0.7 443");
    assert!(words(&fence, fence.decide_named(&private, &name("two.test"))).starts_with("allow 4"));
    assert!(words(&fence, fence.decide_named(&private, &name("one.test"))).starts_with("deny 6"));
}

#[test]
fn a_pin_ends_and_rules_change() {
    let mut fence = fence("[[rule]]\nallow = \"one.test\"");
    pin(&mut fence, "192.0.3.1", &["one.test", "two.test"]);
    check(&fence, &[("tcp 192.0.3.1 1", "allow 1 if-any")]);
    let source = Source { arguments: &[Argument::Allow("two.test:7")], ..Source::default() };
    let rules = parse(&source, &|_| Err(String::new())).expect("one rule");
    fence.set_rules(rules).expect("few rules");
    check(&fence, &[("tcp 192.0.3.1 1", "deny default"), ("udp 192.0.3.1 7", "deny default")]);
    check(&fence, &[("tcp 192.0.3.1 7", "allow 1 if-any")]);
    fence.set_now(Instant::ZERO + Duration::from_secs(301), Duration::ZERO);
    check(&fence, &[("tcp 192.0.3.1 7", "deny default")]);
}

#[test]
fn the_engine_hears_of_refusals_as_the_policy_says() {
    let ends = |port| Ends {
        guest: "10.0.2.100:5000".parse().expect("an address"),
        remote: SocketAddr::new(ip("8.8.8.8"), port),
    };
    for (refuse, expected) in [
        ("reset", Verdict::Reset),
        ("prohibited", Verdict::Unreachable(Unreachable::Prohibited)),
        ("drop", Verdict::Drop),
    ] {
        let mut fence =
            fence(&format!("refuse = \"{refuse}\"\n[[rule]]\nask = \"any\"\nports = \"7\""));
        assert_eq!(fence.tcp(&ends(80)), expected);
        assert_eq!(fence.udp(&ends(53)), expected, "without a resolver it is a flow like others");
        assert_eq!(fence.echo(&ends(0)), expected);
        assert_eq!(fence.tcp(&ends(7)), Verdict::Ask);
        let resolver = "10.0.2.3:53".parse().expect("an address");
        fence.set_resolver(Some(resolver));
        assert_eq!(fence.udp(&ends(53)), Verdict::To(resolver));
        assert_eq!(fence.tcp(&ends(53)), Verdict::To(resolver));
        assert_eq!((fence.counts().refused, fence.counts().asked), (3, 1));
    }
}
