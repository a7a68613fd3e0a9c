//! The input of a check, and its findings.
//!
//! Called by: every check. Plain data.

use crate::cargo::Metadata;
use crate::tree::Tree;

use super::source::Source;

/// The input of a check.
pub(crate) struct Project {
    pub(super) tree: Tree,
    pub(super) sources: Vec<Source>,
    pub(super) metadata: Metadata,
}

impl Project {
    pub(super) fn new(tree: Tree, metadata: Metadata) -> Project {
        let sources = tree.ending(".rs").map(|(path, text)| Source::new(path, text)).collect();
        Project { tree, sources, metadata }
    }
}

/// A place where a rule is broken.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(super) path: String,
    pub(super) line: usize,
    /// The name for exceptions: a function, a pattern, a package.
    pub(super) key: String,
    pub(super) what: String,
    pub(super) remedy: String,
    /// A warning is printed but does not fail.
    pub(super) warning: bool,
}

impl Finding {
    pub(super) fn new(path: &str, line: usize, key: &str, what: String, remedy: &str) -> Finding {
        let (path, key, remedy) = (path.to_owned(), key.to_owned(), remedy.to_owned());
        Finding { path, line, key, what, remedy, warning: false }
    }

    pub(super) fn warned(self) -> Finding {
        Finding { warning: true, ..self }
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if self.warning { "warning: " } else { "" };
        write!(f, "{}:{}: {kind}{}; {}", self.path, self.line, self.what, self.remedy)
    }
}
