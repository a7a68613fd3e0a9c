//! `cargo xtask tidy`: the project's rules as checks over its sources, one module a rule.
//!
//! A check is a function from the project to findings; a finding says where and what to do. An
//! exception is a line in `exceptions.rs` with its reason.

mod banned;
mod columns;
mod exceptions;
mod heads;
mod imports;
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
use source::Source;
use std::path::Path;

/// The input of a check.
pub(crate) struct Project {
    tree: Tree,
    sources: Vec<Source>,
    metadata: Metadata,
}

impl Project {
    fn new(tree: Tree, metadata: Metadata) -> Project {
        let sources = tree.ending(".rs").map(|(path, text)| Source::new(path, text)).collect();
        Project { tree, sources, metadata }
    }
}

/// A place where a rule is broken.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    /// What exceptions name: a function, a pattern, a package.
    key: String,
    what: String,
    remedy: String,
    /// A warning is printed but does not fail.
    warning: bool,
}

impl Finding {
    fn new(path: &str, line: usize, key: &str, what: String, remedy: &str) -> Finding {
        let (path, key, remedy) = (path.to_owned(), key.to_owned(), remedy.to_owned());
        Finding { path, line, key, what, remedy, warning: false }
    }

    fn warned(self) -> Finding {
        Finding { warning: true, ..self }
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if self.warning { "warning: " } else { "" };
        write!(f, "{}:{}: {kind}{}; {}", self.path, self.line, self.what, self.remedy)
    }
}

type Check = fn(&Project) -> Vec<Finding>;

/// Every check, with the name that exceptions use.
const CHECKS: &[(&str, Check)] = &[
    ("imports", imports::check),
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
