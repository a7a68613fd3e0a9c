//! Runs the commands of bench `build` on given cores, in folders that are removed afterwards.
//! Ctrl-C ends them. Called by `mod.rs` and `nothing.rs`.
//!
//! A command is a process group of its own, so that all its processes can be ended together. Its
//! output goes to files, because processes that the command leaves behind would hold a pipe open.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::measure::pin;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The time between two checks of whether a command has ended.
const LOOK: Duration = Duration::from_millis(20);
/// How long a command has to end after Ctrl-C before it is killed.
const GRACE: Duration = Duration::from_secs(10);

/// From now on Ctrl-C, SIGTERM and SIGHUP end the running command, and the rows after it report
/// this.
pub fn catch_interrupts() -> Result<()> {
    ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::SeqCst)).context("catching Ctrl-C")
}

/// Has Ctrl-C been pressed?
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// A folder below the system's folder for temporary files, removed on drop with all its contents.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new() -> Result<Scratch> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("wirespeed-bench-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).with_context(|| format!("making {}", path.display()))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A process that was just killed may still create a file in the folder. Then removing the
        // folder fails, and is tried again.
        let mut outcome = fs::remove_dir_all(&self.0);
        for _ in 0..5 {
            if outcome.is_err() && self.0.exists() {
                sleep(Duration::from_millis(200));
                outcome = fs::remove_dir_all(&self.0);
            }
        }
        if let Err(why) = outcome.or_else(|why| if self.0.exists() { Err(why) } else { Ok(()) }) {
            eprintln!("wirespeed-bench: {} is not removed: {why}", self.0.display());
        }
    }
}

/// A `cargo` command for a workspace and a target folder, without the caller's settings that would
/// change a build.
pub(super) fn cargo(workspace: &Path, target: &Path) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    clean(&mut command, target);
    command.current_dir(workspace);
    command
}

/// A target folder for the cargo below a command, and no other settings that change a build.
pub(super) fn clean(command: &mut Command, target: &Path) {
    // WIRESPEED_XTASK is set by `cargo xtask`, whose processes below would not guard each other.
    const NAMES: [&str; 8] = [
        "CARGO_BUILD_RUSTFLAGS",
        "CARGO_BUILD_TARGET_DIR",
        "CARGO_ENCODED_RUSTFLAGS",
        "CARGO_INCREMENTAL",
        "CARGO_MANIFEST_DIR",
        "RUSTFLAGS",
        "RUSTC_WRAPPER",
        "WIRESPEED_XTASK",
    ];
    for (name, _) in std::env::vars_os() {
        let is_profile = name.to_string_lossy().starts_with("CARGO_PROFILE_");
        if is_profile || NAMES.iter().any(|known| OsStr::new(known) == name) {
            command.env_remove(name);
        }
    }
    command.env("CARGO_TARGET_DIR", target);
}

/// A command that has ended.
pub(super) struct Ran {
    /// The command line, for messages.
    shown: String,
    status: ExitStatus,
    pub(super) stdout: String,
    stderr: String,
    /// Wall time.
    pub(super) seconds: f64,
    /// Processor time of the command and all its descendants.
    pub(super) cpu_s: f64,
}

impl Ran {
    /// The command itself if it succeeded, otherwise an error with the last lines of its output.
    pub(super) fn succeeded(self) -> Result<Ran> {
        let said = [last(&self.stderr, 3), last(&self.stdout, 3)].concat().join("; ");
        let Ran { shown, status, seconds, .. } = &self;
        ensure!(status.success(), "`{shown}` ended with {status} after {seconds:.0} s: {said}");
        Ok(self)
    }
}

/// The last `lines` lines of a text that are not empty.
fn last(text: &str, lines: usize) -> Vec<&str> {
    let mut lines: Vec<&str> =
        text.lines().rev().map(str::trim).filter(|line| !line.is_empty()).take(lines).collect();
    lines.reverse();
    lines
}

