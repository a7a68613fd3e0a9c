//! The live page of a running transfer: the answers and refusals of its server, and the page in a
//! browser.
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
