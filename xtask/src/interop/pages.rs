//! Suite `pages`: web pages in Debian's Chromium, without a window. The cases are test programs of
//! the crates, which drive it by `wirespeed_testbed::Browser`.

use super::{Case, Need, Workbench};
use anyhow::{Result, ensure};
use std::process::Command;
use std::time::Duration;

const CHROMIUM: Need = Need::Program { program: "chromium", package: "chromium" };

pub(super) const CASES: &[Case] = &[
    Case {
        name: "the browser hears what a page complains of",
        needs: &[CHROMIUM],
        run: |bench| program(bench, "browser"),
    },
    Case {
        name: "the lab's report draws its plots, shows values, fits a phone and paper",
        needs: &[CHROMIUM],
        run: |bench| program(bench, "in_browser"),
    },
    Case {
        name: "the live page follows a transfer, and says when that is gone",
        needs: &[CHROMIUM],
        run: |bench| program(bench, "live"),
    },
];

/// A test program: a skip in it is a failure here, because its needs are met. Of the workspace, so
/// that nothing is compiled anew after its tests.
fn program(bench: &Workbench, test: &str) -> Result<()> {
    let mut cases = Command::new("cargo");
    cases.args(["test", "--workspace", "--test", test]);
    let printed = bench.run(cases.current_dir(bench.root()), Duration::from_secs(900))?;
    ensure!(printed.contains(" 0 failed; 0 ignored"), "{printed}");
    Ok(())
}
