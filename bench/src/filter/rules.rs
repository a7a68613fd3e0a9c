//! The rules of the rows, in our language and in nft's. Called by `filter`. Each list of rules has
//! the same meaning in both languages. None of the numbered rules matches a packet that is sent.

use std::fmt::Write as _;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use filter::states::Timeouts;
use filter::{Published, text};

/// The router's ports, as rules name them.
const PORTS: [(&str, u16); 2] = [("lan", 0), ("wan", 1)];

/// What a router does with the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    /// How many rules there are before the last one, which passes everything from `lan` to `wan`.
    pub(super) count: usize,
    /// Do flows have states?
    pub(super) has_states: bool,
    /// Do sources get the address of the port `wan` (source NAT)?
    pub(super) is_masqueraded: bool,
}

/// Rules with states.
pub(super) const fn stateful(count: usize) -> Rules {
    Rules { count, has_states: true, is_masqueraded: false }
}

/// Rules with states and source NAT.
pub(super) const fn masqueraded(count: usize) -> Rules {
    Rules { is_masqueraded: true, ..stateful(count) }
}

/// The source, the destination and the port of rule `n`. The source is in 10.0.0.0/8, which sends
/// nothing in this bench.
fn clauses(n: usize) -> (String, String, usize) {
    let (high, low) = (n / 250, n % 250);
    (format!("10.{high}.{low}.0/24"), format!("172.16.{low}.0/24"), 1_000 + n)
}

impl Rules {
    /// The rules in our language, and the rules of NAT.
    fn ours(&self) -> (String, &'static str) {
        let mut rules = String::new();
        let state = if self.has_states { "" } else { " stateless" };
        for n in 0..self.count {
            let (src, dst, port) = clauses(n);
            // Writing into a string cannot fail.
            let _ = writeln!(rules, "block in lan out wan from {src} to {dst} tcp {port}");
        }
        let _ = writeln!(rules, "pass in lan out wan{state}");
        (rules, if self.is_masqueraded { "source out wan to port" } else { "" })
    }

    /// The rules, compiled.
    pub(super) fn published(&self, generation: u32) -> Result<Arc<Published>> {
        let (rules, nat) = self.ours();
        let source = text::Source { rules: &rules, nat, ..text::Source::default() };
        published(&source, generation)
    }

    /// The rules in the language of `nft -f`.
    pub(super) fn nft(&self) -> String {
        let mut rules = String::from("table inet bench {\n chain forward {\n");
        rules += "  type filter hook forward priority filter; policy drop;\n";
        if self.has_states {
            rules += "  ct state established,related accept\n";
        }
        for n in 0..self.count {
            let (src, dst, port) = clauses(n);
            let _ = writeln!(rules, "  ip saddr {src} ip daddr {dst} tcp dport {port} drop");
        }
        rules += "  iifname \"ra\" oifname \"rb\" accept\n }\n";
        if self.is_masqueraded {
            rules += " chain postrouting {\n  type nat hook postrouting priority srcnat;\n";
            rules += "  oifname \"rb\" masquerade\n }\n";
        }
        rules + "}\n"
    }
}

/// A rule that blocks the networks of a set, to which no packet belongs, and one that passes
/// everything.
pub(super) fn of_set(networks: usize, generation: u32) -> Result<Arc<Published>> {
    // Networks with 24-bit prefixes between 32.0.0.0 and 191.255.255.0, spread by an odd factor.
    let network = |n: usize| {
        let n = 0x20_0000 + n * 7 % 0xa0_0000;
        format!("{}.{}.{}.0/24", n >> 16, n >> 8 & 255, n & 255)
    };
    let sets = [("many".to_owned(), (0..networks).map(network).collect())];
    let rules = "block in lan out wan from @many\npass in lan out wan";
    published(&text::Source { rules, sets: &sets, ..text::Source::default() }, generation)
}

fn published(source: &text::Source<'_>, generation: u32) -> Result<Arc<Published>> {
    let rules = text::parse(source, &PORTS, &|_| Err("no files".into()));
    let rules = rules.map_err(|mistakes| {
        anyhow!("{}", mistakes.first().map(ToString::to_string).unwrap_or_default())
    })?;
    let compiled = Published::compile(rules, Timeouts::default(), generation);
    compiled.map_err(|why| anyhow!("the rules are too large: {why:?}"))
}
