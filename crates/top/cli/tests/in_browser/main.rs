//! The program's web pages in Chromium, without a window: no complaint, every plot drawn, values at
//! the pointer, nothing too wide for a phone; pictures of each in the target folder's `tmp/pages`.
//!
//! Called by: `cargo test`, `cargo xtask interop pages`.

#[allow(dead_code, reason = "each test program uses a part")]
#[path = "../common/mod.rs"]
mod common;
#[cfg(target_os = "linux")]
mod report;
#[allow(dead_code, reason = "each test program uses a part")]
#[path = "../running/mod.rs"]
mod running;
#[cfg(target_os = "linux")]
mod trace;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use testbed::in_place;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    return in_place(&[report::CASES, trace::CASES]);
    #[cfg(not(target_os = "linux"))]
    in_place(&[])
}

/// Where the pages and their pictures are.
fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages");
    std::fs::create_dir_all(&folder).expect("the target folder can be written");
    folder
}

/// A page in a window of that size.
#[cfg(target_os = "linux")]
fn opened(page: &str, width: u32, height: u32) -> testbed::Browser {
    let mut browser = testbed::Browser::start();
    browser.size(width, height);
    browser.open(page);
    browser
}
