//! The live page of a running transfer: what its server answers and refuses, and what a browser
//! makes of it.
//!
//! Called by: `cargo test`, `cargo xtask interop pages`. `LIVE_PICTURES=FOLDER` keeps the pictures.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
mod browser;
#[cfg(target_os = "linux")]
mod fixture;
#[cfg(target_os = "linux")]
mod http;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    let cases: &[&[testbed::Case]] = &[http::CASES, browser::CASES];
    #[cfg(not(target_os = "linux"))]
    let cases: &[&[testbed::Case]] = &[];
    testbed::in_place(cases)
}
