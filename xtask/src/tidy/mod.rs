//! `cargo xtask tidy`: the project's rules as checks over its sources, one module a rule.
//!
//! A check is a function from the project to findings; a finding says where and what to do. An
//! exception is a line in `exceptions.rs` with its reason.

mod banned;
mod circles;
mod columns;
mod exceptions;
mod finding;
mod heads;
pub(crate) mod imports;
mod licences;
mod links;
mod mission;
mod packet_path;
mod sizes;
pub(crate) mod source;
#[cfg(test)]
mod tests;
mod unsafe_code;
mod words;

use crate::cargo::Metadata;
use crate::report::{Tally, step};
use crate::tree::Tree;
use anyhow::Result;
use finding::{Finding, Project};
use std::path::Path;

type Check = fn(&Project) -> Vec<Finding>;

/// Every check, with the name that exceptions use.
const CHECKS: &[(&str, Check)] = &[
    ("imports", imports::check),
    ("circles", circles::check),
    ("unsafe", unsafe_code::check),
    ("sizes", sizes::check),
    ("columns", columns::check),
    ("banned", banned::check),
    ("words", words::check),
    ("packet-path", packet_path::check),
    ("heads", heads::check),
    ("mission", mission::check),
    ("licences", licences::check),
    ("links", links::check),
];

/// Run every check over the workspace at `root`; each is one case.
pub(crate) fn run(root: &Path, tally: &mut Tally) -> Result<()> {
    step("tidy", tally, |tally| {
        let project = Project::new(Tree::read(root)?, Metadata::read(root)?);
        let mut used = Vec::new();
        for (name, check) in CHECKS {
            let findings = exceptions::apply(name, check(&project), exceptions::TABLE, &mut used);
            record(name, &findings, tally);
        }
        record("exceptions", &exceptions::unused(exceptions::TABLE, &used), tally);
        Ok(())
    })
}

fn record(name: &str, findings: &[Finding], tally: &mut Tally) {
    for finding in findings {
        println!("{finding} [{name}]");
    }
    match findings.iter().filter(|f| !f.warning).count() {
        0 => tally.pass(),
        n => tally.fail(&format!("tidy {name}"), &format!("{n} findings, listed above")),
    }
}
