//! The reports of cargo: the workspace, its packages, and their dependencies.

use crate::process;
use anyhow::{Context, Result};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A dependency as a manifest declares it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Dependency {
    /// Package name, not the name it is imported by.
    pub(crate) name: String,
    /// None: ordinary; else "dev" or "build".
    pub(crate) kind: Option<String>,
    /// Set for packages of this workspace.
    pub(crate) path: Option<String>,
}

/// A package, of the workspace or from a registry.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: Option<String>,
    pub(crate) manifest_path: String,
    pub(crate) dependencies: Vec<Dependency>,
    #[serde(default)]
    pub(crate) targets: Vec<Target>,
}

/// Something that a package compiles to.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Target {
    name: String,
    kind: Vec<String>,
}

impl Package {
    /// The names of its test programs beside that of the library.
    pub(crate) fn tests(&self) -> impl Iterator<Item = &str> {
        let tests = self.targets.iter().filter(|target| target.kind.iter().any(|k| k == "test"));
        tests.map(|target| target.name.as_str())
    }
}

/// `cargo metadata`, as far as we read it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    pub(crate) workspace_members: Vec<String>,
    pub(crate) target_directory: PathBuf,
    pub(crate) workspace_root: PathBuf,
}

impl Metadata {
    /// Ask cargo.
    pub(crate) fn read(root: &Path) -> Result<Metadata> {
        let text = process::output(cargo(root).args(["metadata", "--format-version", "1"]))?;
        serde_json::from_str(&text).context("cannot read what cargo metadata printed")
    }

    /// The packages of this workspace.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|p| self.workspace_members.contains(&p.id))
    }

    /// The manifest of `package` relative to the root, as findings name it.
    pub(crate) fn manifest(&self, package: &Package) -> String {
        let path = Path::new(&package.manifest_path);
        path.strip_prefix(&self.workspace_root).unwrap_or(path).display().to_string()
    }
}

/// The workspace that xtask was started for.
pub(crate) fn root() -> Result<PathBuf> {
    let start = match std::env::var_os("CARGO_MANIFEST_DIR") {
        Some(dir) => PathBuf::from(dir),
        None => std::env::current_dir()?,
    };
    start
        .ancestors()
        .find(|dir| dir.join("Cargo.lock").exists() && dir.join("xtask").exists())
        .map(Path::to_path_buf)
        .context("run `cargo xtask` inside the wirespeed workspace")
}

/// The cargo that started us, to be run in `root`.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

/// Build one release binary of a workspace package and say where it is.
pub(crate) fn release_binary(root: &Path, package: &str, binary: &str) -> Result<PathBuf> {
    binary_with(root, package, binary, "release", None)
}

/// The same in any profile of the workspace's manifest; with a `--cfg`, in a target folder of its
/// own.
pub(crate) fn binary_with(
    root: &Path,
    package: &str,
    binary: &str,
    profile: &str,
    cfg: Option<&str>,
) -> Result<PathBuf> {
    let metadata = Metadata::read(root)?;
    if !metadata.members().any(|p| p.name == package) {
        anyhow::bail!("the workspace has no package {package}; add it to `members` in Cargo.toml");
    }
    let mut command = cargo(root);
    command.args(["build", "--profile", profile, "-p", package, "--bin", binary]);
    let mut target = metadata.target_directory;
    if let Some(cfg) = cfg {
        target.push(cfg);
        command.env("RUSTFLAGS", format!("--cfg {cfg}")).arg("--target-dir").arg(&target);
    }
    process::pass_on(&mut command)?;
    // Cargo's own profiles share folders.
    let folder = if profile == "bench" { "release" } else { profile };
    Ok(target.join(folder).join(binary))
}
