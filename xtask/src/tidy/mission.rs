//! docs/mission.md has every line of the mission, each with the command that shows it, the test
//! that guards it and the figure that was reached. No line is dropped.

use super::{Finding, Project};

const PATH: &str = "docs/mission.md";
/// The number of lines from each of the five background documents.
const LINES: &[(usize, usize)] = &[(0, 26), (1, 9), (2, 11), (3, 14), (4, 6)];
const COLUMNS: &[&str] = &["id", "line", "command", "test", "figure"];

pub(super) fn check(project: &Project) -> Vec<Finding> {
    let Some(text) = project.tree.get(PATH) else {
        let what = "the file is missing".to_owned();
        return vec![Finding::new(PATH, 1, "file", what, "restore it from the history")];
    };
    let mut findings = Vec::new();
    let mut seen = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let Some(cells) = row(line) else { continue };
        let id = cells[0];
        let mut add = |what: String, remedy: &str| {
            findings.push(Finding::new(PATH, index + 1, id, what, remedy));
        };
        if seen.contains(&id) {
            add(format!("line {id} is there twice"), "keep one");
        }
        seen.push(id);
        if cells.len() != COLUMNS.len() {
            let columns = COLUMNS.join(" | ");
            add(format!("line {id} has {} cells", cells.len()), &format!("write {columns}"));
            continue;
        }
        for (name, _) in COLUMNS.iter().zip(&cells).filter(|(_, cell)| cell.is_empty()) {
            add(
                format!("line {id}: {name} is empty"),
                "fill it; write `none` and why if there is none",
            );
        }
        for test in cells[3].split('`').skip(1).step_by(2).filter(|test| !defined(project, test)) {
            add(format!("line {id}: no test `{test}`"), "name a test function or a file");
        }
    }
    for id in ids().filter(|id| !seen.contains(&id.as_str())) {
        let what = format!("line {id} of the mission is missing");
        findings.push(Finding::new(PATH, 1, &id, what, "put it back; a line is never dropped"));
    }
    findings
}

fn ids() -> impl Iterator<Item = String> {
    LINES.iter().flat_map(|&(doc, n)| (1..=n).map(move |line| format!("{doc}.{line}")))
}

/// The cells of a table row that begins with the id of a line.
fn row(line: &str) -> Option<Vec<&str>> {
    let cells: Vec<&str> =
        line.trim().strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
    let (doc, number) = cells[0].split_once('.')?;
    let is_id = doc.parse::<usize>().is_ok() && number.parse::<usize>().is_ok();
    is_id.then_some(cells)
}

/// Is there a test function, or a file, of that name?
fn defined(project: &Project, test: &str) -> bool {
    let name = test.rsplit("::").next().unwrap_or(test);
    project.tree.get(test).is_some()
        || project.sources.iter().any(|s| s.code.contains(&format!("fn {name}(")))
}
