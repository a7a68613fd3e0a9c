//! Suite `pages`: web pages in Debian's Chromium, without a window. The cases are test programs of
//! the crates, which drive it by `wirespeed_testbed::Browser`.

use super::{Case, Need};

const CHROMIUM: Need = Need::Program { program: "chromium", package: "chromium" };

pub(super) const CASES: &[Case] = &[
    Case {
        name: "the browser hears what a page complains of",
        needs: &[CHROMIUM],
        run: |bench| bench.test_program("browser"),
    },
    Case {
        name: "the lab's report draws its plots, shows values, fits a phone and paper",
        needs: &[CHROMIUM],
        run: |bench| bench.test_program("in_browser"),
    },
    Case {
        name: "the live page follows a transfer, and says when that is gone",
        needs: &[CHROMIUM],
        run: |bench| bench.test_program("live"),
    },
];
