//! Lines are at most 100 columns. rustfmt lays out code but leaves comments, macros and strings.

use super::{Finding, Project};

const MAX_COLUMNS: usize = 100;

pub(super) fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &project.sources {
        for (index, line) in source.text.lines().enumerate() {
            let columns = line.chars().count();
            // A URL cannot be broken.
            if columns > MAX_COLUMNS && !line.contains("://") {
                let what = format!("{columns} columns, {MAX_COLUMNS} allowed");
                let key = "columns";
                let remedy = "break the line";
                findings.push(Finding::new(&source.path, index + 1, key, what, remedy));
            }
        }
    }
    findings
}
