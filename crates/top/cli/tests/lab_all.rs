//! `wirespeed lab all` and `lab compare` as users run them: exit codes, the page, Ctrl-C.

use std::path::PathBuf;

use serde_json::Value;

use crate::common::{code, file, program, run, stderr};

fn path(name: &str) -> PathBuf {
    file(name, 0).0
}

fn shown(path: &std::path::Path) -> &str {
    path.to_str().expect("a path that is text")
}

fn manifest(page: &str) -> Value {
    let (_, rest) = page.split_once("id=\"manifest\">").expect("a manifest");
    let (json, _) = rest.split_once("</script>").expect("its end");
    serde_json::from_str(json).expect("JSON")
}

#[test]
fn a_bad_command_line_says_what_to_do_and_exits_with_2() {
    let cases: &[(&[&str], &str)] = &[
        (&["lab", "all", "--only", "moon"], "mitigation"),
        (&["lab", "all", "--seeds", "3"], "--seeds"),
        (&["lab", "compare", "a.json"], "B.json"),
    ];
    for &(args, says) in cases {
        let output = run(args);
        assert_eq!(code(&output), 2, "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{args:?}: {}", stderr(&output));
    }
    let output = run(&["lab", "compare", "/no/such.json", "/no/such.json"]);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    assert!(stderr(&output).contains("--out /no/such.json"), "{}", stderr(&output));
}

#[test]
fn a_page_that_cannot_be_written_is_told_before_anything_is_measured() {
    // If the experiments ran first, this would take many minutes.
    let output = run(&["lab", "all", "-o", "/does/not/exist/report.html"]);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    assert!(stderr(&output).contains("mkdir -p"), "{}", stderr(&output));
}

#[test]
fn two_experiments_make_a_page_and_a_document_that_compares_with_itself() {
    let (page, document) = (path("lab-all.html"), path("lab-all.json"));
    let asked = ["lab", "all", "--quick", "--only", "telnet,storm"];
    let asked = [&asked[..], &["-o", shown(&page), "--out", shown(&document)]].concat();
    let output = run(&asked);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let summary = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(summary.contains("telnet: done, 4 of 4 rows"), "{summary}");
    assert!(stderr(&output).contains("1 of 2: telnet"), "{}", stderr(&output));
    let html = std::fs::read_to_string(&page).expect("written");
    let found = manifest(&html);
    assert_eq!(found["experiments"][0]["rows"], 4);
    assert_eq!(found["experiments"][1]["name"], "storm");
    assert!(html.len() < 300_000, "{} bytes", html.len());
    let all: Value =
        serde_json::from_slice(&std::fs::read(&document).expect("written")).expect("JSON");
    assert_eq!(all["experiments"][0]["lab"], "telnet");
    let both = run(&["lab", "compare", shown(&document), shown(&document)]);
    assert_eq!(code(&both), 0, "{}", stderr(&both));
    let said = String::from_utf8_lossy(&both.stdout).into_owned();
    assert!(said.contains("telnet: 0 of") && said.contains("storm: 0 of"), "{said}");
}

#[test]
fn a_change_is_found_and_other_settings_are_refused() {
    let make = |name: &str, more: &[&str]| {
        let out = path(name);
        let asked = [&["lab", "telnet", "--out", shown(&out)], more].concat();
        assert_eq!(code(&run(&asked)), 0, "{name}");
        out
    };
    let before = make("telnet-before.json", &[]);
    let far = make("telnet-far.json", &["--rtt", "400"]);
    let refused = run(&["lab", "compare", shown(&before), shown(&far)]);
    assert_eq!(code(&refused), 2, "{}", stderr(&refused));
    assert!(stderr(&refused).contains("rtt_ms is 200 in A and 400 in B"), "{}", stderr(&refused));
    // The same settings, and an echo that takes longer: as a slower stack would show.
    let text = std::fs::read_to_string(&before).expect("written");
    let mut document: Value = serde_json::from_str(&text).expect("JSON");
    document["rows"][0]["echo_ms"] = serde_json::json!(300.0);
    let slower = path("telnet-slower.json");
    std::fs::write(&slower, document.to_string()).expect("the target folder can be written");
    let found = run(&["lab", "compare", shown(&before), shown(&slower), "--json"]);
    assert_eq!(code(&found), 0, "{}", stderr(&found));
    let found: Value = serde_json::from_slice(&found.stdout).expect("JSON");
    let changes = &found["experiments"][0]["changes"];
    assert_eq!(changes.as_array().map(Vec::len), Some(1), "{found}");
    assert_eq!(changes[0]["verdict"], "slower", "{found}");
    assert_eq!(changes[0]["row"]["mode"], "character", "{found}");
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_at_once_with_the_page_of_what_there_is_and_130() {
    use std::process::Stdio;
    use std::time::Duration;

    use rustix::process::{Pid, Signal, kill_process};

    let page = path("lab-all-stopped.html");
    let mut command = program();
    // The first takes a moment, the second, without --quick, many minutes.
    command.args(["lab", "all", "--only", "telnet,wan,fair", "-o", shown(&page)]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.expect("the program starts");
    std::thread::sleep(Duration::from_secs(6));
    kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(code(&output), 130, "{}", stderr(&output));
    let html = std::fs::read_to_string(&page).expect("written");
    let found = manifest(&html);
    assert_eq!(found["interrupted"], true);
    let each = found["experiments"].as_array().expect("a list");
    assert_eq!(each.len(), 3);
    assert_eq!(each[2]["status"], "not run", "{found}");
    assert!(html.contains("Stopped before its end"));
}
