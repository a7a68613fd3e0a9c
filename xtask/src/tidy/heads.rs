//! Every source file outside tests begins with `//!`: what it is, who calls it, which RFC sections,
//! which counters.

use super::source::is_test;
use super::{Finding, Project};

pub(super) fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in project.sources.iter().filter(|s| !is_test(&s.path)) {
        if !source.text.starts_with("//!") {
            let what = "the file does not begin with //!".to_owned();
            let remedy =
                "say in up to five lines what it is, who calls it, which RFC sections it follows";
            findings.push(Finding::new(&source.path, 1, "head", what, remedy));
        }
    }
    findings
}
