//! One script: its command line, its time limit, and the result from its output.
//!
//! Called by: `packetdrill/mod.rs`, from several threads.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::{Bench, Script, Version};
use crate::process;

/// The outcome of a script.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Exit status 0.
    Passed,
    /// Another exit status, or a time-out: the reason in one line, and all output.
    Failed { reason: String, output: String },
    /// Something was missing.
    NotRun(String),
}

/// Characters of a reason that are shown.
const REASON_MAX: usize = 200;

/// Run a script.
pub(crate) fn script(bench: &Bench, script: &Script, worker: usize) -> Outcome {
    match attempt(bench, script, worker) {
        Ok(outcome) => outcome,
        Err(e) => Outcome::NotRun(format!("{e:#}")),
    }
}

fn attempt(bench: &Bench, script: &Script, worker: usize) -> Result<Outcome> {
    let folder = script.path.parent().context("a script lies in a folder")?;
    let stage = bench.tools.stage(folder)?;
    let sysctls = bench.tools.sysctls(worker);
    fs::write(&sysctls, "")?;
    let log = sysctls.with_extension("log");
    let out = fs::File::create(&log)?;
    let mut command = command(bench, script, &sysctls);
    command.current_dir(stage).stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
    let mut child = command.spawn().context("cannot run unshare")?;
    let pid = child.id();
    let ended = wait(&mut child, Duration::from_secs(bench.options.timeout));
    // Left behind by `set_sysctls.py`.
    let _ = fs::remove_file(format!("/tmp/sysctl_restore_{pid}.sh"));
    let output = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    Ok(match ended? {
        Some(status) if status.success() => Outcome::Passed,
        Some(status) => Outcome::Failed { reason: reason(&output, status, &script.path), output },
        None => {
            let reason = format!("no end within {} s", bench.options.timeout);
            Outcome::Failed { reason, output }
        }
    })
}

/// packetdrill in a namespace of its own, as a direct child: the process waited for is packetdrill
/// itself.
fn command(bench: &Bench, script: &Script, sysctls: &Path) -> Command {
    let options = &bench.options;
    let mut command = Command::new("unshare");
    command.arg("-n");
    // Time is virtual: a real-time priority would only disturb other processes.
    if process::find("setpriv").is_some() {
        command.args(["setpriv", "--bounding-set", "-sys_nice", "--inh-caps", "-sys_nice"]);
    }
    command.arg(&bench.packetdrill);
    command.arg(format!("--so_filename={}", bench.object.display()));
    let mut flags = format!("{},sysctls={}", options.profile, sysctls.display());
    let asked = if options.v6 { Version::V6 } else { Version::V4 };
    match script.version.unwrap_or(asked) {
        Version::V6 => {
            if script.version.is_none() {
                // Room for the segments of a script that was written for IPv4.
                flags.push_str(",mtu=1520");
                command.args(["--ip_version=ipv6", "--mtu=1520"]);
            }
            if script.locals.is_empty() {
                command.args(["--local_ip=fd3d:0a0b:17d6::1", "--remote_ip=fd3d:fa7b:d17d::1"]);
            }
            command.args(["-D", "CMSG_LEVEL_IP=SOL_IPV6", "-D", "CMSG_TYPE_RECVERR=IPV6_RECVERR"]);
            command.args(["-D", "TFO_COOKIE=c1d1e9742a47a9bc"]);
        }
        Version::V4 => {
            // The command line would override the script's own addresses.
            if script.locals.is_empty() {
                command.args(["--local_ip=192.168.0.1", "--remote_ip=192.0.2.1"]);
            }
            command.args(["-D", "CMSG_LEVEL_IP=SOL_IP", "-D", "CMSG_TYPE_RECVERR=IP_RECVERR"]);
            command.args(["-D", "TFO_COOKIE=3021b9d889017eeb", "-D", "CODE=host_unreachable"]);
        }
    }
    for local in &script.locals {
        flags.push_str(&format!(",local={local}"));
    }
    command.arg(format!("--so_flags={flags}")).arg(&script.path);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", bench.tools.path().display()));
    command.env("WIRESPEED_SYSCTLS", sysctls).env("LD_PRELOAD", &bench.object);
    command
}

/// Its exit status, or `None` if it was killed.
fn wait(child: &mut Child, most: Duration) -> Result<Option<ExitStatus>> {
    let until = Instant::now() + most;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() > until || process::interrupted() {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The line with the reason: packetdrill's own, or the last line of a failed assertion of a code
/// block.
fn reason(output: &str, status: ExitStatus, script: &Path) -> String {
    let path = script.display().to_string();
    let name = script.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let said = output.lines().find(|l| l.contains(&format!("{name}:")) && !l.contains("File \""));
    let asserted = output.lines().rev().find(|l| l.contains("Error"));
    let line = match (said, asserted) {
        (Some(line), Some(error)) if line.contains("Python") => {
            format!("{}: {}", line.replace(&format!("{path}:"), "line "), error.trim())
        }
        (Some(line), _) => {
            let rest = line.replace(&format!("{path}:"), "line ");
            compared(output).map_or(rest.clone(), |compared| format!("{rest} {compared}"))
        }
        (None, Some(line)) => {
            let at = output.lines().rev().find(|l| l.trim().starts_with("assert "));
            format!("{} {}", line.trim(), at.unwrap_or("").trim())
        }
        (None, None) => output.lines().last().map_or_else(|| status.to_string(), str::to_owned),
    };
    line.chars().take(REASON_MAX).collect()
}

/// The expected and the observed packet, if packetdrill prints them in two more lines.
fn compared(output: &str) -> Option<String> {
    let after = |word: &str| {
        output.lines().find_map(|l| l.trim().strip_prefix(word).map(|rest| rest.trim().to_owned()))
    };
    Some(format!("[expected {}; saw {}]", after("script packet:")?, after("actual packet:")?))
}
