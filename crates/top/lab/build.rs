//! Says how far this crate is optimised: its experiments make packets and count them, so figures in
//! real time depend on that.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let level = std::env::var("OPT_LEVEL").unwrap_or_default();
    println!("cargo:rustc-env=WIRESPEED_LAB_OPT_LEVEL={level}");
}
