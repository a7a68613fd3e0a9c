//! What all packages of a run say of themselves: version, commit and date.
//!
//! Called by: `mod.rs`; the packers read it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{cargo, process};

/// What is the same for all packages of a run, in every folder that they are made in.
pub(super) struct Release {
    pub(super) version: String,
    pub(super) revision: u32,
    pub(super) commit: String,
    /// Seconds since 1970: no file of a package is younger.
    pub(super) epoch: String,
    /// Do the archives compress as well as they can? Tests do not wait for that.
    pub(super) is_small: bool,
}

impl Release {
    pub(super) fn new(
        root: &Path,
        metadata: &cargo::Metadata,
        profile: &str,
        revision: u32,
    ) -> Result<Release> {
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
            // git's short names are longer in a repository that has more commits.
            Err(_) => git(&["rev-parse", "HEAD"])
                .map(|commit| commit.chars().take(10).collect())
                .context("without git, set WIRESPEED_COMMIT to the commit of the release")?,
        };
        let program = metadata.members().find(|package| package.name == "wirespeed-cli");
        let version = program.context("the workspace has no wirespeed-cli")?.version.clone();
        let is_small = profile == "dist";
        Ok(Release { version, revision, commit, epoch, is_small })
    }
}
