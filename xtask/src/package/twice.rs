//! `--reproducible`: the whole of it twice, from the last commit, in different folders. Equal
//! checksums show that anybody can make the same packages.
//!
//! Called by: `mod.rs`. It takes what is committed, not what lies in the working tree.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use super::{Made, Options, Release, SUMS, make};
use crate::process;

/// Make the packages twice in `work`; returns those of the first time.
pub(super) fn run(
    root: &Path,
    options: &Options,
    release: &Release,
    work: &mut TempDir,
) -> Result<Made> {
    let mut head = Command::new("git");
    let head = process::output(head.current_dir(root).args(["rev-parse", "HEAD"]))?;
    let build = |name: &str| -> Result<(Made, String)> {
        let folder = work.path().join(name);
        let (source, target) = (folder.join("source"), folder.join("build"));
        fs::create_dir_all(&source).with_context(|| format!("cannot make {}", source.display()))?;
        check_out(root, head.trim(), &source)?;
        let made = make(&source, options, release, &target, &folder)?;
        let sums = fs::read_to_string(made.folder.join(SUMS))?;
        // It may have gigabytes, and the other build makes as many.
        fs::remove_dir_all(&target).context("cannot remove what was compiled")?;
        Ok((made, sums))
    };
    let (first, sums) = build("a")?;
    let (second, others) = build("in/another/folder")?;
    if sums != others {
        work.disable_cleanup(true);
        bail!(
            "the two builds differ: diffoscope {} {} shows where; then remove {}\n{sums}\n{others}",
            first.folder.display(),
            second.folder.display(),
            work.path().display()
        );
    }
    print!("built twice, equal checksums:\n{sums}");
    Ok(first)
}

/// Write the files of a commit into a folder.
fn check_out(root: &Path, commit: &str, folder: &Path) -> Result<()> {
    let file = folder.with_extension("tar");
    let mut archive = Command::new("git");
    archive.current_dir(root).args(["archive", commit, "-o"]).arg(&file);
    process::pass_on(&mut archive)?;
    process::pass_on(Command::new("tar").arg("-xf").arg(&file).arg("-C").arg(folder))?;
    Ok(fs::remove_file(file)?)
}
