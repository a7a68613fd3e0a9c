//! `show` of a running transfer in memory, with one thread for both stacks and with one each.

#[allow(dead_code, reason = "each test program uses a part")]
mod common;
#[allow(dead_code, reason = "each test program uses a part")]
mod running;

use std::time::Duration;

use common::{code, stderr};
use running::Running;
use serde_json::Value;

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
            for section in
                ["stack", "ports", "groups", "frag", "drops", "counters", "limits", "switches"]
            {
                assert!(!shown[section].is_null(), "{name} has no {section}");
            }
        }
        let output = running.ask(&["show", "connections", "--pid", &pid]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(text.matches("ESTABLISHED").count(), 2, "{text}");
    }
}
