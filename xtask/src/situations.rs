//! `cargo xtask situations`: situations from public bug reports of other stacks and tools, each
//! with the test of ours that puts us into it.
//!
//! Called by: people. The table is docs/situations.md, so that it cannot go stale: a row whose test
//! does not exist fails. `cargo xtask test` runs the same tests among all others.

use crate::cargo::{Metadata, cargo};
use crate::process;
use crate::report::{Tally, step};
use crate::tidy::imports::folder;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const TABLE: &str = "docs/situations.md";

/// One row of the table.
#[derive(Debug, PartialEq, Eq)]
struct Situation {
    text: String,
    /// The crate without `wirespeed-`, and `lib` or the name of its test program.
    program: (String, String),
    test: String,
}

/// Every situation is a case.
pub(crate) fn run(root: &Path, tally: &mut Tally) -> Result<()> {
    let text = fs::read_to_string(root.join(TABLE)).with_context(|| format!("no {TABLE}"))?;
    let all = read(&text)?;
    let metadata = Metadata::read(root)?;
    let programs = programs(root, &metadata, &all)?;
    step("situations", tally, |tally| {
        for situation in &all {
            let outcome = hold(root, &programs, situation);
            let said = if outcome.is_ok() { "ok" } else { "FAILED" };
            println!("{said:>6}  {}", situation.text);
            match outcome {
                Ok(None) => tally.pass(),
                Ok(Some(missing)) => tally.skip(&situation.text, &missing),
                Err(e) => tally.fail(&situation.text, &format!("{e:#}")),
            }
        }
        Ok(())
    })
}

/// Rows of four cells: situation, reports, program, test; the latter two in backquotes.
fn read(table: &str) -> Result<Vec<Situation>> {
    let mut all = Vec::new();
    for row in table.lines().filter(|line| line.starts_with("| ") && line.contains("` |")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [text, _, program, test] = cells[..] else {
            anyhow::bail!("{TABLE}: a row has other than four cells: {row}");
        };
        let bare = |cell: &str| cell.trim_matches('`').to_owned();
        let program = bare(program);
        let (krate, target) = program.split_once(' ').context("a program is `CRATE TARGET`")?;
        let program = (krate.to_owned(), target.to_owned());
        all.push(Situation { text: text.to_owned(), program, test: bare(test) });
    }
    ensure!(!all.is_empty(), "{TABLE} has no row");
    Ok(all)
}

/// The test programs of the rows, built with the features that the whole workspace has.
fn programs(
    root: &Path,
    metadata: &Metadata,
    all: &[Situation],
) -> Result<BTreeMap<(String, String), PathBuf>> {
    let mut command = cargo(root);
    command.args(["test", "--workspace", "--no-run", "--quiet", "--message-format", "json"]);
    let wanted: BTreeSet<&str> = all.iter().map(|s| &*s.program.1).collect();
    for target in wanted {
        match target {
            "lib" => command.arg("--lib"),
            name => command.args(["--test", name]),
        };
    }
    let messages = process::output(&mut command)?;
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let named = messages.filter_map(|message| {
        let file = PathBuf::from(message["executable"].as_str()?);
        let package = metadata.members().find(|p| p.id == message["package_id"])?;
        let krate = package.name.trim_start_matches("wirespeed-").to_owned();
        let target = match message["target"]["kind"][0].as_str()? {
            "test" => message["target"]["name"].as_str()?,
            "lib" => "lib",
            _ => return None,
        };
        Some(((krate, target.to_owned()), file))
    });
    Ok(named.collect())
}

/// Run the test of a situation; returns what it lacks, if it could not be run.
fn hold(
    root: &Path,
    programs: &BTreeMap<(String, String), PathBuf>,
    situation: &Situation,
) -> Result<Option<String>> {
    let (krate, target) = &situation.program;
    let file = programs
        .get(&situation.program)
        .with_context(|| format!("no test program {target} of {krate}: correct {TABLE}"))?;
    let folder = folder(krate).with_context(|| format!("there is no crate {krate}"))?;
    let output = Command::new(file)
        .arg(&situation.test)
        .current_dir(root.join(folder))
        .output()
        .with_context(|| format!("cannot run {}", file.display()))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let line = outcome(&printed, &situation.test).with_context(|| {
        format!("{krate} {target} has no test {}: correct {TABLE}", situation.test)
    })?;
    if let Some(missing) = line.strip_prefix("ignored") {
        return Ok(Some(missing.trim_start_matches([',', ' ']).to_owned()));
    }
    ensure!(
        line == "ok",
        "{}\n{printed}{}",
        situation.test,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(None)
}

/// The result that a test program prints for the test with this name.
fn outcome<'a>(printed: &'a str, name: &str) -> Option<&'a str> {
    let tests = printed.lines().filter_map(|line| line.strip_prefix("test ")?.split_once(" ... "));
    tests.filter(|(test, _)| *test == name).map(|(_, outcome)| outcome.trim()).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_and_words_around_them_are_not() {
        let text = "# Title\n\n| situation | from | program | test |\n|---|---|---|---|\n\
            | a lease | x#1 | `host lib` | `dhcp::a` |\n";
        let program = ("host".to_owned(), "lib".to_owned());
        let expected = Situation { text: "a lease".into(), program, test: "dhcp::a".into() };
        assert_eq!(read(text).unwrap(), [expected]);
        assert!(read("no table").is_err());
        assert!(read("| a | b | `c d` |\n").is_err());
    }

    #[test]
    fn a_test_is_found_by_its_whole_name() {
        let printed = "running 2 tests\ntest a::b ... ok\ntest a::b_more ... FAILED\n\
            test c ... ignored, root\n";
        assert_eq!(outcome(printed, "a::b"), Some("ok"));
        assert_eq!(outcome(printed, "a::b_more"), Some("FAILED"));
        assert_eq!(outcome(printed, "c"), Some("ignored, root"));
        assert_eq!(outcome(printed, "a"), None);
    }
}
