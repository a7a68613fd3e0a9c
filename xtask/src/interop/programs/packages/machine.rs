//! Machines to install packages in: a Debian tree, in which systemd-nspawn boots systemd, or a
//! shell runs without it. All changes are in memory and end with the case.
//!
//! Called by: `mod.rs`. The tree is made by debootstrap once and kept below Cargo's target folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{LONG, packages, page, with_ending};
use crate::interop::Workbench;
use crate::interop::outside::shown;
use crate::package::Format;
use crate::{cargo, process};

/// What the tree has beside Debian's minimum. The machines have no network of their own.
const INCLUDED: &str = "systemd-sysv,dbus,udev,kmod,iproute2,iputils-ping,procps,needrestart,\
                        adduser,libpcap0.8,rpm";

/// Sections of the page, the number of a block, and the file that a script reads it from.
const BLOCKS: &[(&str, usize, &str)] = &[
    ("Install", 0, "install"),
    ("Configure", 0, "configure"),
    ("Configure", 1, "try"),
    ("Look", 0, "look"),
    ("Change", 0, "change"),
    ("Upgrade", 0, "upgrade"),
    ("Upgrade", 1, "restart"),
    ("Removal", 0, "remove"),
    ("Removal", 1, "purge"),
    ("Without systemd", 0, "without"),
];

/// systemd as the first process of a container: the whole life of an installed router.
pub(super) fn with_systemd(bench: &Workbench) -> Result<()> {
    run(bench, "with-systemd.sh", Format::Deb)
}

/// A tree from which systemd is removed.
pub(super) fn without_systemd(bench: &Workbench) -> Result<()> {
    run(bench, "without-systemd.sh", Format::Deb)
}

/// The RPM, by Debian's rpm under systemd.
pub(super) fn by_rpm(bench: &Workbench) -> Result<()> {
    run(bench, "rpm.sh", Format::Rpm)
}

/// Run a script in a machine; it names each step, and its last line is "done".
fn run(bench: &Workbench, script: &str, format: Format) -> Result<()> {
    let tree = tree(bench)?;
    let case = bench.path("case");
    fs::create_dir(&case)?;
    let ending = if format == Format::Rpm { "rpm" } else { "deb" };
    for revision in [1, 2] {
        let made = packages(bench, &format!("out{revision}"), &[format], revision)?;
        let package = with_ending(&made, &format!(".{ending}"))?;
        fs::rename(package, case.join(format!("{revision}.{ending}")))?;
    }
    let text = fs::read_to_string(bench.root().join("docs/packages.md"))?;
    for &(title, number, name) in BLOCKS {
        let blocks = page::blocks(&text, title)?;
        let block = blocks.get(number).with_context(|| format!("{title} has few blocks"))?;
        fs::write(case.join(name), format!("set -e\n{block}"))?;
    }
    let scripts = bench.root().join("xtask/src/interop/programs/packages");
    for name in ["steps.sh", script] {
        fs::copy(scripts.join(name), case.join(name))?;
    }
    enter(bench, &tree, &case, script)
}

/// Run a script of the folder `case` in a copy of the tree.
pub(in super::super) fn enter(
    bench: &Workbench,
    tree: &Path,
    case: &Path,
    script: &str,
) -> Result<()> {
    let enter = bench.root().join("xtask/src/interop/programs/packages/enter.sh");
    let words = [shown(&enter)?, shown(tree)?, shown(case)?, script];
    let outcome = bench.run(isolated(&mut Command::new("unshare"), &words), LONG);
    let said = fs::read_to_string(case.join("log")).unwrap_or_default();
    if outcome.is_err() || !said.ends_with("done\n") {
        let before = said.lines().count().saturating_sub(60);
        let tail: Vec<_> = said.lines().skip(before).collect();
        let why = outcome.err().map(|why| format!("{why:#}\n")).unwrap_or_default();
        anyhow::bail!("{why}{}", tail.join("\n"));
    }
    for step in said.lines().filter(|line| line.starts_with("== ")) {
        println!("   {step}");
    }
    Ok(())
}

/// A shell's script in namespaces of its own, which end with it.
pub(super) fn isolated<'a>(unshare: &'a mut Command, script: &[&str]) -> &'a mut Command {
    unshare.args(["--mount", "--net", "--pid", "--fork", "--kill-child", "sh"]).args(script)
}

/// The Debian tree; debootstrap takes two minutes to make it.
pub(super) fn tree(bench: &Workbench) -> Result<PathBuf> {
    tree_with(bench, "bookworm", INCLUDED)
}

/// A Debian tree of this name, with these packages beside Debian's minimum.
pub(in super::super) fn tree_with(
    bench: &Workbench,
    name: &str,
    packages: &str,
) -> Result<PathBuf> {
    let machines = cargo::Metadata::read(bench.root())?.target_directory.join("machines");
    let tree = machines.join(name);
    // Written when the tree is whole.
    let included = tree.join("etc/included");
    if fs::read_to_string(&included).is_ok_and(|names| names == packages) {
        return Ok(tree);
    }
    if tree.exists() {
        fs::remove_dir_all(&tree)?;
    }
    let new = machines.join("new");
    if new.exists() {
        fs::remove_dir_all(&new)?;
    }
    fs::create_dir_all(&new)?;
    // What debootstrap mounts is gone when it ends, however it does.
    let mut debootstrap = Command::new("unshare");
    debootstrap.args(["--mount", "--fork", "--kill-child", "debootstrap"]);
    debootstrap.arg("--variant=minbase").arg(format!("--include={packages}"));
    debootstrap.arg("bookworm").arg(&new).arg("http://deb.debian.org/debian");
    let limit = Duration::from_secs(900);
    bench.run(&mut debootstrap, limit).context("needs a mirror of Debian")?;
    ensure!(!process::interrupted(), "interrupted");
    fs::rename(&new, &tree)?;
    fs::write(&included, packages)?;
    Ok(tree)
}
