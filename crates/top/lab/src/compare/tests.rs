//! Whole documents: comparisons, refusals, and files that are no documents.

use serde_json::{Value, json};

use super::*;

fn pps(ns: [f64; 2], settings: &Value) -> Value {
    let row = |protocol: &str, payload: u64, ns: f64| {
        json!({"protocol": protocol, "payload": payload, "ns": ns, "low_ns": ns * 0.99,
            "high_ns": ns * 1.01, "pps": 1e9 / ns})
    };
    let sample = |protocol: &str, payload: u64, ns: f64| {
        let pps: Vec<f64> = (0..5).map(|n| 1e9 / ns * (1.0 + f64::from(n) / 1_000.0)).collect();
        json!({"protocol": protocol, "payload": payload, "pps": pps})
    };
    json!({
        "lab": "pps",
        "version": "0.1.0",
        "machine": {"build": "optimised"},
        "settings": settings,
        "units": {"ns": "ns a packet", "pps": "packets a second", "payload": "bytes"},
        "rows": [row("TCP", 64, ns[0]), row("TCP", 1448, ns[1])],
        "samples": [sample("TCP", 64, ns[0]), sample("TCP", 1448, ns[1])],
    })
}

fn file(name: &str, value: &Value) -> File {
    File::parsed(name.to_owned(), value.to_string().as_bytes()).expect("a document")
}

