//! `cargo xtask rfc`: are the requirements that docs/rfc claims done in code and shown by a test?
//!
//! Called by: people, and `cargo xtask test`. Reads docs/rfc/*.toml and the comments under crates/.
//! It does not interpret the requirements. A MUST is one case: it passes if it is cited in code and
//! in a test, or if it has an exception with a reason.

mod evaluate;
mod requirements;
#[cfg(test)]
mod tests;

use std::path::Path;

use anyhow::Result;
use evaluate::{Counts, Verdict};
use requirements::{Document, is_id};

use crate::report::{Tally, step};
use crate::tidy::source::{Source, is_test, item_end, krate};
use crate::tree::Tree;

/// Check all documents; with `list`, print each requirement and where it is cited.
pub(crate) fn run(root: &Path, list: bool, tally: &mut Tally) -> Result<()> {
    step("rfc", tally, |tally| {
        let tree = Tree::read(root)?;
        let (documents, mut troubles) = requirements::read(&tree);
        let citations: Vec<Citation> = tree
            .ending(".rs")
            .filter(|(path, _)| path.starts_with("crates/"))
            .flat_map(|(path, text)| find(&Source::new(path, text)))
            .collect();
        let verdict = evaluate::evaluate(&documents, &citations);
        if list {
            print!("{}", listed(&documents, &citations));
        }
        print!("{}", table(&documents, &verdict));
        troubles.extend(verdict.troubles);
        (0..verdict.all.must.cited + verdict.all.must.excepted).for_each(|_| tally.pass());
        for trouble in &troubles {
            tally.fail(&trouble.place, &trouble.what);
        }
        Ok(())
    })
}

/// One line a document and one for all: counts of cited, excepted and missing.
fn table(documents: &[Document], verdict: &Verdict) -> String {
    let head = "          MUST  cited  excepted  missing   SHOULD  cited  excepted  missing\n";
    let mut text = head.to_owned();
    for (document, counts) in documents.iter().zip(&verdict.counts) {
        let name = format!("RFC {}", document.rfc);
        text.push_str(&line(&name, counts, &document.title));
    }
    text.push_str(&line("all", &verdict.all, ""));
    text
}

fn line(name: &str, counts: &Counts, title: &str) -> String {
    let (m, s) = (&counts.must, &counts.should);
    let line = format!(
        "{name:<9} {:>4}  {:>5}  {:>8}  {:>7}   {:>6}  {:>5}  {:>8}  {:>7}   {title}",
        m.sum(),
        m.cited,
        m.excepted,
        m.missing,
        s.sum(),
        s.cited,
        s.excepted,
        s.missing,
    );
    format!("{}\n", line.trim_end())
}

/// Every requirement with the places that cite it.
fn listed(documents: &[Document], citations: &[Citation]) -> String {
    let mut text = String::new();
    for document in documents {
        for r in &document.requirements {
            text.push_str(&format!(
                "RFC {} {} ({}, {}): {}\n",
                document.rfc,
                r.id,
                r.section(),
                r.level.name(),
                r.text
            ));
            if let Some(reason) = &r.exception {
                text.push_str(&format!("    exception: {reason}\n"));
            }
            for c in citations.iter().filter(|c| c.rfc == document.rfc && c.id == r.id) {
                let kind = if c.in_test { "test" } else { "code" };
                text.push_str(&format!("    {kind} {}:{}\n", c.path, c.line));
            }
        }
    }
    text
}

// Citations in comments: `RFC 9293 MUST-58`, `RFC 5681 3.2-b`, several after commas or `and`.
//
// A citation counts as one in a test if it is in a file of tests, in an item under `#[cfg(test)]`,
// or in a crate that exists to test others.

/// Crates that exist to test others: their laws and worlds count as tests.
const TEST_CRATES: &[&str] = &["sim", "testbed"];

/// One requirement cited at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Citation {
    rfc: u32,
    id: String,
    path: String,
    /// From 1.
    line: usize,
    in_test: bool,
}

/// Every citation of a file.
fn find(source: &Source) -> Vec<Citation> {
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
