//! The formats: each packs the staged tree and puts its files into the folder of packages.
//!
//! Called by: `mod.rs`. Nothing in a package depends on the time, the machine or the folder.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use super::release::Release;
use crate::process;

/// A format of packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Debian's, by debhelper
    Deb,
    /// By rpmbuild
    Rpm,
    /// For everything else: unpacked at the root
    Tar,
}

/// Debian's packages, by debhelper and the files of dist/debian.
pub(super) fn deb(
    root: &Path,
    release: &Release,
    work: &Path,
    tree: &Path,
    library: Option<&Path>,
    out: &Path,
) -> Result<Vec<String>> {
    let folder = work.join("deb");
    fs::create_dir_all(&folder)?;
    process::pass_on(
        Command::new("cp").arg("-r").arg(root.join("dist/debian")).arg(folder.join("debian")),
    )?;
    let debian = folder.join("debian");
    let mut control = fs::read_to_string(debian.join("control"))?;
    if library.is_some() {
        control += &fs::read_to_string(debian.join("control.library"))?;
    }
    fs::write(debian.join("control"), control)?;
    fs::write(debian.join("changelog"), changelog(release)?)?;
    let mut build = Command::new("dpkg-buildpackage");
    build.current_dir(&folder).args(["--build=binary", "--no-sign"]);
    build.env("TREE", tree).env("SOURCE_DATE_EPOCH", &release.epoch).env("LC_ALL", "C.UTF-8");
    build.env("LIBRARY", library.unwrap_or(Path::new("")));
    build.env("COMPRESS", if release.is_small { "-Zxz" } else { "-Zgzip -z1" });
    quiet(&mut build)?;
    moved(work, ".deb", out)
}

/// An RPM, by dist/wirespeed.spec.
pub(super) fn rpm(
    root: &Path,
    release: &Release,
    work: &Path,
    tree: &Path,
    out: &Path,
) -> Result<Vec<String>> {
    let top = work.join("rpm");
    let mut build = Command::new("rpmbuild");
    build.arg("-bb").arg(root.join("dist/wirespeed.spec"));
    build.env("SOURCE_DATE_EPOCH", &release.epoch).env("LC_ALL", "C.UTF-8");
    for (name, value) in [
        ("_topdir", top.display().to_string()),
        ("_tmppath", top.join("tmp").display().to_string()),
        ("tree", tree.display().to_string()),
        ("version_", release.version.clone()),
        ("revision", release.revision.to_string()),
        ("_binary_payload", if release.is_small { "w19.zstdio" } else { "w1.zstdio" }.to_owned()),
    ] {
        build.arg("--define").arg(format!("{name} {value}"));
    }
    quiet(&mut build)?;
    moved(&top.join("RPMS").join(std::env::consts::ARCH), ".rpm", out)
}

/// An archive to unpack at the root of any machine.
pub(super) fn tar(release: &Release, tree: &Path, out: &Path) -> Result<Vec<String>> {
    let (version, machine) = (&release.version, std::env::consts::ARCH);
    let name = format!("wirespeed-{version}-{}-linux-{machine}.tar.gz", release.revision);
    let file = out.join(&name);
    let level = if release.is_small { "gzip -9n" } else { "gzip -1n" };
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"]);
    tar.arg(format!("--mtime=@{}", release.epoch)).arg(format!("--use-compress-program={level}"));
    tar.arg("-cf").arg(&file).arg("-C").arg(tree).args(["etc", "usr"]);
    process::pass_on(&mut tar)?;
    Ok(vec![name])
}

/// The one entry of debian/changelog: the version, and the date of the commit.
fn changelog(release: &Release) -> Result<String> {
    let mut date = Command::new("date");
    date.env("LC_ALL", "C").args(["-u", "-R", "-d", &format!("@{}", release.epoch)]);
    let (date, mut text) = (process::output(&mut date)?, String::new());
    let who = "wirespeed maintainers <maintainers@users.noreply.a-seed-f2714386.example>";
    writeln!(
        text,
        "wirespeed ({}-{}) unstable; urgency=medium",
        release.version, release.revision
    )?;
    writeln!(text, "\n  * Made from commit {}.", release.commit)?;
    writeln!(text, "\n -- {who}  {}", date.trim())?;
    Ok(text)
}

/// Run a program that says much; what it said is in the error if it fails.
fn quiet(command: &mut Command) -> Result<()> {
    let shown = process::shown(command);
    let said = command.output().with_context(|| format!("cannot run {shown}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&said.stdout), text(&said.stderr));
    ensure!(said.status.success(), "`{shown}` ended with {}\n{out}{err}", said.status);
    Ok(())
}

/// Move the files with this ending; returns their names in order.
fn moved(from: &Path, ending: &str, to: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(from).with_context(|| format!("nothing in {}", from.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(ending) {
            fs::rename(entry.path(), to.join(&name))?;
            names.push(name);
        }
    }
    ensure!(!names.is_empty(), "no {ending} was made in {}", from.display());
    names.sort();
    Ok(names)
}

/// Is all here that makes packages of this format?
pub(super) fn ensure_programs(format: Format) -> Result<()> {
    let programs: &[_] = match format {
        Format::Deb => &[("dpkg-buildpackage", "dpkg-dev"), ("dh", "debhelper")],
        Format::Rpm => &[("rpmbuild", "rpm")],
        Format::Tar => &[],
    };
    for (program, package) in programs {
        let found = process::find(program).is_some();
        ensure!(found, "{program} is missing: install Debian's package {package}");
    }
    Ok(())
}
