//! Launchers for cases: started as a user without privileges, with their processes.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::{Pid, Signal, geteuid, kill_process};
use testbed::{Need, Running, until};

/// The first argument of the launcher.
pub(crate) const LAUNCH: &str = "--launch";
/// The first argument of the launcher of a gateway without a program.
pub(crate) const SERVE: &str = "--serve";
/// A user who owns nothing.
const USER: &str = "61999";
/// For anything that happens soon.
pub(crate) const SOON: Duration = Duration::from_secs(30);

pub(crate) const NEEDS: &[Need] = &[Need::SETPRIV, Need::Other(no_namespaces)];
pub(crate) const PINGS: &[Need] = &[Need::SETPRIV, Need::PING, Need::Other(no_namespaces)];

fn no_namespaces() -> Option<String> {
    let (code, _, why) = run("", &["true"]);
    (code == 125).then_some(why)
}

/// A copy of this program that every user can execute.
pub(crate) fn program() -> &'static PathBuf {
    static COPY: OnceLock<PathBuf> = OnceLock::new();
    COPY.get_or_init(|| {
        let folder = std::env::var_os("WIRESPEED_RUNTIME_DIR").expect("testbed sets it");
        let copy = PathBuf::from(folder).join("netns");
        std::fs::copy(std::env::current_exe().expect("it runs"), &copy).expect("room");
        copy
    })
}

/// A command as a user without privileges.
pub(crate) fn as_user(program: &str) -> Command {
    if !geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", USER, "--regid", USER, "--clear-groups", program]);
    command
}

/// The launcher's command line for a shell.
pub(crate) fn launcher(options: &str) -> String {
    format!("{} {LAUNCH} {options} --", program().display())
}

/// A launcher with these options, split at spaces, and this command.
pub(crate) fn command(options: &str, command: &[&str]) -> Command {
    let mut launcher = as_user(program().to_str().expect("a name"));
    launcher.arg(LAUNCH).args(options.split_whitespace()).arg("--").args(command);
    launcher.current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    launcher
}

/// Run a launcher to its end: exit status, output, errors.
pub(crate) fn run(options: &str, what: &[&str]) -> (i32, String, String) {
    Running(command(options, what).spawn().expect("it starts")).end()
}

/// Run a launcher that has to succeed, with a shell's script; returns the output.
pub(crate) fn sh(options: &str, script: &str) -> String {
    let (code, out, err) = run(options, &["sh", "-c", script]);
    assert_eq!((code, err.as_str()), (0, ""), "{script}: {out}");
    out
}

/// A launcher that runs, with its two children.
pub(crate) struct Launched {
    pub(crate) running: Running,
    pub(crate) gateway: Pid,
    pub(crate) program: Pid,
}

impl Launched {
    /// Start a launcher of `sleep`, and wait until that is executed, by the launcher's child or by
    /// the first process of a PID namespace.
    pub(crate) fn start(mut command: Command) -> Launched {
        let is_sleep = |pid: &Pid| name_of(*pid) == "sleep";
        let running = Running(command.spawn().expect("it starts"));
        let launcher = Pid::from_child(&running.0);
        let mut found = (None, None);
        assert!(until(SOON, || {
            for child in children(launcher) {
                if is_confined(child) {
                    found.0 = Some(child);
                } else if is_sleep(&child) || children(child).iter().any(is_sleep) {
                    found.1 = Some(child);
                }
            }
            found.0.is_some() && found.1.is_some()
        }));
        let (gateway, program) = (found.0.expect("one"), found.1.expect("one"));
        Launched { running, gateway, program }
    }

    pub(crate) fn launcher(&self) -> Pid {
        Pid::from_child(&self.running.0)
    }
}

/// A gateway that is ready has its filter.
fn is_confined(pid: Pid) -> bool {
    status(pid, "Seccomp") == "2"
}

/// A line of a process's status.
pub(crate) fn status(pid: Pid, key: &str) -> String {
    let path = format!("/proc/{}/status", pid.as_raw_nonzero());
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.unwrap_or_default().trim().to_owned()
}

fn name_of(pid: Pid) -> String {
    status(pid, "Name")
}

pub(crate) fn children(pid: Pid) -> Vec<Pid> {
    let raw = pid.as_raw_nonzero();
    let text = std::fs::read_to_string(format!("/proc/{raw}/task/{raw}/children"));
    let text = text.unwrap_or_default();
    text.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

/// Has the process ended? A zombie whose parent has not noticed yet has.
pub(crate) fn has_ended(pid: Pid) -> bool {
    let state = status(pid, "State");
    state.is_empty() || state.starts_with('Z')
}

pub(crate) fn kill(pid: Pid, signal: Signal) {
    kill_process(pid, signal).expect("it runs");
}
