//! `top` of a running transfer in memory, as text and on a terminal.

use std::time::Duration;

use rustix::process::Signal;

use crate::common::{code, run, stderr};
use crate::running::Running;
use crate::terminal::Terminal;

/// Enough time for a loaded machine to draw a screen, and to end a program.
const TIMEOUT: Duration = Duration::from_secs(20);

#[test]
fn a_running_transfer_is_shown_screen_after_screen() {
    let running = Running::start("2").ready();
    let output = running.ask(&["top", "--batch", "-n", "3", "-d", "0.3"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let process = format!("wirespeed ttcp, process {}", running.pid());
    assert_eq!(text.matches(&process).count(), 3, "{text}");
    let tables = ["Ports", "Sizes", "Protocols", "Drops", "Who talks", "Connections"];
    for table in tables.map(|name| format!("{name}\n")) {
        assert_eq!(text.matches(&table).count(), 3, "{table}: {text}");
    }
    assert!(text.lines().all(|line| line.trim_end() == line), "padded: {text}");
    for shown in ["wake-ups ", "context switches ", "ESTABLISHED", "TCP", "frames/s"] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
}

#[test]
fn a_key_ends_it_and_a_program_that_ends_is_named() {
    let mut running = Running::start("1").ready();
    let mut top = Terminal::new(&running.beside(&["top", "-d", "0.2"]));
    top.shows("Connections", TIMEOUT);
    top.types(b"q");
    assert!(top.ends(TIMEOUT).is_some_and(|ended| ended.success()), "{}", top.shown());

    let mut top = Terminal::new(&running.beside(&["top", "-d", "0.2"]));
    top.shows("Connections", TIMEOUT);
    let said = format!("wirespeed ttcp, process {} has ended", running.pid());
    running.kill();
    top.shows(&said, TIMEOUT);
    assert!(top.ends(TIMEOUT).is_some_and(|ended| ended.success()), "{}", top.shown());
}

#[test]
fn a_connection_is_explained_alone_and_in_text() {
    let running = Running::start("1").ready();
    let mut top = Terminal::new(&running.beside(&["top", "-d", "0.2"]));
    top.shows("Connections", TIMEOUT);
    top.types(b"e");
    top.shows("limited by", TIMEOUT);
    top.types(b"q");
    assert!(top.ends(TIMEOUT).is_some_and(|ended| ended.success()), "{}", top.shown());
    let output = running.ask(&["top", "--batch", "-n", "8", "-d", "0.5"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains(": limited by "), "{text}");
}

#[test]
fn it_ends_with_its_terminal() {
    let running = Running::start("1").ready();
    let mut top = Terminal::new(&running.beside(&["top", "-d", "2"]));
    top.shows("Connections", TIMEOUT);
    // By then the screen is complete and the program waits for keys; a screen cut short would end
    // it by itself.
    std::thread::sleep(Duration::from_millis(300));
    top.vanishes();
    let ended = top.ends(TIMEOUT).expect("it goes on without a terminal");
    assert!(ended.code().is_some(), "{ended}");
}

#[test]
fn who_is_in_a_hurry_gets_the_terminal_back_as_well() {
    let running = Running::start("1").ready();
    let mut top = Terminal::new(&running.beside(&["top", "-d", "0.2"]));
    top.shows("Connections", TIMEOUT);
    // The first signal leaves it asleep for up to 50 ms, in which the second one arrives. Two
    // signals of one kind might be merged.
    top.signals(Signal::INT);
    top.signals(Signal::TERM);
    let ended = top.ends(TIMEOUT).expect("it goes on");
    assert!(matches!(ended.code(), Some(0 | 130)), "{ended}");
    for (what, escape) in [("the screen", "\x1b[?1049l"), ("the cursor", "\x1b[?25h")] {
        assert!(top.shown().contains(escape), "{what} is not as it was: {:?}", top.shown());
    }
}

#[test]
fn it_ends_when_nobody_reads_it_any_more() {
    let running = Running::start("1").ready();
    let top = r#"timeout 20 "$WIRESPEED" top --batch -d 0.1"#;
    let output = running.shell(&format!("{{ {top}; echo \"it ended with $?\" >&2; }} | head -1"));
    assert!(stderr(&output).contains("it ended with 0"), "{}", stderr(&output));
}

#[test]
fn what_cannot_be_done_says_what_to_do() {
    for (args, said) in [
        (&["top", "--batch", "-d", "0"][..], "0.1 to 3600 seconds"),
        (&["top"], "--batch"),
        (&["top", "--batch", "-n", "0"], "--count"),
        (&["top", "--batch", "-i", "lo", "--pid", "1"], "--pid"),
    ] {
        let output = run(args);
        assert_eq!(code(&output), 2, "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{args:?}: {}", stderr(&output));
    }
    let nobody = run(&["top", "--batch", "--socket", "/nonexistent/socket"]);
    assert_eq!(code(&nobody), 1, "{}", stderr(&nobody));
    assert!(stderr(&nobody).contains("/nonexistent/socket"), "{}", stderr(&nobody));
}
