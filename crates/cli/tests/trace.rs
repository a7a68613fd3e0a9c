//! `wirespeed trace` as users run it: a table, a document, a page, files that are cut, what is no
//! capture.

#[allow(dead_code, reason = "each test program uses a part")]
mod common;
#[allow(dead_code, reason = "each test program uses a part")]
mod running;

use std::path::{Path, PathBuf};

use common::{code, run, stderr};
use running::Running;
use serde_json::Value;

fn place(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// A capture of a running transfer in memory, at both ends.
fn capture(name: &str) -> String {
    let path = place(name).to_str().expect("a path in UTF-8").to_owned();
    let running = Running::start("1").ready();
    let output = running.ask(&["dump", "-c", "20000", "-s", "100", "-w", &path]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    path
}

fn text(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_transfer_is_told_as_a_table_a_document_and_a_page() {
    let (path, page) = (capture("trace-whole.pcapng"), place("trace-whole.html"));
    let page = page.to_str().expect("a path in UTF-8");
    let table = run(&["trace", &path, "-o", page]);
    assert_eq!(code(&table), 0, "{}", stderr(&table));
    let said = text(&table);
    assert!(said.contains(" packets, 2 TCP connections"), "an interface each: {said}");
    assert!(said.contains("its beginning is not in the capture"), "{said}");
    assert!(stderr(&table).contains("page: "), "{}", stderr(&table));
    let html = std::fs::read_to_string(page).expect("a page");
    assert!(
        html.starts_with("<!doctype html>") && !html.contains("=\"http"),
        "it needs no network"
    );
    let found: Value =
        serde_json::from_str(&text(&run(&["trace", "--json", &path]))).expect("JSON");
    assert_eq!(found["whole"], true);
    for connection in found["connections"].as_array().expect("a list") {
        let ways = [&connection["from_client"], &connection["from_server"]];
        assert!(ways.iter().any(|way| way["bytes"].as_u64() > Some(10_000)), "{connection}");
        assert!(ways.iter().all(|way| way["analysis"]["retransmission"] == 0), "{connection}");
    }
    let together: Value =
        serde_json::from_str(&text(&run(&["trace", "--json", "--together", &path]))).expect("JSON");
    assert_eq!(together["connections"].as_array().map(Vec::len), Some(1));
    assert!(together["analysis"]["retransmission"].as_u64() > Some(0), "every one is seen twice");
}

#[test]
fn of_a_file_that_is_cut_off_what_is_before_is_told() {
    let path = capture("trace-cut.pcapng");
    let bytes = std::fs::read(&path).expect("it was written");
    std::fs::write(&path, &bytes[..bytes.len() / 2]).expect("room");
    let output = run(&["trace", "--json", &path]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("cut off or damaged"), "{}", stderr(&output));
    let found: Value = serde_json::from_str(&text(&output)).expect("one document");
    assert_eq!(found["whole"], false);
    assert!(found["packets"].as_u64() > Some(10), "{found}");
}

#[test]
fn what_is_no_capture_is_refused_with_a_word() {
    let nothing = place("trace-nothing.pcapng");
    std::fs::write(&nothing, b"hello").expect("room");
    let nothing = nothing.to_str().expect("a path in UTF-8");
    for (args, exit, says) in [
        (&["trace", nothing][..], 1, "is no capture"),
        (&["trace", "/does/not/exist"], 1, "cannot read"),
        (&["trace"], 2, "FILE"),
    ] {
        let output = run(args);
        assert_eq!(code(&output), exit, "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{args:?}: {}", stderr(&output));
    }
    assert!(Path::new(nothing).exists());
}
