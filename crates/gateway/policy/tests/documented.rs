//! The examples of docs/gateway.md: they are read without mistakes and do what the page says.
//!
//! Called by: `cargo test -p wirespeed-policy`.

use wirespeed_policy as policy;

use policy::group::GROUPS;
use policy::learn::Learned;
use policy::text::{Source, parse};
use policy::{Action, Destination, Fence, HostAddresses, Protocol};

const PAGE: &str = include_str!("../../../../docs/gateway.md");

/// The first block of a language.
fn block(language: &str) -> &'static str {
    let mut blocks = PAGE.split("```").skip(1).step_by(2);
    blocks.find_map(|block| block.strip_prefix(language)?.strip_prefix('\n')).unwrap_or("")
}

#[test]
fn the_example_is_a_policy() {
    let source = Source { file: Some(("policy.toml", block("toml"))), ..Source::default() };
    let rules = parse(&source, &|_| Ok("192.0.2.128/25".to_owned())).expect("no mistakes");
    assert_eq!((rules.rules.len(), rules.publish.len(), rules.limits.len()), (4, 1, 1));
    let fence = Fence::new(rules, HostAddresses::default()).expect("few rules");
    for (address, port, expected) in [
        ("10.1.2.3", 22, Action::Allow),
        ("10.1.2.3", 80, Action::Deny),
        ("192.0.2.1", 5432, Action::Allow),
        ("169.254.169.254", 80, Action::Deny),
        ("8.8.8.8", 443, Action::Ask),
    ] {
        let to = Destination::new(Protocol::Tcp, address.parse().expect(address), port);
        assert_eq!(fence.decide(&to).action, expected, "{address} {port}");
    }
}

#[test]
fn all_groups_are_documented() {
    for (name, _) in GROUPS {
        assert!(PAGE.contains(&format!("\n| `{name}` | ")), "{name}");
    }
}

#[test]
fn the_line_of_the_log_is_one() {
    let line = PAGE.split("\n\n").find(|part| part.trim_start().starts_with("{\"time\""));
    let line = line.expect("it is there").replace('\n', " ");
    let mut learned = Learned::default();
    learned.line(&line);
    assert_eq!(learned.unreadable, 0);
    assert!(learned.policy().contains("allow = [\"github.com\"]\nports = [\"443\"]"));
}
