//! `cargo xtask package`: what people install, as a Debian package, an RPM and a tar archive, with
//! their checksums.
//!
//! Called by: `main.rs`, and the interop cases that install packages. The program is compiled
//! (`compile.rs`), its files are staged as they are installed (`tree.rs`), and each format packs
//! the same tree. docs/packages.md is for people who install; docs/decisions/0157 has the reasons.

mod compile;
mod formats;
mod tree;
mod twice;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use crate::{cargo, process};

/// The options of the command line.
#[derive(Args, Debug, Clone)]
pub(crate) struct Options {
    /// What to make [default: all]
    #[arg(value_enum)]
    formats: Vec<Format>,
    /// The profile of Cargo.toml that the program is compiled with
    #[arg(long, default_value = "dist")]
    profile: String,
    /// Pack this program instead of compiling one
    #[arg(long, value_name = "FILE", conflicts_with = "reproducible")]
    program: Option<PathBuf>,
    /// Also the C library, as libwirespeed0 and libwirespeed-dev; with DIR the one that is
    /// installed below there already
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true)]
    library: Option<Option<PathBuf>>,
    /// The number behind the version, for a package that is made again
    #[arg(long, value_name = "N", default_value_t = 1)]
    revision: u32,
    /// Do all of it twice, in different folders, and compare the checksums
    #[arg(long)]
    reproducible: bool,
    /// Where the packages go [default: target/package]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

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

const ALL: &[Format] = &[Format::Deb, Format::Rpm, Format::Tar];

impl Options {
    /// Packages of a program that is there already.
    pub(crate) fn of(program: &Path, out: &Path, formats: &[Format]) -> Options {
        Options {
            formats: formats.to_vec(),
            profile: "dev".to_owned(),
            program: Some(program.to_owned()),
            library: None,
            revision: 1,
            reproducible: false,
            out: Some(out.to_owned()),
        }
    }

    /// The same with another number behind the version.
    pub(crate) fn revision(self, revision: u32) -> Options {
        Options { revision, ..self }
    }

    /// The same with the C library that is installed below a folder.
    pub(crate) fn library(self, installed: &Path) -> Options {
        Options { library: Some(Some(installed.to_owned())), ..self }
    }

    fn formats(&self) -> &[Format] {
        if self.formats.is_empty() { ALL } else { &self.formats }
    }
}

/// What is the same for all packages of a run, in every folder that they are made in.
pub(super) struct Release {
    version: String,
    revision: u32,
    commit: String,
    /// Seconds since 1970: no file of a package is younger.
    epoch: String,
    /// Do the archives compress as well as they can? Tests do not wait for that.
    is_small: bool,
}

impl Release {
    fn new(root: &Path, options: &Options) -> Result<Release> {
        let git = |args: &[&str]| {
            process::output(Command::new("git").current_dir(root).args(args))
                .map(|text| text.trim().to_owned())
        };
        let epoch = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(epoch) => epoch,
            Err(_) => git(&["log", "-1", "--format=%ct"])
                .context("without git, set SOURCE_DATE_EPOCH to the date of the release")?,
        };
        let commit = match std::env::var("WIRESPEED_COMMIT") {
            Ok(commit) => commit,
            Err(_) => git(&["rev-parse", "--short=10", "HEAD"])
                .context("without git, set WIRESPEED_COMMIT to the commit of the release")?,
        };
        let metadata = cargo::Metadata::read(root)?;
        let program = metadata.members().find(|package| package.name == "wirespeed-cli");
        let version = program.context("the workspace has no wirespeed-cli")?.version.clone();
        let is_small = options.profile == "dist";
        Ok(Release { version, revision: options.revision, commit, epoch, is_small })
    }
}

/// Make the packages; returns where they are.
pub(crate) fn run(root: &Path, options: &Options) -> Result<Vec<PathBuf>> {
    let release = Release::new(root, options)?;
    let metadata = cargo::Metadata::read(root)?;
    let out = options.out.clone().unwrap_or_else(|| metadata.target_directory.join("package"));
    let out = std::path::absolute(out).context("the folder has no absolute path")?;
    let made = if options.reproducible {
        twice::run(root, options, &release, &out)?
    } else {
        let target = metadata.target_directory.join("package-build");
        make(root, options, &release, &target, &out)?
    };
    Ok(made.iter().map(|file| out.join(file)).collect())
}

/// The same, for people.
pub(crate) fn run_and_print(root: &Path, options: &Options) -> Result<u8> {
    for file in run(root, options)? {
        println!("{}", file.display());
    }
    Ok(0)
}

/// Make the packages, with `SHA256SUMS` beside them; returns the names of the files. `target` is
/// Cargo's folder.
fn make(
    root: &Path,
    options: &Options,
    release: &Release,
    target: &Path,
    out: &Path,
) -> Result<Vec<String>> {
    let program = match &options.program {
        Some(program) => program.clone(),
        None => compile::program(root, target, &options.profile, release)?,
    };
    let work = out.join("work");
    if work.exists() {
        fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()))?;
    }
    let tree = work.join("tree");
    tree::stage(root, &program, &tree)?;
    let library = match &options.library {
        Some(None) => {
            let library = work.join("library");
            compile::library(root, target, &options.profile, release, &library)?;
            Some(library)
        }
        installed => installed.clone().flatten(),
    };
    let mut made = Vec::new();
    for format in options.formats() {
        made.extend(match format {
            Format::Deb => formats::deb(root, release, &work, &tree, library.as_deref(), out)?,
            Format::Rpm => formats::rpm(root, release, &work, &tree, out)?,
            Format::Tar => formats::tar(release, &tree, out)?,
        });
    }
    let sums = process::output(Command::new("sha256sum").current_dir(out).args(&made))?;
    fs::write(out.join("SHA256SUMS"), sums).context("cannot write SHA256SUMS")?;
    fs::remove_dir_all(&work).context("cannot remove the staged files")?;
    made.push("SHA256SUMS".to_owned());
    Ok(made)
}
