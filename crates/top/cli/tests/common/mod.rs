//! Runs the program as users do: a command line in; an exit code, standard output and error out.

use std::path::PathBuf;
use std::process::{Command, Output};

use sha2::{Digest, Sha256};

pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wirespeed"));
    command.env_remove("NO_COLOR").env("WIRESPEED_RUNTIME_DIR", run_time());
    command
}

/// A run-time folder for the programs that this test program starts, and for no others.
fn run_time() -> PathBuf {
    let folder =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("r{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the target folder can be written");
    folder
}

pub(crate) fn run(args: &[&str]) -> Output {
    program().args(args).output().expect("the program starts")
}

pub(crate) fn code(output: &Output) -> i32 {
    output.status.code().expect("not killed")
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A file of `len` varied bytes, and its SHA-256.
pub(crate) fn file(name: &str, len: usize) -> (PathBuf, String) {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let bytes: Vec<u8> = (0..len).map(|i| (i * i / 251 + i) as u8).collect();
    std::fs::write(&path, &bytes).expect("the target folder can be written");
    let sum = Sha256::digest(&bytes).iter().map(|b| format!("{b:02x}")).collect();
    (path, sum)
}
