//! The files of a package, as they are installed: one table for all formats.
//!
//! Called by: `mod.rs`. Man pages and completions are made by the program itself.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::process;

const DOC: &str = "usr/share/doc/wirespeed";

/// Files of the project, and the folder that each is installed into.
const FILES: &[(&str, &str)] = &[
    ("dist/router.toml", "etc/wirespeed"),
    ("dist/wirespeed.service", "usr/lib/systemd/system"),
    ("dist/wirespeed-gateway@.service", "usr/lib/systemd/system"),
    ("LICENSE-APACHE", DOC),
    ("LICENSE-MIT", DOC),
    ("docs/counters.md", DOC),
    ("docs/filter.md", DOC),
    ("docs/frr.md", DOC),
    ("docs/gateway.md", DOC),
    ("docs/packages.md", DOC),
    ("docs/router.md", DOC),
    ("docs/tools.md", DOC),
    ("examples/router.toml", "usr/share/doc/wirespeed/examples"),
    ("dist/control/daemon.conf", "usr/share/doc/wirespeed/examples/control"),
    ("dist/control/frr.conf", "usr/share/doc/wirespeed/examples/control"),
    ("dist/control/wirespeed.conf", "usr/share/doc/wirespeed/examples/control"),
];

/// Files that get another name.
const RENAMED: &[(&str, &str)] = &[
    ("dist/needrestart.conf", "etc/needrestart/conf.d/wirespeed.conf"),
    ("dist/wirespeed.sysusers", "usr/lib/sysusers.d/wirespeed.conf"),
];

/// The program's other names, for podman, Docker and libvirt (`wirespeed setup`).
const LINKS: &[&str] = &["pasta", "passt", "pesto", "slirp4netns"];

/// Shells, and where each looks for completions.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "usr/share/bash-completion/completions/wirespeed"),
    ("fish", "usr/share/fish/vendor_completions.d/wirespeed.fish"),
    ("zsh", "usr/share/zsh/site-functions/_wirespeed"),
];

/// Make the tree of a program of this version.
pub(super) fn stage(root: &Path, program: &Path, version: &str, tree: &Path) -> Result<()> {
    let installed = tree.join("usr/bin/wirespeed");
    ensure!(
        program.is_file(),
        "there is no program {}: leave out --program, or build one by `cargo build --release -p \
         wirespeed-cli`, which makes target/release/wirespeed",
        program.display()
    );
    install(program, &installed)?;
    ensure_version(program, &installed, version)?;
    for (from, folder) in FILES {
        let name = Path::new(from).file_name().context("a file without a name")?;
        install(&root.join(from), &tree.join(folder).join(name))?;
    }
    for (from, to) in RENAMED {
        install(&root.join(from), &tree.join(to))?;
    }
    folder(&tree.join("etc/wirespeed/gateway"))?;
    let links = tree.join("usr/libexec/wirespeed");
    folder(&links)?;
    for name in LINKS {
        symlink("../../bin/wirespeed", links.join(name)).with_context(|| format!("link {name}"))?;
    }
    let pages = tree.join("usr/share/man/man1");
    folder(&pages)?;
    process::output(Command::new(&installed).arg("man").arg("--dir").arg(&pages))?;
    for page in fs::read_dir(&pages)? {
        let page = page?.path();
        process::pass_on(Command::new("gzip").arg("-9n").arg(&page))?;
    }
    for (shell, to) in COMPLETIONS {
        let text = process::output(Command::new(&installed).args(["completions", shell]))?;
        let to = tree.join(to);
        folder(to.parent().context("a completion at the root")?)?;
        fs::write(&to, text).with_context(|| format!("cannot write {}", to.display()))?;
    }
    // Readable for all, whatever the umask is.
    process::pass_on(Command::new("chmod").args(["-R", "u=rwX,go=rX"]).arg(tree))
}

/// Is it this program, for this machine, and of the sources that the other files come from?
fn ensure_version(program: &Path, installed: &Path, version: &str) -> Result<()> {
    let again = || {
        format!(
            "{} is not wirespeed {version} for this machine: build it again, by `cargo build \
             --release -p wirespeed-cli`",
            program.display()
        )
    };
    let said = process::output(Command::new(installed).arg("--version")).with_context(again)?;
    let mut words = said.split_whitespace();
    let same = words.next() == Some("wirespeed") && words.next() == Some(version);
    if same { Ok(()) } else { bail!("{}; it says: {}", again(), said.trim()) }
}

fn install(from: &Path, to: &Path) -> Result<()> {
    folder(to.parent().context("a file at the root")?)?;
    let shown = || format!("cannot copy {} to {}", from.display(), to.display());
    fs::copy(from, to).with_context(shown)?;
    Ok(())
}

fn folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))
}
