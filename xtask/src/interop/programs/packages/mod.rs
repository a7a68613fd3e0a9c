//! What people install: the packages of `cargo xtask package`, looked into here, and installed in
//! machines (`machine.rs`) by the commands of docs/packages.md (`page.rs`).
//!
//! Called by: `programs/mod.rs`. The packages have the program that tests run.

mod contents;
mod image;
mod machine;
mod page;

pub(super) use self::machine::{enter, tree_with};

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use super::super::{Case, Need, Workbench};
use crate::package::{self, Format, Options};

pub(super) const DH: Need = Need::Program { program: "dh", package: "debhelper" };
pub(super) const BUILDPACKAGE: Need =
    Need::Program { program: "dpkg-buildpackage", package: "dpkg-dev" };
const RPM: Need = Need::Program { program: "rpmbuild", package: "rpm" };
const MAN: Need = Need::Program { program: "man", package: "man-db" };
const ANALYZE: Need = Need::Program { program: "systemd-analyze", package: "systemd" };
const LINTIAN: Need = Need::Program { program: "lintian", package: "lintian" };
pub(super) const DEBOOTSTRAP: Need =
    Need::Program { program: "debootstrap", package: "debootstrap" };
const NSPAWN: Need = Need::Program { program: "systemd-nspawn", package: "systemd-container" };
const BUILDAH: Need = Need::Program { program: "buildah", package: "buildah" };
pub(super) const TUN: Need = Need::File("/dev/net/tun");

pub(super) const LONG: Duration = Duration::from_secs(300);

pub(super) const CASES: &[Case] = &[Case {
    name: "the .deb, the .rpm and the archive have the same files, and these work",
    needs: &[DH, BUILDPACKAGE, RPM, MAN, ANALYZE],
    run: contents::same_files,
}];

pub(super) const INSTALLED: &[Case] = &[
    Case {
        name: "systemd: installed by the page, reloaded, upgraded under traffic, removed, purged",
        needs: &[Need::Root, DH, BUILDPACKAGE, DEBOOTSTRAP, NSPAWN, TUN],
        run: machine::with_systemd,
    },
    Case {
        name: "without systemd: installed by the page, run, upgraded, purged",
        needs: &[Need::Root, DH, BUILDPACKAGE, DEBOOTSTRAP, TUN],
        run: machine::without_systemd,
    },
    Case {
        name: "RPM: installed, run, upgraded under traffic, removed",
        needs: &[Need::Root, RPM, DEBOOTSTRAP, NSPAWN, TUN],
        run: machine::by_rpm,
    },
    Case {
        name: "an image by the recipe: made, and a router in it forwards",
        needs: &[Need::Root, DH, BUILDPACKAGE, DEBOOTSTRAP, BUILDAH],
        run: image::forwards,
    },
    Case {
        name: "packed in two folders: equal checksums",
        needs: &[DH, BUILDPACKAGE, RPM],
        run: contents::packed_twice,
    },
    Case {
        name: "lintian finds nothing in the .deb",
        needs: &[DH, BUILDPACKAGE, LINTIAN],
        run: contents::lintian,
    },
];

/// Packages of the program that tests run, in a folder of the case.
fn packages(bench: &Workbench, folder: &str, formats: &[Format], revision: u32) -> Result<PathBuf> {
    let out = bench.path(folder);
    std::fs::create_dir_all(&out).context("no room")?;
    let options = Options::of(&bench.wirespeed()?, &out, formats).revision(revision);
    package::run(bench.root(), &options)?;
    Ok(out)
}

/// The one file in `folder` with this ending.
fn with_ending(folder: &std::path::Path, ending: &str) -> Result<PathBuf> {
    let mut files = std::fs::read_dir(folder)?.filter_map(Result::ok).map(|entry| entry.path());
    let found = files.find(|file| file.to_string_lossy().ends_with(ending));
    found.with_context(|| format!("no {ending} in {}", folder.display()))
}
