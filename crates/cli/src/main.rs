//! The program `wirespeed`; `lib.rs` has all of it, so that tests can ask for its command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    wirespeed_cli::main()
}
