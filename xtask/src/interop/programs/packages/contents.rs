//! What is in the packages, without installing them.
//!
//! Called by: `mod.rs`. The Debian package is unpacked and its program run.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use super::{LONG, packages, with_ending};
use crate::interop::Workbench;
use crate::interop::outside::shown;
use crate::package::Format;

/// Files that users look for.
const WANTED: &[&str] = &[
    "etc/wirespeed/router.toml",
    "lib/systemd/system/wirespeed-gateway@.service",
    "lib/systemd/system/wirespeed.service",
    "usr/bin/wirespeed",
    "usr/libexec/wirespeed/pasta",
    "usr/share/bash-completion/completions/wirespeed",
    "usr/share/doc/wirespeed/copyright",
    "usr/share/doc/wirespeed/examples/router.toml",
    "usr/share/doc/wirespeed/packages.md",
    "usr/share/man/man1/wirespeed-lab-wan.1.gz",
    "usr/share/man/man1/wirespeed-up.1.gz",
    "usr/share/zsh/vendor-completions/_wirespeed",
];

/// Files that only Debian's package has, and those that it has not.
const OF_DEBIAN: &[&str] = &[
    "usr/share/doc/wirespeed/changelog.Debian.gz",
    "usr/share/doc/wirespeed/copyright",
    "usr/share/lintian/overrides/wirespeed",
];
const OF_OTHERS: &[&str] = &[
    "usr/lib/sysusers.d/wirespeed.conf",
    "usr/share/doc/wirespeed/LICENSE-APACHE",
    "usr/share/doc/wirespeed/LICENSE-MIT",
];

/// Folders that the RPM names, so that a removal takes them.
const OF_RPM: &[&str] = &[
    "etc/wirespeed",
    "etc/wirespeed/gateway",
    "usr/libexec/wirespeed",
    "usr/share/doc/wirespeed",
    "usr/share/doc/wirespeed/examples",
    "usr/share/doc/wirespeed/examples/control",
];
/// Folders that have another name in Debian.
const MOVED: &[(&str, &str)] = &[
    ("lib/systemd", "usr/lib/systemd"),
    ("usr/share/zsh/vendor-completions", "usr/share/zsh/site-functions"),
];

/// The formats agree, and the unpacked program, its pages and units are sound.
pub(super) fn same_files(bench: &Workbench) -> Result<()> {
    let out = packages(bench, "out", &[Format::Deb, Format::Rpm, Format::Tar], 1)?;
    let (deb, rpm) = (with_ending(&out, ".deb")?, with_ending(&out, ".rpm")?);
    let archive = with_ending(&out, ".tar.gz")?;
    bench.run(Command::new("sha256sum").current_dir(&out).args(["-c", "SHA256SUMS"]), LONG)?;
    let list = |command: &mut Command| bench.run(command, LONG).map(|text| files(&text));
    let in_archive = list(Command::new("tar").arg("-tf").arg(&archive))?;
    let in_rpm = list(Command::new("rpm").args(["-qp", "--qf", "[%{FILENAMES}\\n]"]).arg(&rpm))?;
    let in_rpm: BTreeSet<_> = in_rpm.difference(&of(OF_RPM)).cloned().collect();
    same(&in_archive, &in_rpm, "the archive and the .rpm")?;
    let root = bench.path("root");
    bench.run(Command::new("dpkg-deb").arg("-x").arg(&deb).arg(&root), LONG)?;
    let mut find = Command::new("find");
    find.arg(&root).args(["(", "-type", "f", "-o", "-type", "l", ")", "-printf", "%P\\n"]);
    let in_deb = list(&mut find)?;
    for wanted in WANTED {
        ensure!(in_deb.contains(*wanted), "the .deb has no {wanted}; it has {in_deb:#?}");
    }
    let moved = |name: &String| {
        let folder = MOVED.iter().find(|(ours, _)| name.starts_with(ours));
        folder.map_or_else(|| name.clone(), |(ours, theirs)| name.replacen(ours, theirs, 1))
    };
    let common: BTreeSet<_> = in_deb.iter().map(moved).collect();
    let common: BTreeSet<_> = common.difference(&of(OF_DEBIAN)).cloned().collect();
    let others: BTreeSet<_> = in_archive.difference(&of(OF_OTHERS)).cloned().collect();
    same(&common, &others, "the .deb and the archive")?;
    sound(bench, &root)
}

/// The unpacked program, its pages and its units.
fn sound(bench: &Workbench, root: &Path) -> Result<()> {
    let said = bench.run(Command::new(root.join("usr/bin/wirespeed")).arg("--version"), LONG)?;
    ensure!(said.starts_with("wirespeed "), "the program says: {said}");
    let said =
        bench.run(Command::new(root.join("usr/libexec/wirespeed/pasta")).arg("--help"), LONG)?;
    ensure!(said.contains("pasta"), "the link pasta says: {said}");
    let mut man = Command::new("man");
    man.arg("-l").arg(root.join("usr/share/man/man1/wirespeed-up.1.gz")).env("MANWIDTH", "90");
    let (page, complaint) = bench.run_both(&mut man, LONG)?;
    ensure!(page.contains("wirespeed up") && complaint.is_empty(), "man: {complaint}{page}");
    let mut verify = Command::new("systemd-analyze");
    verify.args(["--man=no", "--recursive-errors=no", "verify"]);
    // It looks whether the program is there.
    let program = format!("{}/usr/bin/wirespeed", shown(root)?);
    for (unit, name) in
        [("wirespeed", "wirespeed"), ("wirespeed-gateway@", "wirespeed-gateway@machine")]
    {
        let text = fs::read_to_string(root.join(format!("lib/systemd/system/{unit}.service")))?;
        let file = bench.path(&format!("{name}.service"));
        fs::write(&file, text.replace("/usr/bin/wirespeed", &program))?;
        verify.arg(file);
    }
    let (said, complaint) = bench.run_both(&mut verify, LONG)?;
    ensure!(said.is_empty() && complaint.is_empty(), "systemd-analyze: {said}{complaint}");
    Ok(())
}

/// The same program gives the same packages. `cargo xtask package --reproducible` also compiles it
/// twice.
pub(super) fn packed_twice(bench: &Workbench) -> Result<()> {
    let mut sums = Vec::new();
    for folder in ["out", "another/and/longer"] {
        let made = packages(bench, folder, &[Format::Deb, Format::Rpm, Format::Tar], 1)?;
        sums.push(fs::read_to_string(made.join("SHA256SUMS"))?);
    }
    ensure!(sums[0] == sums[1], "the checksums differ:\n{}\n{}", sums[0], sums[1]);
    Ok(())
}

/// lintian neither has errors nor warnings.
pub(super) fn lintian(bench: &Workbench) -> Result<()> {
    let out = packages(bench, "out", &[Format::Deb], 1)?;
    let mut lintian = Command::new("lintian");
    lintian.args(["--allow-root", "--fail-on", "error,warning"]).arg(with_ending(&out, ".deb")?);
    bench.run(&mut lintian, LONG).map(drop)
}

fn of(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// The files of a listing, without folders, and without the slash or `./` before them.
fn files(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| !line.ends_with('/'));
    lines.map(|line| line.trim_start_matches(['.', '/']).to_owned()).collect()
}

fn same(one: &BTreeSet<String>, other: &BTreeSet<String>, which: &str) -> Result<()> {
    let different: Vec<_> = one.symmetric_difference(other).collect();
    ensure!(different.is_empty(), "{which} differ in {different:?}");
    Ok(())
}
