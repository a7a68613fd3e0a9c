//! Exit codes, messages, and what goes to standard output or error.

use std::io::Read;
use std::process::Stdio;

use serde_json::Value;

use crate::common::{code, file, program, run, stderr};

#[test]
fn a_bad_command_line_says_what_to_do_and_exits_with_2() {
    let cases: [(&[&str], &str); 34] = [
        (&[], "Usage"),
        (&["tcp"], "ttcp"),
        (&["ttcp", "--mtu", "67"], "68..=65535"),
        (&["ttcp", "--mtu", "65536"], "68..=65535"),
        (&["ttcp", "-6", "--mtu", "1279"], "--mtu 1280"),
        (&["ttcp", "--bytes", "4X"], "2G"),
        (&["ttcp", "--bytes", "1M", "--seconds", "1"], "cannot be used with"),
        (&["ttcp", "--seconds", "-1"], "--help"),
        (&["ttcp", "--threads", "3"], "1..=2"),
        (&["ttcp", "-l", "0"], "64 MB"),
        (&["ttcp", "-u", "-l", "65508"], "65507"),
        (&["ttcp", "-u", "--file", "x"], "cannot be used with"),
        (&["ttcp", "-u", "-l", "8K", "-M", "do"], "mtu=1500: send datagrams of -l 1472 or less"),
        (&["ttcp", "-u", "-6", "-l", "8K", "-M", "probe"], "-l 1452 or less"),
        (&["ttcp", "-u", "--segments", "65"], "65"),
        (&["ttcp", "--segments"], "--udp"),
        (&["ttcp", "--switch", "warp=off"], "fused-sum"),
        (&["ttcp", "--switch", "predict"], "NAME=off"),
        (&["ttcp", "-t", "192.0.2.1"], "--dev tap:NAME"),
        (&["ttcp", "-r"], "--dev tap:NAME"),
        (&["ttcp", "--offload", "maybe"], "on, off"),
        (&["ttcp", "-P", "0"], "1..=128"),
        (&["ttcp", "-P", "129"], "1..=128"),
        (&["ttcp", "-R", "--bidir"], "cannot be used with"),
        (&["ttcp", "--file", "x", "-P", "2"], "leave -P and --bidir out"),
        (&["ttcp", "--file", "x", "--bidir"], "leave -P and --bidir out"),
        (&["ttcp", "-u", "-R"], "leave one of them out"),
        (&["ttcp", "-u", "-P", "2", "-p", "65535"], "a lower --port"),
        (&["ttcp", "-r", "--bytes", "1K"], "to the other end"),
        (&["ttcp", "-t", "192.0.2.1", "-R", "--seconds", "1"], "to the other end"),
        (&["ttcp", "-t", "192.0.2.1", "-P", "2"], "add -s"),
        (&["ttcp", "-r", "-P", "2"], "add -s"),
        (&["ttcp", "-t", "192.0.2.1", "-R", "--json"], "to throw it away"),
        (&["ttcp", "-t", "192.0.2.1", "--bidir", "--bytes", "1K", "--json"], "to throw it away"),
    ];
    for (args, says) in cases {
        let output = run(args);
        assert_eq!(code(&output), 2, "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{args:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named_and_exits_with_1() {
    for path in ["/does/not/exist", env!("CARGO_TARGET_TMPDIR")] {
        for threads in ["1", "2"] {
            let output = run(&["ttcp", "--file", path, "--threads", threads]);
            assert_eq!(code(&output), 1);
            assert!(stderr(&output).contains(path), "{}", stderr(&output));
        }
    }
}

#[test]
fn switch_help_lists_every_switch() {
    let output = run(&["ttcp", "--switch", "help"]);
    assert_eq!(code(&output), 0);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for switch in wirespeed::Switch::ALL {
        assert!(text.contains(switch.name()) && text.contains(switch.off_means()), "{text}");
    }
}

#[test]
fn the_last_lines_are_those_of_ttcp() {
    let output = run(&["ttcp", "--bytes", "1M", "-f", "m"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for end in ["t", "r"] {
        let line = text.lines().find(|l| l.starts_with(&format!("ttcp-{end}: 1048576 bytes in ")));
        assert!(line.is_some_and(|l| l.ends_with(" Mbit/sec +++")), "{text}");
    }
    assert!(
        !text.contains('\x1b') && output.stderr.is_empty(),
        "colours or a bar without terminal"
    );
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let mut child = program()
        .args(["ttcp", "--bytes", "1M", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_a_failure_and_says_so() {
    let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
    let output =
        program().args(["ttcp", "--bytes", "1M"]).stdout(full).output().expect("it starts");
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("standard output"), "{}", stderr(&output));
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_with_what_was_moved_and_130() {
    use rustix::process::{Pid, Signal, kill_process};
    for args in [&["--threads", "1"], &["--threads", "2"]] {
        let mut child = program()
            .args(["ttcp", "--json", "--seconds", "600"])
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        // Long enough for the handler to be installed; without it the exit would be by signal.
        std::thread::sleep(std::time::Duration::from_millis(500));
        kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
        let mut text = String::new();
        child.stdout.take().expect("piped").read_to_string(&mut text).expect("text");
        assert_eq!(child.wait().expect("it ends").code(), Some(130), "{text}");
        let found: Value = serde_json::from_str(&text).expect("the document is whole");
        assert_eq!(found["interrupted"], true);
        assert!(found["bytes"].as_u64() > Some(0) && found["bytes"] == found["bytes_sent"]);
    }
}

#[test]
fn standard_output_may_be_closed() {
    let (path, _) = file("closed", 1000);
    let script =
        format!("exec {} ttcp --file {} >&-", env!("CARGO_BIN_EXE_wirespeed"), path.display());
    let output = std::process::Command::new("sh").args(["-c", &script]).output().expect("sh");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
}