/// Runs a command on these cores until it ends.
pub(super) fn run(command: &mut Command, cores: &[usize]) -> Result<Ran> {
    ensure!(!interrupted(), "interrupted");
    let shown = shown(command);
    eprintln!("    {shown}");
    let logs = Scratch::new()?;
    let (out, err) = (logs.0.join("out"), logs.0.join("err"));
    command.stdin(Stdio::null()).stdout(File::create(&out)?).stderr(File::create(&err)?);
    // The command inherits the cores of this thread, so this thread is pinned first.
    pin(cores)?;
    let (begun, cpu_s) = (Instant::now(), children_cpu_s()?);
    let child = command.process_group(0).spawn();
    let status = wait(child.with_context(|| format!("starting `{shown}`"))?, &INTERRUPTED)?;
    let (seconds, cpu_s) = (begun.elapsed().as_secs_f64(), children_cpu_s()? - cpu_s);
    let read = |file: &Path| fs::read(file).map(|text| String::from_utf8_lossy(&text).into_owned());
    Ok(Ran { shown, status, stdout: read(&out)?, stderr: read(&err)?, seconds, cpu_s })
}

/// Waits until a child ends, and returns its status. After Ctrl-C its process group gets SIGINT,
/// and SIGKILL if it has not ended after [`GRACE`].
fn wait(mut child: Child, interrupted: &AtomicBool) -> Result<ExitStatus> {
    let interrupted = || interrupted.load(Ordering::SeqCst);
    let group = Pid::from_child(&child);
    let mut asked: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait().context("waiting for a command")? {
            if asked.is_none() && !interrupted() {
                return Ok(status);
            }
            // End the processes of the group that are still running.
            let _ = kill_process_group(group, Signal::KILL);
            bail!("interrupted");
        }
        match asked {
            None if interrupted() => {
                let _ = kill_process_group(group, Signal::INT);
                asked = Some(Instant::now());
            }
            Some(at) if at.elapsed() > GRACE => {
                let _ = kill_process_group(group, Signal::KILL);
            }
            None | Some(_) => {}
        }
        sleep(LOOK);
    }
}

/// The command line as a person would type it, without the folder of the program.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    let words = std::iter::once(name).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

/// Processor time in seconds of the children that have ended, and of their own children.
fn children_cpu_s() -> Result<f64> {
    let used = getrusage(UsageWho::RUSAGE_CHILDREN).context("getrusage")?;
    let micros = used.user_time().num_microseconds() + used.system_time().num_microseconds();
    Ok(micros as f64 * 1e-6)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;

    /// Runs a shell on the cores of the caller.
    fn shell(script: &str) -> Result<Ran> {
        let cores = crate::measure::Cores::allowed()?.both();
        run(Command::new("sh").args(["-c", script]), &cores)
    }

    #[test]
    fn output_and_status_are_kept() {
        let ran = shell("echo a; echo b; echo c >&2; exit 3").expect("a shell");
        assert_eq!(ran.stdout, "a\nb\n");
        let why = ran.succeeded().err().expect("a status of 3").to_string();
        assert!(why.contains("exit status: 3") && why.ends_with("c; a; b"), "{why}");
        assert!(shell("true").expect("a shell").succeeded().is_ok());
    }

    #[test]
    fn an_interrupted_command_ends_with_its_children() {
        let script = "trap 'exit 7' INT; sleep 600 & echo started; wait";
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().expect("a shell");
        let mut line = String::new();
        let out = child.stdout.take().expect("piped");
        let mut out = BufReader::new(out);
        out.read_line(&mut line).expect("a line");
        let why = wait(child, &AtomicBool::new(true)).expect_err("interrupted");
        assert_eq!(why.to_string(), "interrupted");
        // The background `sleep` held the other end of the pipe, so the end of the pipe shows that
        // it has ended too.
        line.clear();
        assert_eq!(out.read_line(&mut line).expect("the end"), 0);
    }

    #[test]
    fn a_folder_goes_with_all_that_is_in_it() {
        let scratch = Scratch::new().expect("a folder");
        let path = scratch.0.clone();
        fs::create_dir_all(path.join("a/b")).expect("folders");
        fs::write(path.join("a/b/c"), "text").expect("a file");
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn a_build_has_its_own_target_and_no_flags_of_the_caller() {
        let command = cargo(Path::new("/"), Path::new("/t"));
        let of = |name: &str| command.get_envs().find(|(key, _)| *key == name);
        let target = of("CARGO_TARGET_DIR").and_then(|(_, value)| value);
        assert_eq!(target, Some(OsStr::new("/t")));
        // Cargo sets this variable for every test.
        assert_eq!(of("CARGO_MANIFEST_DIR"), Some((OsStr::new("CARGO_MANIFEST_DIR"), None)));
    }
}
