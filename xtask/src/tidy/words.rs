//! Words of our own for things that the field has a word for: a finding names the word to use.
//!
//! The table is the rule "Words" of STYLE.md as data; a line is added whenever a word is replaced.
//! The files that have to name the old words are exempt.

use super::source::has_word;
use super::{Finding, Project};

/// Where a word is banned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// As a whole identifier: the word has other uses in prose, and as part of longer names.
    Identifier,
    /// As written, in code, comments, literals and .md files: a name that users saw, or a phrase.
    Text,
    /// Like `Text`, in any case and as a part of identifiers: `desk` in `ask_desk` and `DeskRow`.
    Word,
}

use Scope::{Identifier, Text, Word};

/// A banned word, where it is banned, and what to write.
pub(super) const WORDS: &[(&str, Scope, &str)] = &[
    ("Way", Identifier, "next hop, egress, route; a direction of a link"),
    ("Ways", Identifier, "directions"),
    ("has_way", Identifier, "is_resolved"),
    ("no_way", Identifier, "host_unreachable, no_route"),
    ("Place", Identifier, "readiness, wait queue; of a test: fixture"),
    ("Places", Identifier, "wait queues; of files: folders"),
    ("Waiters", Identifier, "wait queue"),
    ("Claim", Identifier, "advertisement"),
    ("ArpHold", Identifier, "NeighbourQueue"),
    ("ArpHoldTotal", Identifier, "NeighbourQueueTotal"),
    ("arp_hold", Text, "neighbour_queue"),
    ("arp_hold_total", Text, "neighbour_queue_total"),
    ("NeighbourHoldFull", Identifier, "NeighbourQueueFull"),
    ("neighbour_hold_full", Text, "neighbour_queue_full"),
    ("is_tight", Identifier, "under_memory_pressure"),
    ("memory is tight", Text, "under memory pressure"),
    ("floor_us", Identifier, "rto_min_us"),
    ("rto_floor", Identifier, "rto_min"),
    ("Rest", Identifier, "IdlePolicy"),
    ("Told", Identifier, "report, outcome, error"),
    ("told_too_big", Identifier, "packet_too_big"),
    ("error_told", Identifier, "error_reported"),
    ("was_told", Identifier, "was_reported"),
    ("untold", Identifier, "unreported"),
    ("told of", Text, "reported, notified of"),
    ("Gate", Identifier, "hook"),
    ("gated", Identifier, "dropped_by_hook"),
    ("set_gate", Identifier, "set_hook"),
    ("Lie", Identifier, "misbehaviour"),
    ("Lying", Identifier, "adversary"),
    ("stand_in", Identifier, "placeholder"),
    ("stand-in", Text, "placeholder"),
    ("Manners", Identifier, "mode, options"),
    ("Happening", Identifier, "scheduled event"),
    ("Agenda", Identifier, "event queue"),
    ("hatched", Identifier, "handshake_ended"),
    ("desk", Word, "control service"),
    ("hatch", Word, "request mailbox"),
    ("hatches", Word, "request mailboxes"),
    ("governor", Word, "interrupt moderation"),
    ("seldom", Word, "rare, rarely"),
    ("spared", Word, "exempt"),
    ("heal", Word, "recover"),
    ("heals", Word, "recovers"),
    ("healed", Word, "recovered"),
    ("hoard", Word, "exhaust, withhold"),
    ("hoards", Word, "exhausts, withholds"),
    ("liar", Word, "adversary, adversarial peer"),
    ("liars", Word, "adversaries, adversarial peers"),
    ("chatter", Word, "background traffic"),
    ("chatters", Word, "background flows"),
    ("orderly", Word, "graceful"),
    ("Switch::Alone", Text, "Switch::OutputFastPath"),
    ("output::alone", Text, "output::fast_path"),
    ("mend", Word, "fix"),
    ("mends", Word, "fixes"),
    ("mended", Word, "fixed"),
    ("mending", Word, "fixing"),
];

/// Files that have to name the old words.
const EXEMPT: &[&str] = &["xtask/src/tidy/words.rs", "xtask/src/tidy/tests.rs"];

pub(super) fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in project.sources.iter().filter(|s| !EXEMPT.contains(&s.path.as_str())) {
        findings.extend(in_lines(&source.path, &source.code, &[Identifier]));
        findings.extend(in_lines(&source.path, &source.text, &[Text, Word]));
    }
    for (path, text) in project.tree.ending(".md").filter(|(path, _)| !EXEMPT.contains(path)) {
        findings.extend(in_lines(path, text, &[Text, Word]));
    }
    findings
}

fn in_lines(path: &str, text: &str, scopes: &[Scope]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let words = if scopes.contains(&Word) { words(line) } else { Vec::new() };
        for (old, scope, remedy) in WORDS.iter().filter(|(_, scope, _)| scopes.contains(scope)) {
            let is_there = match scope {
                Word => words.iter().any(|word| word == old),
                Identifier | Text => has_word(line, old),
            };
            if is_there {
                let what = format!("`{old}` is not the field's word");
                let remedy = format!("write: {remedy}");
                findings.push(Finding::new(path, index + 1, old, what, &remedy));
            }
        }
    }
    findings
}

/// The words of a line in lower case; an identifier is split at `_` and where a capital begins.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in line.chars() {
        if !c.is_alphabetic() || (c.is_uppercase() && was_lower) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c.is_alphabetic()) {
            word.extend(c.to_lowercase());
        }
        was_lower = c.is_lowercase();
    }
    words
}
