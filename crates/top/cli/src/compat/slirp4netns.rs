//! The drop-in `slirp4netns`.
//!
//! Called by: `compat.rs`.

use std::ffi::OsString;
use std::process::ExitCode;

use crate::output;

/// Be `slirp4netns`.
pub(super) fn main(name: &str, _words: &[OsString]) -> ExitCode {
    output::err(&format!("{name}: this drop-in is not there yet: use the original program"));
    ExitCode::FAILURE
}
