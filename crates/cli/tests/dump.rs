//! `dump` of a transfer that runs in memory, to the terminal and to files, and of files.

#[allow(dead_code, reason = "each test program uses a part")]
mod common;
#[allow(dead_code, reason = "each test program uses a part")]
mod running;

use std::path::PathBuf;

use common::{code, run, stderr};
use running::Running;

fn text(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn place(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// A capture of a running transfer.
fn capture(name: &str, count: &str) -> PathBuf {
    let running = Running::start("1").ready();
    let path = place(name);
    let written = path.to_str().expect("a path in UTF-8");
    let output = running.ask(&["dump", "-c", count, "-s", "100", "-w", written]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stderr(&output).contains(&format!("{count} packets captured")), "{}", stderr(&output));
    path
}

#[test]
fn a_running_transfer_is_shown_from_outside() {
    for threads in ["1", "2"] {
        let running = Running::start(threads).ready();
        let output = running.ask(&["dump", "-c", "20", "-v", "--pid", &running.pid()]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let text = text(&output);
        assert_eq!(text.matches(": Flags [").count(), 20, "{text}");
        assert!(text.contains("(correct)") && !text.contains("incorrect"), "{text}");
        let closing = stderr(&output);
        for line in ["20 packets captured", "packets seen by the filter", "packets dropped"] {
            assert!(closing.contains(line), "{closing}");
        }
        // Twice: the first has left nothing behind.
        assert_eq!(code(&running.ask(&["dump", "-c", "1"])), 0);
    }
}

#[test]
fn a_file_is_read_back_as_it_was_written() {
    let path = capture("readback.pcapng", "300");
    let path = path.to_str().expect("a path in UTF-8");
    let shown = run(&["dump", "-r", path, "-e", "-S"]);
    assert_eq!(code(&shown), 0, "{}", stderr(&shown));
    assert_eq!(text(&shown).lines().count(), 300);
    let copy = place("copied.pcapng");
    let copy = copy.to_str().expect("a path in UTF-8");
    let copied = run(&["dump", "-r", path, "-w", copy]);
    assert_eq!(code(&copied), 0, "{}", stderr(&copied));
    assert_eq!(text(&run(&["dump", "-r", copy, "-e", "-S"])), text(&shown));
    let ten = run(&["dump", "-r", path, "-c", "10"]);
    assert_eq!(text(&ten).lines().count(), 10);
}

#[test]
fn a_file_that_is_cut_off_gives_what_it_has_and_says_so() {
    let path = capture("whole.pcapng", "50");
    let bytes = std::fs::read(&path).expect("it was written");
    let cut = place("cut.pcapng");
    // The last block is statistics of two ports; this is in the middle of a packet before it.
    std::fs::write(&cut, &bytes[..bytes.len() - 400]).expect("room");
    let output = run(&["dump", "-r", cut.to_str().expect("UTF-8")]);
    assert_eq!(code(&output), 1);
    let lines = text(&output).lines().count();
    assert!((40..50).contains(&lines), "{lines}");
    assert!(stderr(&output).contains("cut off or damaged"), "{}", stderr(&output));
    let (other, _) = common::file("no-capture", 500);
    let output = run(&["dump", "-r", other.to_str().expect("UTF-8")]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("no capture"), "{}", stderr(&output));
}

#[test]
fn what_a_full_disk_took_is_whole() {
    let running = Running::start("1").ready();
    let path = place("full.pcapng");
    let path = path.to_str().expect("a path in UTF-8");
    // A file may have 40 blocks of 512 bytes: the last write goes in part.
    let script = format!("trap '' XFSZ; ulimit -f 40; exec $WIRESPEED dump -w {path}");
    let output = running.shell(&script);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    assert!(stderr(&output).contains("what is in it is whole"), "{}", stderr(&output));
    let read = run(&["dump", "-r", path]);
    assert_eq!(code(&read), 0, "{}", stderr(&read));
    assert!(text(&read).lines().count() > 5, "{}", text(&read));
    let device = running.ask(&["dump", "-w", "/dev/full"]);
    assert_eq!(code(&device), 1);
    assert!(stderr(&device).contains("make room on the disk"), "{}", stderr(&device));
}

#[test]
fn files_follow_each_other_by_size() {
    let running = Running::start("1").ready();
    let path = place("rotated");
    let name = path.to_str().expect("UTF-8");
    let output = running.ask(&["dump", "-c", "3000", "-C", "1", "-w", name]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let count = |name: &str| {
        let shown = run(&["dump", "-r", name]);
        assert_eq!(code(&shown), 0, "{name}: {}", stderr(&shown));
        text(&shown).lines().count()
    };
    let (first, second) = (count(name), count(&format!("{name}1")));
    assert!(first > 100 && second > 100, "{first} and {second}");
}

#[test]
fn what_cannot_be_done_says_what_to_do() {
    let says = |args: &[&str], status: i32, words: &str| {
        let output = run(args);
        let said = stderr(&output);
        assert_eq!(code(&output), status, "{args:?}: {said}");
        assert!(said.contains(words), "{args:?}: {said}");
    };
    says(&["dump", "-r", "/nowhere/at/all"], 1, "/nowhere/at/all");
    says(&["dump", "-i", "eth0", "-r", "x"], 2, "--help");
    says(&["dump", "-c", "0"], 2, "--help");
    says(&["dump", "-C", "1"], 2, "-w");
    says(&["dump", "--pid", "1"], 1, "1");
    let running = Running::start("1").ready();
    let full = running.ask(&["dump", "-c", "5000", "-w", "/dev/full"]);
    assert_eq!(code(&full), 1);
    assert!(stderr(&full).contains("No space left"), "{}", stderr(&full));
}

#[test]
fn the_filter_that_keeps_all_is_one_return() {
    assert_eq!(text(&run(&["dump", "-d"])), "(000) ret      #262144\n");
    assert_eq!(text(&run(&["dump", "-ddd"])), "1\n6 0 0 262144\n");
}
