//! Functions fit a screen: 70 lines at most, signature and closing brace included.

use super::source::item_end;
use super::{Finding, Project};

const MAX_LINES: usize = 70;

pub(super) fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &project.sources {
        let lines: Vec<&str> = source.code.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let Some(name) = function_name(line) else { continue };
            let length = item_end(&lines, index) - index + 1;
            if length > MAX_LINES {
                let what = format!("function {name} has {length} lines, {MAX_LINES} allowed");
                let remedy = "move a step of it into a function that says what the step is";
                findings.push(Finding::new(&source.path, index + 1, name, what, remedy));
            }
        }
    }
    findings
}

/// The name if a function item starts on this line.
fn function_name(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let qualifiers = ["const", "async", "unsafe", "extern", "safe"];
    let item = before.split_whitespace().all(|w| {
        w.starts_with("pub") || qualifiers.contains(&w)
        // `pub(in crate::x)` is two words.
        || w.ends_with(')')
    });
    let end = after.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    (item && end > 0).then(|| &after[..end])
}
