//! What the processes of a gateway cost, from /proc: CPU time, memory, wake-ups. Called by the
//! rows.
//!
//! CPU time is the run time of all their threads by the scheduler's own count, in nanoseconds. It
//! has what softirqs did in the threads' context, for all gateways alike.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// The processes below `root` and `root` itself, without those that run `client`.
pub(crate) fn tree(root: u32, client: &Path) -> Result<Vec<i32>> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // A process may end meanwhile.
        if let Some(parent) = parent(id) {
            children.entry(parent).or_default().push(id);
        }
    }
    let mut found = vec![root.cast_signed()];
    let mut at = 0;
    while let Some(id) = found.get(at) {
        found.extend(children.remove(id).unwrap_or_default());
        at += 1;
    }
    found.retain(|id| fs::read_link(format!("/proc/{id}/exe")).is_ok_and(|exe| exe != client));
    ensure!(!found.is_empty(), "the gateway has no process");
    Ok(found)
}

/// The parent of a process: the second number after its name, which is in parentheses.
fn parent(id: i32) -> Option<i32> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(") ")?;
    rest.split(' ').nth(1)?.parse().ok()
}

/// The files of a name of all threads of these processes.
fn of_threads(processes: &[i32], name: &str) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for id in processes {
        let threads = fs::read_dir(format!("/proc/{id}/task")).context("a gateway has ended")?;
        for thread in threads.flatten() {
            texts.push(fs::read_to_string(thread.path().join(name))?);
        }
    }
    Ok(texts)
}

/// CPU time so far, in seconds.
pub(crate) fn cpu_s(processes: &[i32]) -> Result<f64> {
    let texts = of_threads(processes, "schedstat")?;
    let ns = texts.iter().map(|text| {
        let first = text.split(' ').next().and_then(|word| word.parse::<u64>().ok());
        first.context("schedstat has no run time: the kernel needs CONFIG_SCHED_INFO")
    });
    Ok(ns.sum::<Result<u64>>()? as f64 * 1e-9)
}

/// How often the processes went to sleep so far, and so were woken.
pub(super) fn wakeups(processes: &[i32]) -> Result<u64> {
    let texts = of_threads(processes, "status")?;
    let counts = texts.iter().map(|text| {
        let value = field(text, "voluntary_ctxt_switches:");
        value.context("the kernel does not count context switches")
    });
    counts.sum()
}

/// The proportional set size of a process, in bytes.
pub(super) fn pss_bytes(process: i32) -> Result<f64> {
    let path = format!("/proc/{process}/smaps_rollup");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    Ok(field(&text, "Pss:").context("smaps_rollup has no Pss")? as f64 * 1024.0)
}

/// The number behind a name at the beginning of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_parent_and_costs_time() {
        let own = std::process::id();
        let parent = parent(own.cast_signed()).expect("it runs");
        assert!(
            tree(parent.cast_unsigned(), Path::new("/none"))
                .expect("it runs")
                .contains(&own.cast_signed())
        );
        assert!(cpu_s(&[own.cast_signed()]).expect("it runs") > 0.0);
        assert!(pss_bytes(own.cast_signed()).expect("it runs") > 1e5);
        assert!(wakeups(&[own.cast_signed()]).is_ok());
    }

    #[test]
    fn programs_of_the_client_do_not_count() {
        let exe = std::env::current_exe().expect("it runs");
        assert!(tree(std::process::id(), &exe).is_err());
    }
}
