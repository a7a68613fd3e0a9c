//! Passes the optimisation level of this build to the crate, which reports it with its figures:
//! figures in real time depend on it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let level = std::env::var("OPT_LEVEL").unwrap_or_default();
    println!("cargo:rustc-env=WIRESPEED_LAB_OPT_LEVEL={level}");
}
