//! Where in the file something is wrong, and what: `router.toml:12:8: ...`.
//!
//! Called by: all of `config`.

use core::fmt;
use std::collections::BTreeSet;

/// A value and where it begins, in bytes from the beginning of the file.
#[derive(Clone, Debug)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) at: usize,
}

/// Something that is wrong in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file's name.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// What is wrong, and what to write instead.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.text)
    }
}

/// All that is wrong in a file, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, problem) in self.0.iter().enumerate() {
            let end = if number + 1 == self.0.len() { "" } else { "\n" };
            write!(f, "{problem}{end}")?;
        }
        Ok(())
    }
}

impl core::error::Error for Problems {}

/// Collects what is wrong.
pub(super) struct Log<'a> {
    file: &'a str,
    text: &'a str,
    found: BTreeSet<(usize, String)>,
}

impl<'a> Log<'a> {
    pub(super) fn new(file: &'a str, text: &'a str) -> Log<'a> {
        Log { file, text, found: BTreeSet::new() }
    }

    pub(super) fn note(&mut self, at: usize, text: impl Into<String>) {
        self.found.insert((at, text.into()));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The line of a place, to name it in a message about another one.
    pub(super) fn line(&self, at: usize) -> usize {
        self.place(at).0
    }

    fn place(&self, at: usize) -> (usize, usize) {
        let mut at = at.min(self.text.len());
        while !self.text.is_char_boundary(at) {
            at -= 1;
        }
        let before = &self.text[..at];
        let line = before.matches('\n').count() + 1;
        let begin = before.rfind('\n').map_or(0, |newline| newline + 1);
        (line, before[begin..].chars().count() + 1)
    }

    pub(super) fn problems(self) -> Problems {
        let problem = |(at, text): &(usize, String)| {
            let (line, column) = self.place(*at);
            Problem { file: self.file.to_owned(), line, column, text: text.clone() }
        };
        Problems(self.found.iter().map(problem).collect())
    }
}
