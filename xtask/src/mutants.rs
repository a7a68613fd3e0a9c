//! `cargo xtask mutants`: removes each guard of header prediction and of forwarding in bursts, one
//! at a time, in a copy of the tree, and expects the differential tests to fail.
//!
//! Called by: people, when a fast path or its tests change; it takes minutes and is not part of
//! `test`. The mutants are the tables of docs/prediction-mutants.md and docs/forwarding-mutants.md,
//! so that they cannot go stale.

use crate::cargo::{Metadata, cargo};
use crate::process;
use crate::report::{Tally, step};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Each table, with the filter of the tests that compare its fast path with the slow one.
const TABLES: &[(&str, &str)] = &[
    ("docs/prediction-mutants.md", "tests::predict"),
    ("docs/forwarding-mutants.md", "tests::forward"),
];
const PACKAGE: &str = "wirespeed-stack";

/// One row of the table.
#[derive(Debug, PartialEq, Eq)]
struct Mutant {
    name: String,
    file: String,
    text: String,
    becomes: String,
}

/// Every mutant is a case: it passes if a test fails.
pub(crate) fn run(root: &Path, tally: &mut Tally) -> Result<()> {
    let metadata = Metadata::read(root)?;
    let copy = metadata.target_directory.join("mutants").join("tree");
    copy_tree(root, &copy)?;
    let target = metadata.target_directory.join("mutants").join("target");
    for &(table, filter) in TABLES {
        let rows = fs::read_to_string(root.join(table)).with_context(|| format!("no {table}"))?;
        let mutants = read(&rows).with_context(|| table.to_owned())?;
        step("unchanged", tally, |tally| {
            tally.case("unchanged", unchanged(&copy, &target, filter));
            Ok(())
        })?;
        for mutant in &mutants {
            step(&mutant.name, tally, |tally| {
                tally.case(&mutant.name, try_one(&copy, &target, mutant, filter));
                Ok(())
            })?;
        }
    }
    Ok(())
}

/// The rows of the table: name, file, text, replacement; the latter two in backquotes, `\|` for
/// `|`.
fn read(table: &str) -> Result<Vec<Mutant>> {
    let mut mutants = Vec::new();
    let rows = table.lines().filter(|l| l.starts_with("| ") && l.contains(".rs |"));
    for row in rows {
        let plain = row.replace("\\|", "\u{1}");
        let cells: Vec<_> =
            plain.split('|').map(|c| c.trim_matches(' ').replace('\u{1}', "|")).collect();
        let [_, name, file, text, becomes, ..] = cells.as_slice() else {
            bail!("a row of four columns was expected: {row}");
        };
        let code = |cell: &str| cell.trim_matches('`').to_owned();
        mutants.push(Mutant {
            name: name.clone(),
            file: file.clone(),
            text: code(text),
            becomes: code(becomes),
        });
    }
    ensure!(!mutants.is_empty(), "there is no row");
    Ok(mutants)
}

/// Copy the files that git knows to `copy`; an unchanged file keeps its modification time there.
fn copy_tree(root: &Path, copy: &Path) -> Result<()> {
    let args = ["ls-files", "--cached", "--others", "--exclude-standard"];
    let listed = process::output(Command::new("git").current_dir(root).args(args))?;
    for path in listed.lines() {
        let (from, to) = (root.join(path), copy.join(path));
        let Ok(bytes) = fs::read(&from) else { continue };
        write_changed(&to, &bytes)?;
    }
    Ok(())
}

fn write_changed(to: &PathBuf, bytes: &[u8]) -> Result<()> {
    if fs::read(to).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(to, bytes).with_context(|| format!("cannot write {}", to.display()))
}

fn unchanged(copy: &Path, target: &Path, filter: &str) -> Result<()> {
    ensure!(tests_pass(copy, target, filter)?, "the tests fail without any change");
    Ok(())
}

/// Change, test, change back.
fn try_one(copy: &Path, target: &Path, mutant: &Mutant, filter: &str) -> Result<()> {
    let file = copy.join(&mutant.file);
    let whole = fs::read_to_string(&file).with_context(|| format!("no {}", mutant.file))?;
    let count = whole.matches(&mutant.text).count();
    ensure!(count == 1, "`{}` is {count} times in {}", mutant.text, mutant.file);
    fs::write(&file, whole.replacen(&mutant.text, &mutant.becomes, 1))?;
    let passed = tests_pass(copy, target, filter);
    fs::write(&file, &whole)?;
    ensure!(!passed?, "survived: no test of {filter} failed without it");
    Ok(())
}

/// Build (an error if that fails), then say whether the tests passed.
fn tests_pass(copy: &Path, target: &Path, filter: &str) -> Result<bool> {
    let command = |last: &[&str]| {
        let mut command = cargo(copy);
        command
            .args(["test", "--quiet", "-p", PACKAGE, "--lib"])
            .args(last)
            .env("CARGO_TARGET_DIR", target)
            .env("RUST_BACKTRACE", "0")
            .env("RUSTFLAGS", "-Awarnings");
        command
    };
    process::pass_on(&mut command(&["--no-run"]))?;
    let output = command(&[filter]).stdin(Stdio::null()).output()?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    let seen = stdout.lines().find(|l| l.starts_with("seed "));
    println!("   {}", seen.unwrap_or("no difference"));
    Ok(output.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_with_pipes_and_empty_changes() {
        let table = "# x\n| guard | file | text | becomes |\n|---|---|---|---|\n\
            | no FIN | a/b.rs | `FIN \\| ` | `` | the end |\n";
        let mutant = Mutant {
            name: "no FIN".into(),
            file: "a/b.rs".into(),
            text: "FIN | ".into(),
            becomes: String::new(),
        };
        assert_eq!(read(table).unwrap(), [mutant]);
        assert!(read("no table").is_err());
    }

    #[test]
    fn the_tables_in_the_tree_are_not_stale() {
        let root = crate::cargo::root().unwrap();
        for (table, _) in TABLES {
            let rows = fs::read_to_string(root.join(table)).unwrap();
            for mutant in read(&rows).unwrap() {
                let text = fs::read_to_string(root.join(&mutant.file)).unwrap();
                assert_eq!(text.matches(&mutant.text).count(), 1, "{mutant:?}");
            }
        }
    }
}
