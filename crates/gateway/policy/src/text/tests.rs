//! Texts and what they mean, and mistakes with their places.

use base::Limit;
use wire::protocol::{TCP, UDP};

use super::*;
use crate::group::Group;
use crate::rules::{Refusal, Server, Sni, Target};

const EXAMPLE: &str = r#"
# The example of docs/gateway.md.
default = "deny"
refuse = "prohibited"
[dns]
servers = ["host", "192.0.2.53"]
names = "all"
rebinding = "allow"
[sets]
build = ["10.1.0.0/16", "file:mirrors"]
[[rule]]
allow = ["github.com", "*.github.com"]
ports = ["443", "22/tcp", "443/udp"]
sni = "match"
[[rule]]
allow = ["10.0.0.141", "@build", "::ffff:10.9.0.0/112"]
ports = ["ssh", "1000-1100/udp"]
via = "office"
[[rule]]
deny = ["private", "link-local", "metadata", "host", "multicast"]
[[rule]]
ask = "any"
[[publish]]
port = "127.0.0.1/8080:80"
from = ["192.0.2.0/24"]
[limits]
gateway_flows = 1024
bytes_out = "1G"
"#;

fn files(name: &str) -> Result<String, String> {
    match name {
        "mirrors" => Ok("192.0.2.7 # one\n".to_owned()),
        "bad" => Ok("192.0.2.7\nnonsense\n".to_owned()),
        _ => Err("there is no such file".to_owned()),
    }
}

fn read(text: &str) -> Result<Rules, Vec<String>> {
    let source = Source { file: Some(("policy.toml", text)), ..Source::default() };
    parse(&source, &files).map_err(|all| all.iter().map(ToString::to_string).collect())
}

#[test]
fn the_example_is_read() {
    let rules = read(EXAMPLE).expect("no mistakes");
    assert_eq!((rules.default, rules.refuse), (Action::Deny, Refusal::Prohibited));
    let address = "192.0.2.53".parse().expect("an address");
    assert_eq!(rules.dns.servers, [Server::Host, Server::Address(address)]);
    assert!(!rules.dns.only_allowed && !rules.dns.refuses_rebinding);
    let [github, office, deny, ask] = rules.rules.as_slice() else { panic!("four rules") };
    assert_eq!((github.line, github.action, github.sni), (11, Action::Allow, Sni::Match));
    let patterns: Vec<String> = github.patterns().map(ToString::to_string).collect();
    assert_eq!(patterns, ["github.com", "*.github.com"]);
    let services: Vec<(u8, u16, u16)> =
        github.services.iter().map(|one| (one.protocol, one.first, one.last)).collect();
    assert_eq!(services, [(TCP, 443, 443), (TCP, 22, 22), (UDP, 443, 443)]);
    assert_eq!(office.via.as_deref(), Some("office"));
    assert_eq!(office.sni, Sni::Tls);
    assert_eq!(office.targets[2], Target::Network("10.9.0.0/16".parse().expect("a network")));
    assert_eq!(deny.targets.last(), Some(&Target::Group(Group::Multicast)));
    assert_eq!((ask.action, ask.line), (Action::Ask, 21));
    assert!(rules.sets[0].contains("192.0.2.7".parse().expect("an address")));
    assert_eq!((rules.publish[0].host, rules.publish[0].guest), ((8080, 8080), 80));
    assert_eq!(rules.limits, [(Limit::GatewayFlows, 1024)]);
    assert_eq!(rules.bytes_out_max, Some(1 << 30));
}

