//! The needs of a case, whether they are met, and which Debian package provides each.

use super::Suite;
use crate::process;
use std::path::Path;

/// Something a case cannot run without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// A program, and the Debian package that brings it.
    Program { program: &'static str, package: &'static str },
    /// A file or folder at an absolute path (`/dev/net/tun`), or relative to the workspace.
    File(&'static str),
    /// A shared library that is loaded at run time, and the Debian package that brings it.
    Library { file: &'static str, package: &'static str },
    /// The effective user is root.
    Root,
}

impl Need {
    /// A text that says what is missing; `None` if nothing is.
    pub(super) fn missing(&self, root: &Path) -> Option<String> {
        match self {
            Need::Program { program, package } => process::find(program)
                .is_none()
                .then(|| format!("{program} (Debian package {package})")),
            Need::Library { file, package } => {
                (!has_library(file)).then(|| format!("{file} (Debian package {package})"))
            }
            Need::File(path) => (!root.join(path).exists()).then(|| (*path).to_owned()),
            Need::Root => (!process::is_root()).then(|| "root".to_owned()),
        }
    }
}

/// Programs that cases of `cargo test` run, and no suite of `cargo xtask test`.
pub(crate) const OF_TESTS: &[Need] = &[
    Need::Program { program: "dhclient", package: "isc-dhcp-client" },
    Need::Program { program: "dig", package: "bind9-dnsutils" },
    Need::Program { program: "radvd", package: "radvd" },
    Need::Program { program: "rdisc6", package: "ndisc6" },
    Need::Program { program: "udhcpc", package: "udhcpc" },
];

/// Debian packages that the suites and `others` lack, each once.
pub(super) fn packages(suites: &[&Suite], others: &[Need]) -> Vec<&'static str> {
    let needs = suites.iter().flat_map(|s| s.cases).flat_map(|c| c.needs);
    let mut packages: Vec<_> = needs
        .chain(others)
        .filter_map(|need| match need {
            Need::Program { program, package } => {
                process::find(program).is_none().then_some(*package)
            }
            Need::Library { file, package } => (!has_library(file)).then_some(*package),
            Need::File(_) | Need::Root => None,
        })
        .collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

/// Is a library in one of the system's folders, or in a folder of an architecture there?
fn has_library(file: &str) -> bool {
    ["/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/local/lib"].iter().any(|folder| {
        let below = std::fs::read_dir(folder).into_iter().flatten().flatten();
        Path::new(folder).join(file).exists()
            || below.into_iter().any(|e| e.path().join(file).exists())
    })
}
