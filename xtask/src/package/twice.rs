//! `--reproducible`: the whole of it twice, from the last commit, in different folders. Equal
//! checksums show that anybody can make the same packages.
//!
//! Called by: `mod.rs`. It takes what is committed, not what lies in the working tree.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{Options, Release, make};
use crate::process;

/// Make the packages twice; those of the first time go to `out`.
pub(super) fn run(
    root: &Path,
    options: &Options,
    release: &Release,
    out: &Path,
) -> Result<Vec<String>> {
    let top = out.join("twice");
    if top.exists() {
        fs::remove_dir_all(&top).with_context(|| format!("cannot remove {}", top.display()))?;
    }
    let mut head = Command::new("git");
    let head = process::output(head.current_dir(root).args(["rev-parse", "HEAD"]))?;
    let mut sums = Vec::new();
    let mut made = Vec::new();
    for name in ["a", "in/another/folder"] {
        let folder = top.join(name);
        let (source, packages) = (folder.join("source"), folder.join("packages"));
        fs::create_dir_all(&source)?;
        fs::create_dir_all(&packages)?;
        check_out(root, head.trim(), &source)?;
        let target = folder.join("build");
        made = make(&source, options, release, &target, &packages)?;
        sums.push(fs::read_to_string(packages.join("SHA256SUMS"))?);
        fs::remove_dir_all(target)?;
    }
    ensure!(
        sums[0] == sums[1],
        "the two builds differ; {} has both, diffoscope shows where\n{}\n{}",
        top.display(),
        sums[0],
        sums[1]
    );
    print!("built twice, equal checksums:\n{}", sums[0]);
    for file in &made {
        fs::rename(top.join("a/packages").join(file), out.join(file))?;
    }
    fs::remove_dir_all(top)?;
    Ok(made)
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
