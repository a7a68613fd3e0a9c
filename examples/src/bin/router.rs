//! A router: it does what `wirespeed up` does, with the configuration that is its argument.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Its worker is this program once more.
    let file = std::env::args().nth(1).unwrap_or("router.toml".to_owned());
    wirespeed::router::Daemon::new(file).run()
}
