//! The C library as its packages install it, on a Debian without Rust: the examples are built there
//! by gcc and by clang, and run.
//!
//! Called by: `mod.rs`. The script is `library.sh`; the library is that of the suite `programs-c`.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::super::c;
use super::machine::{enter, tree_with};
use super::{LONG, Options};
use crate::interop::Workbench;
use crate::package::{self, Format};

/// What the tree has beside Debian's minimum: the compilers, and the examples' peers.
const INCLUDED: &str = "gcc,clang,make,pkg-config,libc6-dev,man-db,iproute2,procps,psmisc,\
                        netcat-openbsd,microsocks";

/// Both packages are installed, and each example talks to programs of that Debian.
pub(super) fn examples(bench: &Workbench) -> Result<()> {
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
    let script = "xtask/src/interop/programs/packages/library.sh";
    fs::copy(bench.root().join(script), case.join("library.sh"))?;
    if !case.join("Makefile").exists() {
        bail!("examples/c has no Makefile");
    }
    enter(bench, &tree, &case, "library.sh")
}
