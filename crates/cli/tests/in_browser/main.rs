//! The program's web pages in Chromium, without a window: no complaint, every plot drawn, values at
//! the pointer, nothing too wide for a phone; pictures of each in the target folder's `tmp/pages`.
//!
//! Called by: `cargo test`, `cargo xtask interop pages`.

#[cfg(target_os = "linux")]
mod report;

use std::process::ExitCode;

use testbed::in_place;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    return in_place(&[report::CASES]);
    #[cfg(not(target_os = "linux"))]
    in_place(&[])
}
