//! `cargo xtask package`: what people install, as a Debian package, an RPM and a tar archive, with
//! their checksums.
//!
//! Called by: `main.rs`, and the interop cases that install packages. The program is compiled
//! (`compile.rs`), its files are staged as they are installed (`tree.rs`), and each format packs
//! the same tree. docs/packages.md is for people who install; docs/decisions/0157 has the reasons.

mod compile;
mod formats;
mod release;
mod sbom;
#[cfg(test)]
mod tests;
mod tree;
mod twice;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;

pub(crate) use self::formats::Format;
use self::release::Release;
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
    /// Also a list of the crates in the program, with versions and licences (CycloneDX)
    #[arg(long)]
    sbom: bool,
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

/// The checksums of the packages beside it.
const SUMS: &str = "SHA256SUMS";

const ALL: &[Format] = &[Format::Deb, Format::Rpm, Format::Tar];

impl Options {
    /// Packages of a program that is there already.
    pub(crate) fn of(program: &Path, out: &Path, formats: &[Format]) -> Options {
        Options {
            formats: formats.to_vec(),
            profile: "dev".to_owned(),
            program: Some(program.to_owned()),
            library: None,
            sbom: false,
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

    fn formats(&self) -> impl Iterator<Item = Format> {
        let is_asked = |format: &Format| self.formats.is_empty() || self.formats.contains(format);
        ALL.iter().copied().filter(is_asked)
    }
}

/// Make the packages; returns where they are.
///
/// They are made in a folder of their own inside `out`, which goes whatever happens, and are moved
/// when all of them are there: `out` has no half-made package, and no checksum of another one.
pub(crate) fn run(root: &Path, options: &Options) -> Result<Vec<PathBuf>> {
    let metadata = cargo::Metadata::read(root)?;
    let release = Release::new(root, &metadata, &options.profile, options.revision)?;
    let out = options.out.clone().unwrap_or_else(|| metadata.target_directory.join("package"));
    let out = std::path::absolute(out).context("the folder has no absolute path")?;
    ensure_plain(&out)?;
    let folder = || tempfile::Builder::new().prefix(".making-").tempdir_in(&out);
    let work = fs::create_dir_all(&out).and_then(|()| folder());
    let mut work = work.with_context(|| {
        format!("cannot write to {}: --out names another folder", out.display())
    })?;
    let made = if options.reproducible {
        twice::run(root, options, &release, &mut work)?
    } else {
        let target = metadata.target_directory.join("package-build");
        make(root, options, &release, &target, work.path())?
    };
    made.deliver(&out)
}

/// The same, for people.
pub(crate) fn run_and_print(root: &Path, options: &Options) -> Result<u8> {
    for file in run(root, options)? {
        println!("{}", file.display());
    }
    Ok(0)
}

/// rpmbuild's macros and make's variables misread a folder with such a name.
fn ensure_plain(out: &Path) -> Result<()> {
    let is_plain = |text: &str| text.chars().all(|c| c.is_alphanumeric() || "/._-+".contains(c));
    ensure!(
        out.to_str().is_some_and(is_plain),
        "packages cannot be made in {}, because its name has other characters than letters, \
         digits and ._-+ in it: --out names another folder",
        out.display()
    );
    Ok(())
}

/// Ctrl-C ends the program that runs, if one does; this ends what we do ourselves.
fn ensure_not_interrupted() -> Result<()> {
    ensure!(!process::interrupted(), "interrupted: no package was made");
    Ok(())
}

/// Packages that are made, and not yet where they belong.
struct Made {
    folder: PathBuf,
    /// The packages, and `SHA256SUMS` last.
    names: Vec<String>,
}

impl Made {
    /// Move them to `out`; returns where they are.
    fn deliver(self, out: &Path) -> Result<Vec<PathBuf>> {
        // An earlier run's, which are not of these packages.
        match fs::remove_file(out.join(SUMS)) {
            Err(why) if why.kind() != ErrorKind::NotFound => {
                return Err(why).with_context(|| format!("cannot replace {SUMS}"));
            }
            _ => {}
        }
        let deliver = |name: &String| {
            let to = out.join(name);
            fs::rename(self.folder.join(name), &to)
                .with_context(|| format!("cannot write {}", to.display()))?;
            Ok(to)
        };
        self.names.iter().map(deliver).collect()
    }
}

/// Make the packages in `work`, which is empty, with `SHA256SUMS` beside them. `target` is Cargo's
/// folder.
fn make(
    root: &Path,
    options: &Options,
    release: &Release,
    target: &Path,
    work: &Path,
) -> Result<Made> {
    let (tree, folder) = (work.join("tree"), work.join("made"));
    fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut names = Vec::new();
    // First what takes seconds and may fail.
    options.formats().try_for_each(formats::ensure_programs)?;
    if options.sbom {
        names.push(sbom::write(root, release, &folder)?);
    }
    let program = match &options.program {
        Some(program) => program.clone(),
        None => compile::program(root, target, &options.profile, release)?,
    };
    tree::stage(root, &program, &release.version, &tree)?;
    let library = match &options.library {
        Some(None) => {
            let library = work.join("library");
            compile::library(root, target, &options.profile, release, &library)?;
            Some(library)
        }
        installed => installed.clone().flatten(),
    };
    for format in options.formats() {
        ensure_not_interrupted()?;
        names.extend(match format {
            Format::Deb => formats::deb(root, release, work, &tree, library.as_deref(), &folder)?,
            Format::Rpm => formats::rpm(root, release, work, &tree, &folder)?,
            Format::Tar => formats::tar(release, &tree, &folder)?,
        });
    }
    let sums = process::output(Command::new("sha256sum").current_dir(&folder).args(&names))?;
    fs::write(folder.join(SUMS), sums).with_context(|| format!("cannot write {SUMS}"))?;
    names.push(SUMS.to_owned());
    ensure_not_interrupted()?;
    Ok(Made { folder, names })
}