/// Texts, each with a mistake.
const MISTAKES: &[(&str, &str)] = &[
    ("defualt = \"deny\"", "1:1: unknown key of the file `defualt`: did you mean `default`?"),
    ("default = \"pass\"", "1:12: unknown default `pass`: there are allow, deny, ask"),
    (
        "[[rule]]\nallow = [\"github.com\", \"metdata\"]",
        "2:25: unknown group `metdata`: did you \
          mean `metadata`? Write `metdata.` for the name",
    ),
    (
        "[[rule]]\ndeny = [\"10.0.0.0/33\"]",
        "2:10: `10.0.0.0/33` is no network: write an \
          address or ADDRESS/LENGTH",
    ),
    (
        "[[rule]]\nallow = [\"10.0.0\"]",
        "2:11: `10.0.0` is no name: it ends in a number but is \
          no address: write four numbers, as 192.0.2.1",
    ),
    (
        "[[rule]]\nallow = [\"@bild\"]\n[sets]\nbuild = []",
        "2:11: unknown set `bild`: did you \
          mean `build`?",
    ),
    (
        "[[rule]]\nallow = [\"any\"]\nports = [\"htps\"]",
        "3:11: `htps` is no port: write a \
          number, a range `1024-2048` or a name such as `https`, each with `/udp` for UDP; or \
          `tcp`, `udp` or `echo`",
    ),
    (
        "[[rule]]\nallow = [\"any\"]\nports = [\"80/sctp\"]",
        "3:11: unknown protocol `sctp`: \
          there are `tcp` and `udp`",
    ),
    ("[[rule]]\nports = [\"80\"]", "1:1: a rule has one of `allow`, `deny` and `ask`"),
    ("[[rule]]\nallow = []", "2:9: allow is empty: write names, addresses or groups, or `any`"),
    (
        "[[rule]]\nallow = [\"loopback\"]",
        "2:11: loopback addresses are the host's own: write \
          `host` to let guests reach them",
    ),
    (
        "[[rule]]\nask = \"127.0.0.1\"",
        "2:8: loopback addresses are the host's own: write \
          `host` to let guests reach them",
    ),
    (
        "[[rule]]\nallow = \"64:ff9b::/96\"",
        "2:10: the IPv4 address inside of such an address \
          decides: write IPv4 networks",
    ),
    (
        "[[rule]]\nallow = [\"10.0.0.1\"]\nsni = \"match\"",
        "2:11: `10.0.0.1` is no name for sni \
          = \"match\": write a rule of its own",
    ),
    (
        "[[rule]]\ndeny = [\"x.org\"]\nsni = \"ignore\"",
        "3:7: a rule that denies has no sni: \
          remove it",
    ),
    (
        "[[publish]]\nfrom = \"10.0.0.0/8\"",
        "1:1: [[publish]] has no port: add port = \
          \"8080:80\"",
    ),
    (
        "[limits]\ngateway_flows = \"many\"",
        "2:18: gateway_flows cannot be `many`: write bytes, \
          as 1000000 or \"1G\"",
    ),
    (
        "[dns]\nservers = [\"dns.google\"]",
        "2:13: `dns.google` is no server: write `host` or an \
          address",
    ),
    (
        "[sets]\nx = [\"10.0.0.0/8\", \"10.0\"]",
        "2:21: `10.0` is no network: write an address or \
          ADDRESS/LENGTH",
    ),
    ("rule = 7", "1:8: write a section [[rule]] for each rule"),
    ("[[rule]]\nallow = 7", "2:9: allow is integer: write it in quotes"),
];

#[test]
fn mistakes_have_their_places_and_say_what_to_write() {
    for (text, expected) in MISTAKES {
        let expected = format!("policy.toml:{expected}");
        assert!(read(text).expect_err(text).contains(&expected), "{:?}\n{expected}", read(text));
    }
}

#[test]
fn all_mistakes_are_found_up_to_a_hundred() {
    let text = "default = \"no\"\n[[rule]]\nallow = [\"*\", \"a b\"]\n[sets]\nx = [\"file:bad\"]\n";
    let mistakes = read(text).expect_err("four");
    let places = ["bad:2:1:", "policy.toml:1:12:", "policy.toml:3:11:", "policy.toml:3:16:"];
    assert_eq!(mistakes.len(), 4, "{mistakes:?}");
    for (mistake, place) in mistakes.iter().zip(places) {
        assert!(mistake.starts_with(place), "{mistake} {place}");
    }
    let many = format!("[[rule]]\nallow = [{}]", "\"a b\",".repeat(300));
    let mistakes = read(&many).expect_err("300");
    assert_eq!(mistakes.len(), 100);
    assert!(mistakes[99].ends_with("(and 200 more mistakes)"), "{}", mistakes[99]);
    let syntax = read("default = \n[[rule]\nallow = 1 2").expect_err("no TOML");
    assert!(syntax.len() > 1 && syntax[0].starts_with("policy.toml:1:"), "{syntax:?}");
}

