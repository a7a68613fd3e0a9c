//! Programs of somebody else: one whose stack the tools and a browser see, and one that is a
//! router.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use testbed::{Browser, Case, Namespace, Need, Running, ip, until};

pub(crate) const CASES: &[Case] = &[
    ("the_tools_see_a_program_that_is_observed", &[], tools),
    ("a_browser_sees_a_program_that_is_observed", &[Need::CHROMIUM], browser),
    ("ten_lines_are_a_router", &[Need::PING], router),
];

const PATIENCE: Duration = Duration::from_secs(60);

/// A folder for sockets, gone with this.
struct Runtime(PathBuf);

impl Runtime {
    fn new(name: &str) -> Runtime {
        let path = std::env::temp_dir().join(format!("wsem-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("room for a folder");
        Runtime(path)
    }

    /// This program as `wirespeed`.
    fn wirespeed(&self, args: &[&str]) -> Output {
        let mut tool = Command::new(std::env::current_exe().expect("it has a file"));
        tool.args(args).env(super::AS_WIRESPEED, "1").env("WIRESPEED_RUNTIME_DIR", &self.0);
        tool.output().expect("it starts")
    }

    fn text(&self, args: &[&str]) -> String {
        let output = self.wirespeed(args);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The program, and the URL of its page.
fn seen(runtime: &Runtime) -> (Running, String) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_seen"));
    program.env("WIRESPEED_RUNTIME_DIR", &runtime.0).stdout(Stdio::piped());
    let mut running = Running(program.spawn().expect("it starts"));
    let mut line = String::new();
    let mut said = BufReader::new(running.0.stdout.take().expect("piped"));
    said.read_line(&mut line).expect("it says where its page is");
    let url = line.trim().strip_prefix("live page: ").unwrap_or_else(|| panic!("{line}"));
    (running, url.to_owned())
}

fn tools() {
    let runtime = Runtime::new("seen");
    let (_running, _) = seen(&runtime);
    let connections = || runtime.text(&["show", "connections"]);
    assert!(until(PATIENCE, || connections().contains("ESTABLISHED")), "{}", connections());
    let stack = runtime.text(&["show", "stack"]);
    assert!(stack.contains("seen"), "{stack}");
    let top = runtime.text(&["top", "--batch", "--count", "1"]);
    assert!(top.contains("ESTABLISHED"), "{top}");
    let explained = runtime.text(&["explain", "--seconds", "2"]);
    assert!(explained.contains("limited by"), "{explained}");
    // The program allows no change.
    let refused = runtime.wirespeed(&["ip", "route", "add", "198.51.100.0/24", "dev", "port0"]);
    let why = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && why.contains("not permitted"), "{why}");
}

fn browser() {
    let runtime = Runtime::new("page");
    let (_running, url) = seen(&runtime);
    assert!(ip("link set lo up"));
    let mut browser = Browser::start();
    browser.open(&url);
    let is_live = "document.getElementById('status').textContent === 'live'";
    assert!(browser.until(PATIENCE, is_live), "{:?}", browser.complaints());
    let row = "document.querySelectorAll('#connections tbody tr').length === 1";
    assert!(browser.until(PATIENCE, row), "{:?}", browser.complaints());
    assert_eq!(browser.complaints(), &[] as &[String]);
}

fn router() {
    const CONFIG: &str = "[[port]]\nname = \"wan\"\ndevice = \"tap:ws0\"\n\
        addresses = \"192.0.2.2/24\"\n[[port]]\nname = \"lan\"\ndevice = \"tap:ws1\"\n\
        addresses = \"198.51.100.1/24\"\n";
    let runtime = Runtime::new("router");
    let file = runtime.0.join("router.toml");
    std::fs::write(&file, CONFIG).expect("room");
    let mut program = Command::new(env!("CARGO_BIN_EXE_router"));
    program.arg(&file).env("WIRESPEED_RUNTIME_DIR", &runtime.0);
    let mut running = Running(program.spawn().expect("it starts"));
    let behind = Namespace::new().expect("root may");
    assert!(until(PATIENCE, || ip("link show dev ws0") && ip("link show dev ws1")));
    assert!(ip("addr add 192.0.2.1/24 dev ws0") && ip("link set ws0 up"));
    assert!(ip("route add 198.51.100.0/24 via 192.0.2.2"));
    assert!(ip(&format!("link set ws1 netns {}", behind.name())));
    assert!(behind.ip("addr add 198.51.100.2/24 dev ws1") && behind.ip("link set ws1 up"));
    assert!(behind.ip("route add default via 198.51.100.1"));
    let is_through = || {
        let ping = Command::new("ping").args(["-c", "1", "-W", "1", "198.51.100.2"]).output();
        ping.is_ok_and(|ping| ping.status.success())
    };
    assert!(until(PATIENCE, is_through));
    assert!(runtime.text(&["show", "routes"]).contains("198.51.100.0/24"));
    kill_process(Pid::from_child(&running.0), Signal::TERM).expect("it runs");
    assert!(running.0.wait().expect("it ends").success());
}
