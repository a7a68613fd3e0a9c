//! The requirements of docs/rfc: one TOML file for each RFC, an entry for each requirement.
//!
//! Called by: `mod.rs`. docs/rfc/README.md describes the form; a violation is a trouble that says
//! what to write instead.

use crate::tree::Tree;
use serde::Deserialize;
use std::collections::BTreeSet;

const FOLDER: &str = "docs/rfc/";

/// The level of a requirement.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub(super) enum Level {
    #[serde(rename = "MUST")]
    Must,
    #[serde(rename = "MUST NOT")]
    MustNot,
    #[serde(rename = "SHOULD")]
    Should,
    #[serde(rename = "SHOULD NOT")]
    ShouldNot,
    #[serde(rename = "MAY")]
    May,
}

impl Level {
    pub(super) fn name(self) -> &'static str {
        match self {
            Level::Must => "MUST",
            Level::MustNot => "MUST NOT",
            Level::Should => "SHOULD",
            Level::ShouldNot => "SHOULD NOT",
            Level::May => "MAY",
        }
    }
}

/// One requirement.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Requirement {
    /// The RFC's own number (`MUST-58`, `REQ-5a`), or its section and a letter (`3.2-b`).
    pub(super) id: String,
    /// The section of the RFC; left out where the id begins with it.
    section: Option<String>,
    pub(super) level: Level,
    /// The requirement, in our own words.
    pub(super) text: String,
    /// Why it is not done, or cannot be shown by a test.
    pub(super) exception: Option<String>,
}

impl Requirement {
    /// The section of the RFC.
    pub(super) fn section(&self) -> &str {
        match (&self.section, self.id.rsplit_once('-')) {
            (Some(section), _) => section.as_str(),
            (None, Some((section, _))) => section,
            (None, None) => "",
        }
    }
}

/// One RFC.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    pub(super) rfc: u32,
    pub(super) title: String,
    #[serde(default, rename = "requirement")]
    pub(super) requirements: Vec<Requirement>,
}

/// Something to fix, and its place.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) place: String,
    pub(super) what: String,
}

impl Trouble {
    pub(super) fn new(place: impl Into<String>, what: impl Into<String>) -> Trouble {
        Trouble { place: place.into(), what: what.into() }
    }
}

/// All documents, in the order of their numbers, and the errors in their files.
pub(super) fn read(tree: &Tree) -> (Vec<Document>, Vec<Trouble>) {
    let (mut documents, mut troubles) = (Vec::new(), Vec::new());
    for (path, text) in tree.ending(".toml").filter(|(path, _)| path.starts_with(FOLDER)) {
        match toml::from_str::<Document>(text) {
            Ok(document) => {
                check(path, &document, &mut troubles);
                documents.push(document);
            }
            Err(e) => troubles.push(Trouble::new(path, e.to_string())),
        }
    }
    if documents.is_empty() && troubles.is_empty() {
        let what = "no requirements there: restore the files from the history";
        troubles.push(Trouble::new(FOLDER, what));
    }
    documents.sort_by_key(|document| document.rfc);
    (documents, troubles)
}

fn check(path: &str, document: &Document, troubles: &mut Vec<Trouble>) {
    let mut add = |what: String| troubles.push(Trouble::new(path, what));
    if path != format!("{FOLDER}rfc{}.toml", document.rfc) {
        add(format!("is about RFC {}: name it rfc{}.toml", document.rfc, document.rfc));
    }
    let mut seen = BTreeSet::new();
    for r in &document.requirements {
        if !seen.insert(&r.id) {
            add(format!("{} is listed twice: keep one", r.id));
        }
        if !is_id(&r.id) {
            add(format!("{} is no id: write MUST-1, SHLD-1, MAY-1, REQ-1, REQ-1a or 3.2-a", r.id));
        } else if !r.section().starts_with(|c: char| c.is_ascii_digit()) {
            add(format!("{} has no section: add one", r.id));
        }
        if r.text.trim().is_empty() {
            add(format!("{} says nothing: add its text", r.id));
        }
        if r.exception.as_ref().is_some_and(|reason| reason.trim().is_empty()) {
            add(format!("{}: an exception needs a reason", r.id));
        }
    }
}

/// Is this the id of a requirement: `MUST-58`, `SHLD-3`, `MAY-2`, `REC-1`, `REQ-5`, `REQ-5a`,
/// `REQ-11B`, or `3.2-b`?
pub(super) fn is_id(word: &str) -> bool {
    let Some((left, right)) = word.rsplit_once('-') else { return false };
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    match left {
        "MUST" | "SHLD" | "MAY" | "REC" => digits(right),
        "REQ" => digits(right.strip_suffix(|c: char| c.is_ascii_alphabetic()).unwrap_or(right)),
        _ => {
            left.split('.').all(digits)
                && right.len() == 1
                && right.bytes().all(|b| b.is_ascii_lowercase())
        }
    }
}
