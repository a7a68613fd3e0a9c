//! `show` of a running transfer in memory, with one thread for both stacks and with one each.

use std::time::Duration;

use serde_json::Value;

use crate::common::{code, program, stderr};
use crate::running::Running;

#[test]
fn both_stacks_are_shown_on_one_thread_and_on_two() {
    for threads in ["1", "2"] {
        let running = Running::start(threads);
        let pid = running.pid();
        let connected = || {
            let output = running.ask(&["show", "--json", "--pid", &pid]);
            let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            let received = &found["stacks"][1]["connections"][0]["bytes_received"];
            (received.as_u64() > Some(0)).then_some(found)
        };
        let wait = || std::thread::sleep(Duration::from_millis(50));
        let found = (0..200).find_map(|_| connected().or_else(|| (wait(), None).1));
        let found = found.unwrap_or_else(|| {
            let output = running.ask(&["show", "--json", "--pid", &pid]);
            panic!("{threads} threads: {} {}", code(&output), stderr(&output))
        });
        for (stack, name) in ["sender", "receiver"].iter().enumerate() {
            let shown = &found["stacks"][stack];
            assert_eq!(shown["name"], *name);
            assert_eq!(shown["connections"][0]["state"], "ESTABLISHED", "{shown}");
            let sums = shown["stack"]["checksums"].as_str().expect("how, and why in brackets");
            assert!(sums.contains(" (") && sums.ends_with(')'), "{sums}");
            for section in ["stack", "ports", "addresses", "neighbours", "routes"] {
                assert!(shown[section].is_object() || !shown[section][0].is_null(), "{section}");
            }
            for section in ["groups", "frag", "drops", "counters", "limits", "switches"] {
                assert!(!shown[section].is_null(), "{name} has no {section}");
            }
        }
        let output = running.ask(&["show", "connections", "--pid", &pid]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(text.matches("ESTABLISHED").count(), 2, "{text}");
    }
}

/// Where samples are not permitted, or the test's program has no line tables, it says so.
#[test]
fn a_budget_is_of_stages_or_says_what_is_missing() {
    let running = Running::start("2").ready();
    let pid = running.pid();
    let output = running.ask(&["show", "budget", "--seconds", "0.5", "--json", "--pid", &pid]);
    if code(&output) != 0 {
        let said = stderr(&output);
        let is_told = said.contains("no samples can be taken") || said.contains("line tables");
        assert!(is_told, "{said}");
        return;
    }
    let found: Value = serde_json::from_slice(&output.stdout).expect("one document");
    let budget = &found["budget"];
    let stages = budget["stages"].as_array().expect("a list");
    let names: Vec<&str> = stages.iter().filter_map(|stage| stage["stage"].as_str()).collect();
    assert!(["driver", "tcp", "copy", "rest"].iter().all(|name| names.contains(name)), "{names:?}");
    let percent: f64 = stages.iter().filter_map(|stage| stage["percent"].as_f64()).sum();
    assert!(budget["samples"].as_u64() > Some(0), "{budget}");
    assert!((percent - 100.0).abs() < 1e-6, "{percent}");
    assert!(budget["packets"].as_u64() > Some(0), "{budget}");
    assert_eq!(budget["shows"].as_array().map(Vec::len), Some(2), "{budget}");
}

/// They are refused before any program is looked for: there is none with this number.
#[test]
fn options_of_the_budget_change_something_or_are_refused() {
    for (words, says) in [
        (&["show", "drops", "--seconds", "1"][..], "--seconds is for budget"),
        (&["show", "budget", "--seconds", "0"][..], "0.1 to 3600"),
        (&["show", "budget", "state", "established"][..], "no FILTER"),
    ] {
        let output = program().args(words).args(["--pid", "0"]).output().expect("it starts");
        assert_eq!(code(&output), 2, "{words:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{words:?}: {}", stderr(&output));
    }
}
