//! Sets the version that `--version` prints: the package's, and the commit. Has the linker compress
//! the line tables, which nobody but the profiler reads.
//!
//! The commit is `WIRESPEED_COMMIT` if that is set, for packagers whose archive has no repository;
//! else the one that git reports, if the repository is this project's own and not one around it;
//! else none.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=WIRESPEED_COMMIT");
    let package = env!("CARGO_PKG_VERSION");
    let said = std::env::var("WIRESPEED_COMMIT").ok().filter(|commit| !commit.is_empty());
    let version = match said.or_else(commit) {
        Some(commit) => format!("{package} ({commit})"),
        None => package.to_owned(),
    };
    println!("cargo:rustc-env=WIRESPEED_VERSION={version}");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo:rustc-link-arg-bins=-Wl,--compress-debug-sections=zlib");
    }
}

/// The commit that is checked out.
fn commit() -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().ok()?;
    let top = git(&["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != root {
        return None;
    }
    // These files change when another commit is checked out or made.
    for name in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--path-format=absolute", "--git-path", name])?;
        if Path::new(&path).exists() {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "--short=10", "HEAD"])
}

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
