//! `top` of a transfer that runs in memory, its screens as text.

#[allow(dead_code, reason = "each test program uses a part")]
mod common;
#[allow(dead_code, reason = "each test program uses a part")]
mod running;

use common::{code, run, stderr};
use running::Running;

#[test]
fn a_running_transfer_is_shown_screen_after_screen() {
    let running = Running::start("2").ready();
    let output = running.ask(&["top", "--batch", "-n", "3", "-d", "0.3"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let process = format!("wirespeed ttcp, process {}", running.pid());
    assert_eq!(text.matches(&process).count(), 3, "{text}");
    let tables = ["Ports", "Sizes", "Protocols", "Drops", "Who talks", "Connections"];
    for table in tables.map(|name| format!(" {name} ")) {
        assert_eq!(text.matches(&table).count(), 3, "{table}: {text}");
    }
    for shown in ["wake-ups ", "context switches ", "ESTABLISHED", "TCP", "% of them looked at"] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
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
