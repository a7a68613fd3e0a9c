//! `seeds FOLDER`: writes a file for each seed to FOLDER/TARGET/NAME.
//!
//! Called by: `cargo xtask fuzz`, before the first target runs.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: seeds FOLDER");
        return ExitCode::from(2);
    };
    for (target, name, bytes) in wirespeed_fuzz::seeds::all() {
        let folder = folder.join(target);
        let written = std::fs::create_dir_all(&folder)
            .and_then(|()| std::fs::write(folder.join(&name), &bytes));
        if let Err(e) = written {
            eprintln!("cannot write {}: {e}", folder.join(&name).display());
            return ExitCode::from(1);
        }
    }
    ExitCode::SUCCESS
}
