//! The examples of docs/filter.md: they are read without mistakes, fit a program, and do what the
//! page says of them.
//!
//! Called by: `cargo test -p wirespeed-filter`.

use wirespeed_filter::rules::Action;
use wirespeed_filter::sets::BUILT_IN;
use wirespeed_filter::text::{Source, parse, question};
use wirespeed_filter::{Program, Rules};

const PAGE: &str = include_str!("../../../../docs/filter.md");
const PORTS: &[(&str, u16)] =
    &[("lan", 0), ("guests", 1), ("servers", 2), ("mgmt", 3), ("wan", 4), ("net", 5)];

/// The blocks of a language whose first line begins with `# NAME`.
fn block(language: &str, name: &str) -> &'static str {
    let blocks = PAGE.split("```").skip(1).step_by(2);
    let of = |block: &'static str| block.strip_prefix(language)?.strip_prefix('\n');
    let named = |block: &&str| block.starts_with(&format!("# {name}"));
    blocks.filter_map(of).find(named).unwrap_or("")
}

fn example(name: &str) -> Rules {
    let sets = [
        ("bad".to_owned(), vec!["file:bad.txt".to_owned()]),
        ("admins".to_owned(), vec!["192.0.2.9".to_owned()]),
    ];
    let (rules, nat) = (block("filter", name), block("nat", name));
    assert!(!rules.is_empty(), "{name}");
    let source = Source { rules, nat, sets: &sets, default: "block" };
    parse(&source, PORTS, &|_| Ok("192.0.2.128/25".into())).expect("an example without mistakes")
}

/// The action on a packet.
fn judge(rules: &Rules, asked: &str) -> Action {
    let program = Program::compile(rules).expect("an example that fits");
    program.judge(&question(asked, PORTS).expect("a question").packet).action
}

#[test]
fn a_home_begins_flows_and_offers_one_server() {
    let home = example("home");
    assert_eq!(judge(&home, "in lan out wan 192.168.1.5:9 > 8.8.8.8:53 udp"), Action::Pass);
    assert_eq!(judge(&home, "in wan out lan 8.8.8.8:9 > 192.168.1.10:443 tcp"), Action::Pass);
    assert_eq!(judge(&home, "in wan out lan 8.8.8.8:9 > 192.168.1.10:22 tcp"), Action::Block);
    assert_eq!(judge(&home, "in wan out lan 10.0.0.1:9 > 192.168.1.10:443 tcp"), Action::Block);
    let program = Program::compile(&home).expect("it fits");
    let asked = question("in wan out self 8.8.8.8:9 > 5.5.5.5:443 tcp", PORTS).expect("a question");
    assert_eq!(program.judge_dest(&asked.packet), Some(1));
    let asked = question("in lan out wan 192.168.1.5:9 > 8.8.8.8:53 udp", PORTS).expect("another");
    assert_eq!(program.judge_source(&asked.packet), Some(0));
}

#[test]
fn stateless_rules_pass_answers() {
    let rules = example("stateless");
    assert_eq!(judge(&rules, "in lan out wan 10.0.0.5:9 > 8.8.8.8:123 udp"), Action::Pass);
    assert_eq!(judge(&rules, "in wan out lan 8.8.8.8:123 > 10.0.0.5:9 udp"), Action::Pass);
    assert_eq!(judge(&rules, "in wan out lan 8.8.8.8:9 > 10.0.0.5:123 udp"), Action::Block);
}

#[test]
fn guests_of_an_office_reach_the_internet_and_the_name_server() {
    let office = example("office");
    let guest = |to: &str| judge(&office, &format!("in guests out {to} tcp"));
    assert_eq!(guest("wan 10.0.4.9:9 > 8.8.8.8:443"), Action::Pass);
    assert_eq!(guest("servers 10.0.4.9:9 > 10.0.8.53:53"), Action::Pass);
    assert_eq!(guest("servers 10.0.4.9:9 > 10.0.8.10:443"), Action::Reject);
    assert_eq!(guest("self 10.0.4.9:9 > 10.0.4.1:22"), Action::Reject);
    let server = |to: &str| judge(&office, &format!("in servers out {to} tcp"));
    assert_eq!(server("wan 10.0.8.10:9 > 8.8.8.8:443"), Action::Pass);
    assert_eq!(server("lan 10.0.8.10:9 > 10.0.0.9:445"), Action::Block);
    assert_eq!(server("wan 10.0.8.10:9 > 8.8.8.8:25"), Action::Block);
}

#[test]
fn a_host_alone_forwards_nothing() {
    let host = example("host");
    assert_eq!(judge(&host, "in net out self 192.0.2.9:9 > 192.0.2.1:22 tcp"), Action::Pass);
    assert_eq!(judge(&host, "in net out self 192.0.2.8:9 > 192.0.2.1:22 tcp"), Action::Block);
    assert_eq!(judge(&host, "in net out net 192.0.2.8:9 > 192.0.2.7:443 tcp"), Action::Block);
}

#[test]
fn an_ftp_server_has_its_range_of_ports() {
    let ftp = example("ftp");
    for (port, action) in [(21, Action::Pass), (50009, Action::Pass), (50010, Action::Block)] {
        let asked = format!("in wan out lan 8.8.8.8:9 > 10.0.0.5:{port} tcp");
        assert_eq!(judge(&ftp, &asked), action);
    }
    assert_eq!(judge(&ftp, "in lan out wan 10.0.0.9:9 > 8.8.8.8:50010 tcp"), Action::Pass);
    assert_eq!(ftp.nat.len(), 2);
}

#[test]
fn the_page_has_every_built_in_set() {
    for set in BUILT_IN {
        assert!(PAGE.contains(&format!("| `@{}` |", set.name)), "{}", set.name);
    }
}

#[test]
fn the_page_has_every_kind_that_passes_before_rules() {
    for kind in wirespeed_filter::program::always::ALWAYS {
        assert!(PAGE.contains(&format!("| {} |", kind.what)), "{}", kind.what);
    }
}
