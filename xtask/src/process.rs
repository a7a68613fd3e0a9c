//! Running other programs: found on PATH or not, with output kept or passed on, and Ctrl-C.
//!
//! The terminal sends Ctrl-C to our children too: they end, and we clean up and report it.

use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From here on Ctrl-C sets a flag; a second Ctrl-C ends the program at once.
pub(crate) fn catch_interrupts() {
    let caught = ctrlc::set_handler(|| {
        if INTERRUPTED.swap(true, Ordering::SeqCst) {
            std::process::exit(130);
        }
    });
    if let Err(e) = caught {
        eprintln!("warning: Ctrl-C will not clean up: {e}");
    }
}

/// Has Ctrl-C been pressed?
pub(crate) fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// The command line as a person would type it, for messages: the program without its folder.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or(program.as_os_str());
    let mut words = vec![program.to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|a| a.to_string_lossy().into_owned()));
    words.join(" ")
}

/// Run with output passed on; anything but success is an error that names the command.
pub(crate) fn pass_on(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {}", shown(command)))?;
    if !status.success() {
        bail!("`{}` ended with {status}", shown(command));
    }
    Ok(())
}

/// Run with standard output kept and standard error passed on.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let out = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {}", shown(command)))?;
    if !out.status.success() {
        bail!("`{}` ended with {}", shown(command), out.status);
    }
    String::from_utf8(out.stdout).with_context(|| format!("{} printed no UTF-8", shown(command)))
}

/// Run and give each line of standard output to `line` as it comes. True when it succeeded.
pub(crate) fn lines(command: &mut Command, mut line: impl FnMut(&str)) -> Result<bool> {
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {}", shown(command)))?;
    let stdout = child.stdout.take().context("no standard output")?;
    for bytes in BufReader::new(stdout).split(b'\n') {
        line(&String::from_utf8_lossy(&bytes?));
    }
    Ok(child.wait()?.success())
}

/// Where `program` is, in PATH or where system daemons live.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/lib/frr"].map(PathBuf::from))
        .map(|dir| dir.join(program))
        .find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// Is the effective user root?
pub(crate) fn is_root() -> bool {
    Path::new("/proc/self").metadata().is_ok_and(|m| m.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sh_is_found_and_nonsense_is_not() {
        assert!(find("sh").is_some());
        assert!(find("no-such-program-here").is_none());
    }

    #[test]
    fn a_failure_names_the_command() {
        let e = pass_on(Command::new("false").arg("now")).unwrap_err();
        assert!(format!("{e:#}").contains("false now"));
        assert!(
            format!("{:#}", output(&mut Command::new("no-such-one")).unwrap_err())
                .contains("cannot run no-such-one")
        );
    }

    #[test]
    fn lines_come_one_by_one_and_the_status_is_kept() {
        let mut seen = Vec::new();
        let ok = lines(Command::new("sh").args(["-c", "echo a; echo b; exit 1"]), |l| {
            seen.push(l.to_owned())
        });
        assert!(!ok.unwrap());
        assert_eq!(seen, ["a", "b"]);
    }
}
