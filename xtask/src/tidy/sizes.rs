//! Files stay short: a warning past 600 lines, a failure past 1000.

use super::{Finding, Project};

const WARN_LINES: usize = 600;
const FAIL_LINES: usize = 1000;

pub(super) fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &project.sources {
        let lines = source.text.lines().count();
        let what = format!("{lines} lines");
        let remedy = "cut the file where its subject changes; tests go to a sibling tests.rs";
        let finding = Finding::new(&source.path, lines, "lines", what, remedy);
        if lines > FAIL_LINES {
            findings.push(finding);
        } else if lines > WARN_LINES {
            findings.push(finding.warned());
        }
    }
    findings
}
