//! The program `wirespeed`. All of it is in `lib.rs`, so that tests can use its command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    wirespeed_cli::main()
}
