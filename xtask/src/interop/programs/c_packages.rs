//! The C library as its packages install it, on a Debian without Rust: the examples are built there
//! by gcc and by clang, and run.
//!
//! Called by: `mod.rs`. The script is `c_packages.sh`; the library is that of suite `programs-c`.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use super::c::{self, GCC, MAKE};
use super::packages::{BUILDPACKAGE, DEBOOTSTRAP, DH, LONG, TUN, enter, tree_with};
use crate::interop::{Case, Need, Workbench};
use crate::package::{self, Format, Options};

/// What the tree has beside Debian's minimum: the compilers, and the examples' peers.
const INCLUDED: &str = "gcc,clang,make,pkg-config,libc6-dev,man-db,iproute2,procps,\
                        netcat-openbsd,microsocks";

pub(super) const CASES: &[Case] = &[Case {
    name: "the C library by its packages: examples by gcc and clang on a Debian without Rust, run",
    needs: &[Need::Root, DH, BUILDPACKAGE, DEBOOTSTRAP, MAKE, GCC, TUN],
    run: examples,
}];

/// Both packages are installed, and each example talks to programs of that Debian.
fn examples(bench: &Workbench) -> Result<()> {
    let tree = tree_with(bench, "bookworm-c", INCLUDED)?;
    let asked = bench.run(Command::new("dpkg-architecture").arg("-qDEB_HOST_MULTIARCH"), LONG)?;
    let installed = bench.path("installed");
    c::install(bench, &installed, &format!("/usr/lib/{}", asked.trim()))?;
    let out = bench.path("out");
    let options = Options::of(&bench.wirespeed()?, &out, &[Format::Deb]).library(&installed);
    let case = bench.path("case");
    fs::create_dir(&case)?;
    for file in package::run(bench.root(), &options)? {
        let name = file.file_name().and_then(|name| name.to_str()).context("a file's name")?;
        if name.starts_with("libwirespeed") && name.ends_with(".deb") {
            fs::rename(&file, case.join(name))?;
        }
    }
    let examples = bench.root().join("examples/c");
    for entry in fs::read_dir(&examples)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == "Makefile" || name.to_string_lossy().ends_with(".c") {
            fs::copy(entry.path(), case.join(name))?;
        }
    }
    let script = "c_packages.sh";
    fs::copy(bench.root().join("xtask/src/interop/programs").join(script), case.join(script))?;
    enter(bench, &tree, &case, script)
}
