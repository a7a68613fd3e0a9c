//! `wirespeed trace` as users run it: a table, a document, a page, files that are cut, files that
//! are no capture.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::{code, run, stderr};
use crate::running::Running;

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
    assert!(said.contains(" packets, 2 TCP connections"), "one for each interface: {said}");
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
    assert!(
        together["analysis"]["retransmission"].as_u64() > Some(0),
        "no copy counts as sent again"
    );
}

#[test]
fn a_file_that_is_cut_off_is_reported_up_to_the_cut() {
    let path = capture("trace-cut.pcapng");
    let bytes = std::fs::read(&path).expect("it was written");
    std::fs::write(&path, &bytes[..bytes.len() / 2]).expect("the file is written");
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
    std::fs::write(&nothing, b"hello").expect("the file is written");
    let nothing = nothing.to_str().expect("a path in UTF-8");
    for (args, exit, says) in [
        (&["trace", nothing][..], 1, "is no capture"),
        (&["trace", "/does/not/exist"], 1, "cannot read"),
        (&["trace"], 2, "FILE"),
        (&["trace", "/"], 1, "this is a folder: name a file in it"),
        (&["trace", "/dev/null"], 1, "it is empty (`wirespeed dump -w`"),
    ] {
        let output = run(args);
        assert_eq!(code(&output), exit, "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{args:?}: {}", stderr(&output));
    }
    assert!(Path::new(nothing).exists());
}

/// The length that a record claims.
const CLAIM: u32 = 2 << 30;

#[test]
fn a_record_that_claims_two_gigabytes_is_damage_and_allocates_nothing() {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let header = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1];
    let record = |len: u32| [1, 0, len, len];
    let section = [0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28];
    let interface = [1, 20, 1, 65_535, 20];
    let block = |len: u32| [6, 32_u32.saturating_add(len), 0, 0, 0, len, len];
    let whole: Vec<u8> = words(&[&header[..], &record(4), &[0]].concat());
    let files: [Vec<u8>; 3] = [
        words(&[&header[..], &record(CLAIM), &[0; 4]].concat()),
        [&whole[..], &words(&record(CLAIM))].concat(),
        words(&[&section[..], &interface, &block(CLAIM), &[0; 4]].concat()),
    ];
    for (number, bytes) in files.iter().enumerate() {
        let path = place(&format!("trace-claim-{number}"));
        std::fs::write(&path, bytes).expect("the file is written");
        let output = limited(&["trace", path.to_str().expect("text")]);
        assert_eq!(code(&output), 1, "{number}: {}", stderr(&output));
        let said = stderr(&output);
        assert!(said.contains("cut off or damaged") && !said.contains("panicked"), "{said}");
    }
    let path = place("trace-claim-1");
    std::fs::write(&path, whole).expect("the file is written");
    let path = path.to_str().expect("text");
    let output = run(&["trace", path, "-o", "/no/such/folder/x.html"]);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    assert!(stderr(&output).contains("mkdir -p"), "{}", stderr(&output));
}

/// Run it with a gigabyte of address space.
fn limited(args: &[&str]) -> std::process::Output {
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "ulimit -v 1000000; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_wirespeed")]);
    shell.args(args).output().expect("the shell starts")
}
