//! `cargo xtask mutants`: removes each guard of header prediction, one at a time, in a copy of the
//! tree, and expects the differential tests to fail.
//!
//! Called by: people, when prediction or its tests change; it takes minutes and is not part of
//! `test`. The mutants are the table of docs/prediction-mutants.md, so that it cannot go stale.

use crate::cargo::{Metadata, cargo};
use crate::process;
use crate::report::{Tally, step};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const TABLE: &str = "docs/prediction-mutants.md";
const PACKAGE: &str = "wirespeed-stack";
const FILTER: &str = "tests::predict";

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
    let table = fs::read_to_string(root.join(TABLE)).with_context(|| format!("no {TABLE}"))?;
    let mutants = read(&table)?;
    let metadata = Metadata::read(root)?;
    let copy = metadata.target_directory.join("mutants").join("tree");
    copy_tree(root, &copy)?;
    let target = metadata.target_directory.join("mutants").join("target");
    step("unchanged", tally, |tally| {
        tally.case("unchanged", unchanged(&copy, &target));
        Ok(())
    })?;
    for mutant in &mutants {
        step(&mutant.name, tally, |tally| {
            tally.case(&mutant.name, try_one(&copy, &target, mutant));
            Ok(())
        })?;
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
            bail!("{TABLE}: a row of four columns was expected: {row}");
        };
        let code = |cell: &str| cell.trim_matches('`').to_owned();
        mutants.push(Mutant {
            name: name.clone(),
            file: file.clone(),
            text: code(text),
            becomes: code(becomes),
        });
    }
    ensure!(!mutants.is_empty(), "{TABLE} has no row");
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

fn unchanged(copy: &Path, target: &Path) -> Result<()> {
    ensure!(tests_pass(copy, target)?, "the tests fail without any change");
    Ok(())
}

/// Change, test, change back.
fn try_one(copy: &Path, target: &Path, mutant: &Mutant) -> Result<()> {
    let file = copy.join(&mutant.file);
    let whole = fs::read_to_string(&file).with_context(|| format!("no {}", mutant.file))?;
    let count = whole.matches(&mutant.text).count();
    ensure!(count == 1, "`{}` is {count} times in {}", mutant.text, mutant.file);
    fs::write(&file, whole.replacen(&mutant.text, &mutant.becomes, 1))?;
    let passed = tests_pass(copy, target);
    fs::write(&file, &whole)?;
    ensure!(!passed?, "survived: no test of {FILTER} failed without it");
    Ok(())
}

/// Build (an error if that fails), then say whether the tests passed.
fn tests_pass(copy: &Path, target: &Path) -> Result<bool> {
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
    let output = command(&[FILTER]).stdin(Stdio::null()).output()?;
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
    fn the_table_in_the_tree_is_not_stale() {
        let root = crate::cargo::root().unwrap();
        let table = fs::read_to_string(root.join(TABLE)).unwrap();
        for mutant in read(&table).unwrap() {
            let text = fs::read_to_string(root.join(&mutant.file)).unwrap();
            assert_eq!(text.matches(&mutant.text).count(), 1, "{mutant:?}");
        }
    }
}
