//! Links between the project's documents point to existing files.

use super::{Finding, Project};

pub(super) fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in project.tree.ending(".md") {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (index, line) in text.lines().enumerate() {
            for target in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                let file = target.split('#').next().unwrap_or("");
                if file.is_empty() || target.contains("://") {
                    continue;
                }
                let full = resolve(folder, file);
                if project.tree.get(&full).is_none() && !project.tree.has_folder(&full) {
                    let what = format!("the link to {target} leads nowhere");
                    let remedy = "correct it, or bring the file";
                    findings.push(Finding::new(path, index + 1, target, what, remedy));
                }
            }
        }
    }
    findings
}

/// A relative link as a path from the root.
fn resolve(folder: &str, link: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in link.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "" | "." => {}
            name => parts.push(name),
        }
    }
    parts.join("/")
}
