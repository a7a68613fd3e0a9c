//! Ends all that a command started when the command itself is killed: test programs, the peers that
//! they run, and their network namespaces.
//!
//! Called by: `main.rs`. The program runs three times: the process that the user started waits for
//! a watcher, the watcher for a worker, which does what was asked. Any process that the worker's
//! children leave behind becomes a child of the watcher (`PR_SET_CHILD_SUBREAPER`), so that process
//! numbers suffice to find all of it. When the first process is gone, by SIGKILL too, the watcher
//! kills its descendants. Nothing can do that for a watcher that is killed.

use std::collections::{HashMap, HashSet};
use std::process::{Child, Command, ExitCode};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, getpid, getppid, kill_process, set_child_subreaper};

/// Says which of the three a process is: the watcher has its parent's number, the worker "work".
const ROLE: &str = "WIRESPEED_XTASK";
/// How often the watcher looks for its parent.
const LOOK: Duration = Duration::from_millis(200);
/// How long processes have to end before they are killed.
const GRACE: Duration = Duration::from_secs(2);

/// Run `work` in the worker; all three end with its exit status.
pub(crate) fn guarded(work: impl FnOnce() -> ExitCode) -> ExitCode {
    let role = std::env::var(ROLE).unwrap_or_default();
    if role == "work" {
        return work();
    }
    let ended = match role.parse() {
        Ok(parent) => watch(parent),
        Err(_) => again(&getpid().as_raw_nonzero().to_string()).and_then(|c| status(&mut { c })),
    };
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// This program with the same arguments in another role.
fn again(role: &str) -> Result<Child> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).env(ROLE, role);
    command.spawn().context("cannot run this program again")
}

fn status(child: &mut Child) -> Result<u8> {
    let status = child.wait().context("cannot wait for a child")?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

fn watch(parent: i32) -> Result<u8> {
    set_child_subreaper(Some(getpid())).context("cannot adopt processes")?;
    let mut worker = again("work")?;
    let (done, ended) = channel();
    thread::spawn(move || done.send(status(&mut worker)));
    let code = loop {
        match ended.recv_timeout(LOOK) {
            Ok(code) => break code?,
            Err(RecvTimeoutError::Disconnected) => break 1,
            Err(RecvTimeoutError::Timeout) if Pid::as_raw(getppid()) != parent => break 1,
            Err(RecvTimeoutError::Timeout) => {}
        }
    };
    // After a worker that ended by itself this finds what its tests forgot.
    end_all();
    Ok(code)
}

/// End all descendants of this process, then remove the network namespaces that they had made.
fn end_all() {
    let begun = Instant::now();
    let mut ended = HashSet::new();
    loop {
        let all = descendants(getpid().as_raw_nonzero().get());
        if all.is_empty() || begun.elapsed() > GRACE * 3 {
            break;
        }
        let signal = if begun.elapsed() < GRACE { Signal::TERM } else { Signal::KILL };
        for pid in all {
            ended.insert(pid);
            // A process that has just ended is no error.
            let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, signal));
        }
        thread::sleep(Duration::from_millis(50));
    }
    for name in namespaces_of(&ended) {
        let _ = Command::new("ip").args(["netns", "del", &name]).status();
    }
}

/// Process numbers of the living descendants of `ancestor`.
fn descendants(ancestor: i32) -> Vec<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()) {
        if let Some(parent) = fs::read_to_string(format!("/proc/{pid}/stat")).ok().and_then(parent)
        {
            children.entry(parent).or_default().push(pid);
        }
    }
    let (mut found, mut next) = (Vec::new(), vec![ancestor]);
    while let Some(pid) = next.pop() {
        let of = children.remove(&pid).unwrap_or_default();
        next.extend(&of);
        found.extend(of);
    }
    found
}

/// The parent in a line of /proc/PID/stat; `None` for a zombie, which only waits to be waited for.
fn parent(stat: String) -> Option<i32> {
    // The name in parentheses may hold anything.
    let (_, behind) = stat.rsplit_once(')')?;
    let mut words = behind.split_whitespace();
    let state = words.next()?;
    (state != "Z").then(|| words.next()?.parse().ok())?
}

/// Namespaces of tests (`wstest-PID-NUMBER`, crate testbed) of these processes.
fn namespaces_of(ended: &HashSet<i32>) -> Vec<String> {
    let names = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let of = |name: &String| name.split('-').nth(1)?.parse::<i32>().ok();
    names.filter(|name| of(name).is_some_and(|pid| ended.contains(&pid))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grandchildren_are_found_and_strangers_are_not() {
        let mut shell = Command::new("sh");
        let mut child = shell.args(["-c", "sleep 60 & wait"]).spawn().expect("a shell");
        let me = getpid().as_raw_nonzero().get();
        let shell = i32::try_from(child.id()).expect("a number");
        let until = Instant::now() + Duration::from_secs(20);
        while descendants(shell).is_empty() {
            assert!(Instant::now() < until, "no sleep below {shell}");
            thread::sleep(Duration::from_millis(5));
        }
        let (mine, its) = (descendants(me), descendants(shell));
        assert!(mine.contains(&shell) && its.iter().all(|pid| mine.contains(pid)));
        assert!(!its.contains(&me) && !its.contains(&shell));
        for pid in its {
            let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::KILL));
        }
        let _ = child.kill();
        let _ = child.wait();
    }

    #[test]
    fn a_name_with_parentheses_and_a_zombie_are_read_right() {
        assert_eq!(parent("7 (a) b) c) S 41 7 7".into()), Some(41));
        assert_eq!(parent("7 (x) Z 41 7 7".into()), None);
        assert_eq!(parent("nonsense".into()), None);
    }
}
