//! Citations in comments: `RFC 9293 MUST-58`, `RFC 5681 3.2-b`, several after commas or `and`.
//!
//! Called by: `mod.rs`, for each Rust file under crates/. A citation counts as one in a test if it
//! is in a file of tests, in an item under `#[cfg(test)]`, or in a crate that exists to test
//! others.

use super::requirements::is_id;
use crate::tidy::source::{Source, is_test, item_end, krate};

/// Crates that exist to test others: their laws and worlds count as tests.
const TEST_CRATES: &[&str] = &["sim", "testbed"];

/// One requirement cited at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Citation {
    pub(super) rfc: u32,
    pub(super) id: String,
    pub(super) path: String,
    /// From 1.
    pub(super) line: usize,
    pub(super) in_test: bool,
}

/// Every citation of a file.
pub(super) fn find(source: &Source) -> Vec<Citation> {
    let whole = is_test(&source.path) || TEST_CRATES.contains(&krate(&source.path));
    let tests = test_lines(&source.code);
    let mut found = Vec::new();
    for words in comments(&source.text) {
        for (line, rfc, id) in citations(&words) {
            let in_test = whole || tests.get(line - 1).copied().unwrap_or(false);
            let (path, id) = (source.path.clone(), id.to_owned());
            found.push(Citation { rfc, id, path, line, in_test });
        }
    }
    found
}

/// The words of each comment with their line numbers; consecutive lines are one comment, so that a
/// citation may be wrapped.
fn comments(text: &str) -> Vec<Vec<(usize, &str)>> {
    let mut all = Vec::new();
    let mut running: Vec<(usize, &str)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let whole = line.trim_start().strip_prefix("//");
        if whole.is_none() {
            all.push(std::mem::take(&mut running));
        }
        let comment = whole.or_else(|| line.split_once(" // ").map(|(_, after)| after));
        if let Some(comment) = comment {
            let bare = comment.trim_start_matches(['/', '!']);
            running.extend(bare.split_whitespace().map(|word| (index + 1, word)));
        }
        if whole.is_none() {
            all.push(std::mem::take(&mut running));
        }
    }
    all.push(running);
    all.retain(|words| !words.is_empty());
    all
}

/// Line, RFC and id of each citation among the words of a comment.
fn citations<'a>(words: &[(usize, &'a str)]) -> Vec<(usize, u32, &'a str)> {
    let mut found = Vec::new();
    let mut rfc = None;
    for (at, &(line, word)) in words.iter().enumerate() {
        let before = at.checked_sub(1).map_or("", |i| words[i].1);
        let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        if before.trim_matches(|c: char| !c.is_ascii_alphanumeric()) == "RFC" {
            rfc = bare.parse::<u32>().ok();
        } else if let Some(rfc) = rfc.filter(|_| is_id(bare)) {
            found.push((line, rfc, bare));
        } else if bare != "and" {
            rfc = None;
        }
    }
    found
}

/// Which lines are inside an item under `#[cfg(test)]`.
fn test_lines(code: &str) -> Vec<bool> {
    let lines: Vec<&str> = code.lines().collect();
    let mut tests = vec![false; lines.len()];
    let mut at = 0;
    while at < lines.len() {
        if lines[at].contains("#[cfg(test)]") || lines[at].contains("#[cfg(all(test") {
            let end = item_end(&lines, at + 1);
            tests[at..=end].fill(true);
            at = end;
        }
        at += 1;
    }
    tests
}