fn said(a: &Value, b: &Value) -> String {
    let (a, b) = (file("A.json", a), file("B.json", b));
    match compare(&a, &b) {
        Ok(compared) => text(&a, &b, &compared),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_changed_is_said_with_its_ratio_and_the_rest_is_noise() {
    let settings = json!({"seconds": 1, "jobs": 2});
    let before = pps([100.0, 200.0], &settings);
    let after = pps([100.1, 150.0], &json!({"seconds": 1, "jobs": 1}));
    let text = said(&before, &after);
    assert!(text.contains("pps: 2 of 4 figures changed beyond noise, 2 did not"), "{text}");
    assert!(text.contains("1448: ns 200 -> 150, 0.750 (0.735 to 0.765) faster"), "{text}");
    assert!(text.contains("pps 5000000 -> 6666667"), "{text}");
    assert!(said(&before, &before).contains("0 of 4 figures changed"));
    let slower = said(&after, &pps([100.1, 200.0], &json!({"seconds": 1})));
    assert!(slower.contains("slower") && !slower.contains("faster"), "{slower}");
}

#[test]
fn a_noisy_machine_takes_a_small_change_for_noise() {
    let before = pps([100.0, 200.0], &json!({}));
    let mut after = pps([100.0, 160.0], &json!({}));
    assert!(said(&before, &after).contains("2 of 4"));
    after["machine"]["noise"] = json!({"spread": 0.5, "noisy": true});
    let text = said(&before, &after);
    assert!(text.contains("0 of 4") && text.contains("NOISY"), "{text}");
}

#[test]
fn other_experiments_settings_and_builds_are_refused() {
    let one = pps([1.0, 2.0], &json!({"seconds": 1}));
    let mut other = one.clone();
    other["lab"] = json!("tap");
    assert!(said(&one, &other).contains("A.json is of 'lab pps' and B.json of 'lab tap'"));
    let text = said(&one, &pps([1.0, 2.0], &json!({"seconds": 9})));
    assert!(text.contains("their settings differ: seconds is 1 in A and 9 in B"), "{text}");
    let mut slow = one.clone();
    slow["machine"]["build"] = json!("with debug assertions");
    assert!(said(&one, &slow).contains("build both alike"));
    let mut failed = one.clone();
    failed["error"] = json!("needs root");
    assert!(said(&one, &failed).contains("B has no figures: needs root"));
}

#[test]
fn of_all_experiments_each_is_compared_or_says_why_not() {
    let all = |each: Value| json!({"lab": "all", "machine": {}, "experiments": each});
    let one = pps([1.0, 2.0], &json!({"seconds": 1}));
    let other = pps([1.0, 2.0], &json!({"seconds": 9}));
    let mut tap = one.clone();
    tap["lab"] = json!("tap");
    let text = said(&all(json!([one, tap])), &all(json!([other])));
    assert!(text.contains("pps: not compared: their settings differ"), "{text}");
    assert!(text.contains("tap: not compared: only A.json has it"), "{text}");
    assert!(said(&one, &all(json!([other]))).contains("two of 'lab all'"));
}

#[test]
fn a_text_that_differs_from_run_to_run_does_not_part_the_rows() {
    let with = |why: &str, worst: f64| {
        let row = |ends: &str, why: &str| json!({"ends": ends, "why": why, "worst": worst});
        json!({"lab": "elbow", "machine": {}, "units": {"worst": "of the line"}, "settings": {},
            "rows": [row("ours", why), row("theirs", "none")], "samples": []})
    };
    let text = said(&with("2 packets", 1.0), &with("3 packets", 2.0));
    assert!(text.contains("2 differ, and nothing says how much"), "{text}");
    assert!(!text.contains("in one of them only"), "{text}");
}

#[test]
fn what_is_no_document_is_an_error_that_says_so() {
    let parsed = |bytes: &[u8]| match File::parsed("x.json".to_owned(), bytes) {
        Ok(_) => panic!("that is no document"),
        Err(error) => error.to_string(),
    };
    for bytes in [&b""[..], b"\x00\xff", b"[]", b"{}", b"{\"lab\": 3}", b"{\"lab\": \"all\"}"] {
        assert!(parsed(bytes).contains("x.json is no document of the lab"), "{bytes:?}");
    }
    // Documents of another program, or of `lab compare --json`.
    for text in ["{\"lab\": \"compare\", \"experiments\": []}", "{\"lab\": \"x\", \"rows\": 3}"] {
        assert!(parsed(text.as_bytes()).contains("has no list \"rows\""), "{text}");
    }
    let deep = "[".repeat(100_000);
    assert!(parsed(deep.as_bytes()).contains("recursion limit"));
    let rows = format!("{{\"lab\": \"pps\", \"rows\": [{}1]}}", "1,".repeat(20_000));
    assert!(parsed(rows.as_bytes()).contains("20001 rows, 10000 at most"));
    assert!(parsed(b"{\"lab\": \"pps\", \"rows\": [1]}").contains("a row of pps is no object"));
    let huge = json!({"lab": "pps", "machine": {}, "settings": {}, "units": {},
        "rows": [{"a": 1e308, "b": null}, {"a": -1.0}], "samples": [1, null, {"a": [[]]}]});
    let text = said(&huge, &huge);
    assert!(text.contains("0 of 0 figures changed"), "{text}");
}

/// A document may be from somebody else: its texts must not control the terminal.
#[test]
fn words_of_a_document_do_not_reach_the_terminal_as_they_are() {
    let path = std::env::temp_dir().join(format!("wirespeed-compare-{}", std::process::id()));
    let mut document = pps([1.0, 2.0], &json!({}));
    document["version"] = json!("\u{1b}[2Jred\u{9b}31m");
    let said = |documents: [&Value; 2]| {
        let files = [path.with_extension("a.json"), path.with_extension("b.json")];
        for (file, document) in files.iter().zip(documents) {
            std::fs::write(file, document.to_string()).expect("room");
        }
        let [before, after] = files.clone();
        let said = match perform(&Options { before, after, json: false }) {
            Ok(finished) => finished.text,
            Err(error) => error.to_string(),
        };
        files.iter().for_each(|file| std::fs::remove_file(file).expect("it was written"));
        said
    };
    let mut other = document.clone();
    other["lab"] = json!("\u{1b}[2Jred");
    for text in [said([&document, &document]), said([&document, &other])] {
        assert!(text.contains("[2Jred"), "{text}");
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
    }
}

#[test]
fn a_file_longer_than_any_document_is_not_read_to_its_end() {
    let error = File::read(std::path::Path::new("/dev/zero")).err().expect("it has no end");
    assert!(error.to_string().contains("more than 64 MB"), "{error}");
    let error = File::read(std::path::Path::new("/no/such.json")).err().expect("not there");
    assert!(error.to_string().contains("--out"), "{error}");
    let error = File::read(std::path::Path::new("/")).err().expect("a folder");
    assert!(error.to_string().contains("name a file in it"), "{error}");
}
