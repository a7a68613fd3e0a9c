//! Requirements against citations: those that are cited, excepted or missing, and what to fix.
//!
//! Called by: `mod.rs`. Plain data in and out.

use super::Citation;
use super::requirements::{Document, Level, Requirement, Trouble};

/// The number of requirements of one level in each standing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) cited: usize,
    pub(super) excepted: usize,
    pub(super) missing: usize,
}

impl Count {
    pub(super) fn sum(self) -> usize {
        self.cited + self.excepted + self.missing
    }
}

/// The counts of one document, or of all. Requirements that an RFC only permits (MAY) are not
/// counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) must: Count,
    pub(super) should: Count,
}

/// The result.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// In the order of the documents.
    pub(super) counts: Vec<Counts>,
    pub(super) all: Counts,
    pub(super) troubles: Vec<Trouble>,
}

enum Standing {
    Cited,
    Excepted,
    Missing(&'static str),
}

/// Compare.
pub(super) fn evaluate(documents: &[Document], citations: &[Citation]) -> Verdict {
    let mut verdict = Verdict::default();
    for document in documents {
        let mut counts = Counts::default();
        for r in &document.requirements {
            let name = format!("RFC {} {}", document.rfc, r.id);
            let (code, test) = cited(document.rfc, &r.id, citations);
            if r.exception.is_some() && code && test {
                let what = "is cited in code and in a test: take its exception away";
                verdict.troubles.push(Trouble::new(&name, what));
            }
            let standing = standing(r, code, test);
            if let Standing::Missing(what) = standing
                && matches!(r.level, Level::Must | Level::MustNot)
            {
                let what = format!("{what}, or write why not as its exception: {}", r.text);
                verdict.troubles.push(Trouble::new(&name, what));
            }
            add(&mut counts, r.level, &standing);
            add(&mut verdict.all, r.level, &standing);
        }
        verdict.counts.push(counts);
    }
    verdict.troubles.extend(unknown(documents, citations));
    verdict
}

/// Is it cited in code, and in a test?
fn cited(rfc: u32, id: &str, citations: &[Citation]) -> (bool, bool) {
    let of = |in_test| citations.iter().any(|c| c.rfc == rfc && c.id == id && c.in_test == in_test);
    (of(false), of(true))
}

fn standing(r: &Requirement, code: bool, test: bool) -> Standing {
    match (code, test) {
        (true, true) => Standing::Cited,
        _ if r.exception.is_some() => Standing::Excepted,
        (true, false) => Standing::Missing("is cited in no test: cite it in the one that shows it"),
        (false, true) => Standing::Missing("is cited in no code: cite it where it is done"),
        (false, false) => Standing::Missing("is cited nowhere: cite it in code and in a test"),
    }
}

fn add(counts: &mut Counts, level: Level, standing: &Standing) {
    let count = match level {
        Level::Must | Level::MustNot => &mut counts.must,
        Level::Should | Level::ShouldNot => &mut counts.should,
        Level::May => return,
    };
    match standing {
        Standing::Cited => count.cited += 1,
        Standing::Excepted => count.excepted += 1,
        Standing::Missing(_) => count.missing += 1,
    }
}

/// Citations that no file lists.
fn unknown(documents: &[Document], citations: &[Citation]) -> Vec<Trouble> {
    let is_listed = |c: &&Citation| {
        let of = documents.iter().find(|d| d.rfc == c.rfc);
        of.is_some_and(|d| d.requirements.iter().any(|r| r.id == c.id))
    };
    citations
        .iter()
        .filter(|c| !is_listed(c))
        .map(|c| {
            let (rfc, id) = (c.rfc, &c.id);
            let what = format!("cites RFC {rfc} {id}, which docs/rfc/rfc{rfc}.toml does not list");
            Trouble::new(format!("{}:{}", c.path, c.line), what)
        })
        .collect()
}
