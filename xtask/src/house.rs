//! `cargo xtask house`: the size of the project's files, and which of them import each other in
//! circles.
//!
//! Called by: people, and `tidy`, which refuses circles of more than [`CIRCLE_MAX`] files. Tests,
//! fuzzing and examples do not count.

mod names;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;

use crate::tidy::source::{Source, is_test, krate};
use crate::tree::Tree;
use names::Crate;

/// Files that may import each other in a circle: a type and the few files of its logic.
pub(crate) const CIRCLE_MAX: usize = 4;
/// Files with fewer lines are short.
const SHORT_LINES: usize = 100;

/// Files that import each other, in order.
pub(crate) type Circle = Vec<String>;

/// Does a file count?
pub(crate) fn counts(path: &str) -> bool {
    let is_example = path.starts_with("examples/") || path.contains("/examples/");
    path.ends_with(".rs") && !is_test(path) && !is_example
}

/// Print both.
pub(crate) fn run(root: &Path) -> Result<u8> {
    let tree = Tree::read(root)?;
    let files: Vec<Source> = tree
        .ending(".rs")
        .filter(|(path, _)| counts(path))
        .map(|(path, text)| Source::new(path, text))
        .collect();
    print!("{}", text(&files.iter().collect::<Vec<_>>())?);
    Ok(0)
}

fn text(files: &[&Source]) -> Result<String> {
    let mut text = sizes(files);
    let circles = circles(files)?;
    let large: Vec<_> = circles.iter().filter(|circle| circle.len() > CIRCLE_MAX).collect();
    writeln!(text, "circles        {} of more than {CIRCLE_MAX} files", large.len())?;
    for circle in large {
        writeln!(text, "  {} files: {}", circle.len(), circle.join(" "))?;
    }
    Ok(text)
}

/// Files, their lengths, and lines of code: without blank ones, comments and tests.
fn sizes(files: &[&Source]) -> String {
    let mut lengths: Vec<usize> = files.iter().map(|file| file.text.lines().count()).collect();
    lengths.sort_unstable();
    let count = lengths.len().max(1);
    let median = lengths.get(count / 2).copied().unwrap_or(0);
    let short = lengths.iter().filter(|&&lines| lines < SHORT_LINES).count();
    let is_code = |line: &&str| !line.trim().is_empty();
    let code: usize = files.iter().map(|f| f.library.lines().filter(is_code).count()).sum();
    format!(
        "files          {}\nmedian length  {median} lines\nmean length    {} lines\n\
         under {SHORT_LINES}      {:.0} %\ncode           {code} lines\n",
        lengths.len(),
        lengths.iter().sum::<usize>() / count,
        short as f64 * 100.0 / count as f64,
    )
}

/// All circles, the largest first.
///
/// # Errors
/// A file that is no Rust.
pub(crate) fn circles(files: &[&Source]) -> Result<Vec<Circle>> {
    let mut crates: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for &file in files.iter().filter(|file| file.path.contains("/src/")) {
        crates.entry(krate(&file.path)).or_default().push(file);
    }
    let mut circles = Vec::new();
    for files in crates.values() {
        let read = Crate::read(files)?;
        let found = strong(&read.imports());
        let path = |n: &usize| files[*n].path.clone();
        circles.extend(found.iter().map(|circle| {
            let mut paths: Circle = circle.iter().map(path).collect();
            paths.sort_unstable();
            paths
        }));
    }
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    Ok(circles)
}

/// Sets of more than one node that reach each other (Tarjan).
fn strong(edges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut search = Search {
        edges,
        index: vec![None; edges.len()],
        low: vec![0; edges.len()],
        stack: Vec::new(),
        found: Vec::new(),
        next: 0,
    };
    for node in 0..edges.len() {
        if search.index[node].is_none() {
            search.visit(node);
        }
    }
    search.found
}

struct Search<'a> {
    edges: &'a [Vec<usize>],
    index: Vec<Option<usize>>,
    low: Vec<usize>,
    stack: Vec<usize>,
    found: Vec<Vec<usize>>,
    next: usize,
}

impl Search<'_> {
    fn visit(&mut self, node: usize) {
        let edges = self.edges;
        let number = self.next;
        (self.index[node], self.low[node], self.next) = (Some(number), number, number + 1);
        self.stack.push(node);
        for &to in &edges[node] {
            match self.index[to] {
                None => {
                    self.visit(to);
                    self.low[node] = self.low[node].min(self.low[to]);
                }
                Some(index) if self.stack.contains(&to) => {
                    self.low[node] = self.low[node].min(index);
                }
                Some(_) => {}
            }
        }
        if self.low[node] == number
            && let Some(at) = self.stack.iter().position(|&other| other == node)
        {
            let circle = self.stack.split_off(at);
            if circle.len() > 1 {
                self.found.push(circle);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(files: &[(&str, &str)]) -> Vec<Source> {
        files.iter().map(|(path, text)| Source::new(path, text)).collect()
    }

    #[test]
    fn what_imports_each_other_is_a_circle_by_whatever_way() {
        let files = files(&[
            ("crates/f/x/src/lib.rs", "mod a; mod b; mod c; pub use a::A;"),
            ("crates/f/x/src/a.rs", "use crate::b::B; pub struct A(B);"),
            ("crates/f/x/src/b.rs", "pub struct B; fn f() { super::c::g(); }"),
            ("crates/f/x/src/c.rs", "use crate::A; pub fn g() -> Option<A> { None }"),
            ("crates/f/x/src/c/d.rs", "use super::g; #[cfg(test)] use crate::e::E;"),
            ("crates/f/x/src/e.rs", "use crate::c::d; pub struct E;"),
        ]);
        let found = circles(&files.iter().collect::<Vec<_>>()).expect("Rust");
        let circle = ["a.rs", "b.rs", "c.rs"].map(|name| format!("crates/f/x/src/{name}"));
        assert_eq!(found, [circle.to_vec()]);
    }

    #[test]
    fn sizes_are_of_what_is_no_test() {
        let text = "//! A file.\n\nfn f() {}\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\n";
        let said = sizes(&[&Source::new("crates/f/x/src/lib.rs", text)]);
        assert!(said.contains("median length  7 lines"), "{said}");
        assert!(said.contains("code           1 lines"), "{said}");
        assert!(!counts("crates/f/x/tests/a.rs") && !counts("examples/src/a.rs"));
        assert!(counts("xtask/src/house.rs"));
    }
}
