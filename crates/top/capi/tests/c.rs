//! Programs in C (and one in C++) against the static library, by each compiler that is here. They
//! are in `tests/c`, and fail by themselves: with a message and a status that is not 0.
//!
//! `WIRESPEED_C_FLAGS` adds options of the compiler, for example those of a sanitizer.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const COMPILERS: [(&str, &str); 2] = [("gcc", "g++"), ("clang", "clang++")];
const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-pedantic"];
/// What Rust's library needs of the system, as in the Makefile.
const SYSTEM_LIBS: [&str; 6] = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];
/// Longer than any of the programs takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// Options of the compiler from outside.
fn flags() -> String {
    std::env::var("WIRESPEED_C_FLAGS").unwrap_or_default()
}

/// Is the compiler here, and does it know the options from outside? A sanitizer's library may be
/// missing for one of them.
fn is_here(compiler: &str) -> bool {
    let mut command = Command::new(compiler);
    command.args(flags().split_whitespace()).args(["-x", "c", "-", "-o", "/dev/null"]);
    let child = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn();
    child.is_ok_and(|mut child| {
        let mut source = child.stdin.take().expect("it is a pipe");
        // A compiler that does not read has failed, which its status says.
        let _ = source.write_all(b"int main(void) { return 0; }\n");
        drop(source);
        child.wait().is_ok_and(|status| status.success())
    })
}

/// The folder where cargo put the library of this test: beside it. That of `cargo build`, a folder
/// above, may be an older one.
fn folder() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    test.parent().expect("target/PROFILE/deps/TEST").to_owned()
}

fn build(compiler: &str, standard: &str, source: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder().join(format!("capi-{compiler}-{source}"));
    let mut command = Command::new(compiler);
    command.arg(standard).args(WARNINGS).args(["-D_GNU_SOURCE", "-g", "-O1"]);
    if !cfg!(feature = "gateway") {
        command.arg("-DWITHOUT_GATEWAY");
    }
    command.args(flags().split_whitespace());
    command.arg("-I").arg(here.join("include")).arg(here.join("tests/c").join(source));
    command.arg(folder().join("libcapi.a")).args(SYSTEM_LIBS).arg("-o").arg(&program);
    let output = command.output().expect("the compiler starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{compiler} {source}:\n{errors}");
    program
}

fn run(program: &Path) {
    let mut child = Command::new(program).spawn().expect("the program starts");
    let until = Instant::now() + PATIENCE;
    let status = loop {
        match child.try_wait().expect("a child can be waited for") {
            Some(status) => break status,
            None if Instant::now() > until => {
                child.kill().expect("it can be killed");
                child.wait().expect("a killed program ends");
                panic!("{} hangs", program.display());
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    assert!(status.success(), "{}: {status}", program.display());
}

fn test(source: &str) {
    let mut count = 0;
    for (c, cc) in COMPILERS {
        let is_cc = source.ends_with(".cc");
        let (compiler, standard) = if is_cc { (cc, "-std=c++11") } else { (c, "-std=c99") };
        if !is_here(compiler) {
            eprintln!("{source}: skipped for {compiler}: it is not here, or lacks '{}'", flags());
            continue;
        }
        run(&build(compiler, standard, source));
        count += 1;
    }
    eprintln!("{source}: {count} compilers");
    assert!(count > 0 || flags().is_empty(), "no compiler knows the options {}", flags());
}

#[test]
fn bad_input_is_an_error_number() {
    test("bad_input.c");
}

#[test]
fn sockets_from_two_threads() {
    test("sockets.c");
}

#[test]
fn polled_stacks_over_devices_of_the_program() {
    test("polled.c");
}

#[test]
#[cfg(feature = "gateway")]
fn gateways_answer_machines_until_they_are_stopped() {
    test("gateway.c");
}

#[test]
fn the_header_is_cpp_too() {
    test("header.cc");
}
