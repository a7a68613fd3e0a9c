//! `show` asks a transfer that runs in memory: one thread for both stacks, or one each.

#[allow(dead_code, reason = "each test program uses a part")]
mod common;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{code, stderr};
use serde_json::Value;

/// A transfer, ended with this, and the folder with its socket, removed with this.
struct Running {
    child: Child,
    folder: PathBuf,
}

impl Running {
    fn start(threads: &str) -> Running {
        let name = format!("wsshow-{}-{threads}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("room for a folder");
        let child = Command::new(env!("CARGO_BIN_EXE_wirespeed"))
            .args(["ttcp", "--seconds", "60", "--threads", threads])
            .env("XDG_RUNTIME_DIR", &folder)
            .stdout(Stdio::null())
            .spawn();
        Running { child: child.expect("the program starts"), folder }
    }

    fn show(&self, args: &[&str]) -> std::process::Output {
        let mut show = Command::new(env!("CARGO_BIN_EXE_wirespeed"));
        show.arg("show").args(args).env("XDG_RUNTIME_DIR", &self.folder);
        show.output().expect("the program starts")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn both_stacks_are_shown_on_one_thread_and_on_two() {
    for threads in ["1", "2"] {
        let running = Running::start(threads);
        let pid = running.child.id().to_string();
        let connected = || {
            let output = running.show(&["--json", "--pid", &pid]);
            let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            let received = &found["stacks"][1]["connections"][0]["bytes_received"];
            (received.as_u64() > Some(0)).then_some(found)
        };
        let wait = || std::thread::sleep(Duration::from_millis(50));
        let found = (0..200).find_map(|_| connected().or_else(|| (wait(), None).1));
        let found = found.unwrap_or_else(|| {
            let output = running.show(&["--json", "--pid", &pid]);
            panic!("{threads} threads: {} {}", code(&output), stderr(&output))
        });
        for (stack, name) in ["sender", "receiver"].iter().enumerate() {
            let shown = &found["stacks"][stack];
            assert_eq!(shown["name"], *name);
            assert_eq!(shown["connections"][0]["state"], "ESTABLISHED", "{shown}");
            for section in ["stack", "ports", "drops", "counters", "limits", "switches"] {
                assert!(!shown[section].is_null(), "{name} has no {section}");
            }
        }
        let output = running.show(&["connections", "--pid", &pid]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(text.matches("ESTABLISHED").count(), 2, "{text}");
    }
}