#[test]
fn arguments_are_rules_before_those_of_the_file() {
    let arguments = [
        Argument::Deny("private"),
        Argument::Allow("github.com:22,443/udp"),
        Argument::Allow("[2001:db8::]:https"),
        Argument::Allow("10.1.0.0/16:5432/tcp"),
        Argument::Allow("2001:db8::/32"),
        Argument::Allow("any:echo"),
    ];
    let source = Source { file: Some(("p", EXAMPLE)), arguments: &arguments, ..Source::default() };
    let rules = parse(&source, &files).expect("no mistakes");
    assert_eq!(rules.rules.len(), 10);
    assert_eq!(rules.rules[0].action, Action::Deny);
    assert_eq!((rules.rules[2].line, rules.rules[2].is_argument), (2, true));
    assert_eq!(rules.rules[1].services.len(), 2);
    assert_eq!(rules.rules[2].services[0].first, 443);
    assert_eq!(rules.default, Action::Deny);
    let of = |arguments: &[Argument<'_>], default| {
        let rules = parse(&Source { file: None, arguments, default }, &files);
        rules.expect("no mistakes").default
    };
    assert_eq!(of(&[], None), Action::Allow);
    assert_eq!(of(&[Argument::Deny("x.org")], None), Action::Allow);
    assert_eq!(of(&[Argument::Deny("x.org"), Argument::Allow("y.org")], None), Action::Deny);
    assert_eq!(of(&[Argument::Allow("y.org")], Some(Action::Ask)), Action::Ask);
}

#[test]
fn rebinding_is_not_refused_if_the_default_allows() {
    let refuses = |arguments: &[Argument<'_>], default| {
        let rules = parse(&Source { file: None, arguments, default }, &files);
        rules.expect("no mistakes").dns.refuses_rebinding
    };
    assert!(refuses(&[Argument::Allow("host")], None));
    assert!(!refuses(&[Argument::Allow("host")], Some(Action::Allow)));
    assert!(!refuses(&[], None));
}

#[test]
fn mistakes_of_arguments_name_the_option_and_its_number() {
    let arguments = [
        Argument::Allow("x.org"),
        Argument::Allow("x.org:htps,80/x"),
        Argument::Deny("hst"),
        Argument::Allow("[::1"),
        Argument::Allow("127.0.0.1:80"),
        Argument::Allow("https://x.org/y"),
    ];
    let source = Source { arguments: &arguments, ..Source::default() };
    let mistakes = parse(&source, &files).expect_err("six");
    let mistakes: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
    let places = [
        "--allow:2:7: ",
        "--allow:2:12: ",
        "--deny:1:1: ",
        "--allow:3:1: ",
        "--allow:4:1: ",
        "--allow:5:1: `https://` is a URL, and rules are about names and ports: write `x.org:443`",
    ];
    assert_eq!(mistakes.len(), places.len(), "{mistakes:?}");
    for (mistake, place) in mistakes.iter().zip(places) {
        assert!(mistake.starts_with(place), "{mistake} {place}");
    }
}

#[test]
fn a_policy_has_4096_rules_at_most() {
    let text = "[[rule]]\nallow = \"any\"\n".repeat(4_096);
    assert_eq!(read(&text).expect("so many are allowed").rules.len(), 4_096);
    let mistakes = read(&format!("{text}[[rule]]\nallow = \"any\"\n")).expect_err("too many");
    assert_eq!(mistakes, ["policy.toml:8193:1: 4097 rules: a policy may have 4096"]);
    let long = "#".repeat(BYTES_MAX + 1);
    assert!(read(&long).expect_err("too long")[0].contains("longer than"));
}
