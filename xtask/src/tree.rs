//! The project's text files in memory: read once, used by every check. Checks are tested on trees
//! written in the test.

use crate::process;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Path relative to the root, and text.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    files: BTreeMap<String, String>,
}

impl Tree {
    /// Every file that git tracks or would track, as far as it is text.
    pub(crate) fn read(root: &Path) -> Result<Tree> {
        let listed = process::output(Command::new("git").current_dir(root).args([
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
        ]))
        .context("tidy needs git to know which files belong to the project")?;
        let mut tree = Tree::default();
        for path in listed.lines() {
            // Binary files and files deleted but still tracked are not ours to judge.
            if let Ok(text) = std::fs::read_to_string(root.join(path)) {
                tree.files.insert(path.to_owned(), text);
            }
        }
        Ok(tree)
    }

    /// A tree for tests.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Tree {
        let files = files.iter().map(|&(p, t)| (p.to_owned(), t.to_owned())).collect();
        Tree { files }
    }

    /// The text of one file.
    pub(crate) fn get(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Is there a file below this folder?
    pub(crate) fn has_folder(&self, folder: &str) -> bool {
        let prefix = format!("{folder}/");
        self.files.range(prefix.clone()..).next().is_some_and(|(p, _)| p.starts_with(&prefix))
    }

    /// Files whose paths end like this, in order of path.
    pub(crate) fn ending(&self, end: &str) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .filter(move |(path, _)| path.ends_with(end))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }
}
