//! Networks that are there: a link is made in them, and the gateway ends with them.

use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal};
use testbed::{Case, Running, until};

use crate::world::{PINGS, SOON, as_user, has_ended, kill, run, status};

pub(crate) const CASES: &[Case] = &[("a_network_that_is_there_gets_a_link", PINGS, connected)];

/// A process in a user namespace and a network of its own.
fn container() -> Running {
    let mut command = as_user("unshare");
    command.args(["-rn", "sleep", "300"]).stdin(Stdio::null()).current_dir("/");
    let running = Running(command.spawn().expect("it starts"));
    let pid = Pid::from_child(&running.0);
    assert!(until(SOON, || status(pid, "Name") == "sleep"));
    running
}

fn inside(pid: Pid, line: &[&str]) -> (bool, String) {
    let mut command: Command = as_user("nsenter");
    command.args(["-t", &pid.as_raw_nonzero().to_string(), "-U", "-n", "--preserve-credentials"]);
    let output = command.args(line).current_dir("/").output().expect("it starts");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

fn connected() {
    let container = container();
    let pid = Pid::from_child(&container.0);
    let (code, out, err) = run(&format!("attach={}", pid.as_raw_nonzero()), &["true"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let gateway = out.trim().parse().ok().and_then(Pid::from_raw).expect("a number");
    // The launcher has ended, and the gateway has its filter.
    assert_eq!(status(gateway, "Seccomp"), "2");
    let (_, devices) = inside(pid, &["cat", "/proc/net/dev"]);
    assert!(devices.contains("eth0:"), "{devices}");
    for to in ["10.0.2.2", "fd77::2"] {
        let (is_good, text) = inside(pid, &["ping", "-c1", "-W5", to]);
        assert!(is_good, "{to}: {text}");
    }
    kill(pid, Signal::KILL);
    drop(container);
    assert!(until(SOON, || has_ended(gateway)), "the gateway outlives the network");
}
