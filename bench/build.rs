//! Passes the compiler's version to the program for its report: without it figures cannot be
//! compared.

use std::process::Command;

fn main() {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let output = Command::new(rustc).arg("--version").output().ok();
    let version = output.and_then(|out| String::from_utf8(out.stdout).ok());
    println!("cargo:rustc-env=BENCH_RUSTC={}", version.unwrap_or_default().trim());
    println!("cargo:rerun-if-changed=build.rs");
}
