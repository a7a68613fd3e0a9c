//! Learning: the rules that a run needed, from the lines of its log.
//!
//! Called by: `policy learn`, and at the end of a run with `--learn`. A flow counts by the name in
//! its TLS hello, else by the last name of its destination, else by its address. What was refused
//! is listed as comments. The same lines in any order give the same text.

use core::fmt::Write as _;
use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use crate::log::Line;
use crate::name::Pattern;

/// Destinations that are kept, allowed ones, and as many refused ones.
pub const DESTINATIONS_MAX: usize = 65_536;

/// A destination as a rule names it; names come first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Destination {
    Name(String),
    Address(IpAddr),
}

/// A port of a protocol as rules write it, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Service {
    Tcp(u16),
    Udp(u16),
    Echo,
}

impl Service {
    fn text(self) -> String {
        match self {
            Service::Tcp(port) => port.to_string(),
            Service::Udp(port) => format!("{port}/udp"),
            Service::Echo => "echo".to_owned(),
        }
    }
}

/// What the lines of a log say.
#[derive(Clone, Debug, Default)]
pub struct Learned {
    allowed: BTreeMap<Destination, BTreeSet<Service>>,
    refused: BTreeSet<(String, String)>,
    /// Lines that are none of ours.
    pub unreadable: u64,
    /// Destinations for which there was no room.
    pub left_out: u64,
}

impl Learned {
    /// Take a line of the log.
    pub fn line(&mut self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        match serde_json::from_str::<Line>(text) {
            Ok(line) => self.take(&line),
            Err(_) => self.unreadable += 1,
        }
    }

    fn take(&mut self, line: &Line) {
        if line.verdict != "allow" {
            let what = match (line.destination, line.names.first()) {
                (Some(to), Some(name)) => format!("{} {to} ({name})", line.protocol),
                (Some(to), None) => format!("{} {to}", line.protocol),
                (None, Some(name)) => format!("{} {name}", line.protocol),
                (None, None) => return,
            };
            let is_new = self.refused.len() < DESTINATIONS_MAX;
            match is_new {
                true => drop(self.refused.insert((printable(&what), printable(&line.rule)))),
                false => self.left_out += 1,
            }
            return;
        }
        // The resolver and published ports need no rule.
        let (Some(to), false) = (line.destination, is_own(&line.rule)) else { return };
        let service = match line.protocol.as_str() {
            "tcp" => Service::Tcp(to.port()),
            "udp" => Service::Udp(to.port()),
            "echo" => Service::Echo,
            _ => return,
        };
        let names = line.sni.iter().chain(line.names.first());
        let name = names.filter_map(|name| Pattern::parse(name).ok()).next();
        let destination = match name {
            Some(pattern) => Destination::Name(pattern.to_string()),
            None => Destination::Address(to.ip().to_canonical()),
        };
        if self.allowed.len() >= DESTINATIONS_MAX && !self.allowed.contains_key(&destination) {
            self.left_out += 1;
            return;
        }
        self.allowed.entry(destination).or_default().insert(service);
    }

    /// The policy: it allows what was allowed, and nothing else.
    pub fn policy(&self) -> String {
        let mut text = String::from("default = \"deny\"\n");
        // Destinations with the same ports share a rule.
        let mut rules: BTreeMap<(bool, &BTreeSet<Service>), Vec<String>> = BTreeMap::new();
        for (destination, services) in &self.allowed {
            let (is_address, text) = match destination {
                Destination::Name(name) => (false, name.clone()),
                Destination::Address(address) => (true, address.to_string()),
            };
            rules.entry((is_address, services)).or_default().push(text);
        }
        for ((_, services), all) in rules {
            let services: Vec<String> = services.iter().map(|service| service.text()).collect();
            let _ =
                write!(text, "\n[[rule]]\nallow = {}\nports = {}\n", list(&all), list(&services));
        }
        if !self.refused.is_empty() {
            text.push_str("\n# Refused in this run:\n");
        }
        for (what, rule) in &self.refused {
            let _ = writeln!(text, "# {what}, by {rule}");
        }
        text
    }
}

/// Did the gateway itself decide, without a rule?
fn is_own(rule: &str) -> bool {
    matches!(rule, "resolver" | "published")
}

/// A list of TOML, a line each if it is long. None of the words needs an escape.
fn list(words: &[String]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    let line = quoted.join(", ");
    if line.len() <= 80 {
        format!("[{line}]")
    } else {
        format!("[\n    {},\n]", quoted.join(",\n    "))
    }
}

/// Text of a log without control characters, which would end a comment.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{Source, parse};

    /// A line of a log, from its protocol, destination and other fields.
    fn line(kind: &str, to: &str, others: &str) -> String {
        format!(
            r#"{{"time":"t","protocol":"{kind}","destination":"{to}",{others}"rule":"default"}}"#
        )
    }

    fn log() -> Vec<String> {
        let allow = r#""verdict":"allow","#;
        let github = &format!(r#""names":["github.com"],{allow}"#);
        let pypi = &format!(r#""names":["x.test","pypi.org"],"sni":"pypi.org",{allow}"#);
        let deny = r#""names":["a\ndefault = 1"],"verdict":"deny","#;
        let own = line("tcp", "10.0.2.3:53", allow).replace("default", "resolver");
        vec![
            line("tcp", "140.82.121.3:443", github),
            line("tcp", "140.82.121.4:22", github),
            line("tcp", "151.101.1.1:443", pypi),
            line("udp", "192.0.2.7:123", allow),
            line("udp", "[::ffff:192.0.2.6]:123", allow),
            line("echo", "8.8.8.8:0", allow),
            own,
            line("tcp", "10.0.0.1:80", deny),
            "not ours".to_owned(),
        ]
    }

    #[test]
    fn rules_are_merged_and_the_order_of_lines_does_not_matter() {
        let learn = |lines: &mut dyn Iterator<Item = &String>| {
            let mut learned = Learned::default();
            lines.for_each(|line| learned.line(line));
            assert_eq!(learned.unreadable, 1);
            learned.policy()
        };
        let log = log();
        let text = learn(&mut log.iter());
        assert_eq!(text, learn(&mut log.iter().rev()));
        assert_eq!(
            text,
            "default = \"deny\"\n\n\
             [[rule]]\nallow = [\"github.com\"]\nports = [\"22\", \"443\"]\n\n\
             [[rule]]\nallow = [\"pypi.org\"]\nports = [\"443\"]\n\n\
             [[rule]]\nallow = [\"192.0.2.6\", \"192.0.2.7\"]\nports = [\"123/udp\"]\n\n\
             [[rule]]\nallow = [\"8.8.8.8\"]\nports = [\"echo\"]\n\n\
             # Refused in this run:\n\
             # tcp 10.0.0.1:80 (a default = 1), by default\n"
        );
        let source = Source { file: Some(("learnt", &text)), ..Source::default() };
        let rules = parse(&source, &|_| Err(String::new())).expect("it is a policy");
        assert_eq!(rules.rules.len(), 4);
    }
}
