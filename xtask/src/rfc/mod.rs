//! `cargo xtask rfc`: are the requirements that docs/rfc claims done in code and shown by a test?
//!
//! Called by: people, and `cargo xtask test`. Reads docs/rfc/*.toml and the comments under crates/.
//! It does not interpret the requirements. A MUST is one case: it passes if it is cited in code and
//! in a test, or if it has an exception with a reason.

mod cite;
mod evaluate;
mod requirements;
#[cfg(test)]
mod tests;

use crate::report::{Tally, step};
use crate::tidy::source::Source;
use crate::tree::Tree;
use anyhow::Result;
use cite::Citation;
use evaluate::{Counts, Verdict};
use requirements::Document;
use std::path::Path;

/// Check all documents; with `list`, print each requirement and where it is cited.
pub(crate) fn run(root: &Path, list: bool, tally: &mut Tally) -> Result<()> {
    step("rfc", tally, |tally| {
        let tree = Tree::read(root)?;
        let (documents, mut troubles) = requirements::read(&tree);
        let citations: Vec<Citation> = tree
            .ending(".rs")
            .filter(|(path, _)| path.starts_with("crates/"))
            .flat_map(|(path, text)| cite::find(&Source::new(path, text)))
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
