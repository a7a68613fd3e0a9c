//! Context switches: of a process's threads, or of the whole machine.
//!
//! Called by: `top.rs`. Source: proc(5): `/proc/PID/task/TID/status`, `/proc/stat`.

use std::fs;

/// One process, or the whole machine: where context switches are counted.
pub(super) enum Of {
    Process(u32),
    Machine,
}

/// Counts, which only grow unless a thread ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// For a process: voluntary switches, each of which ends with a wake-up. For the machine:
    /// interrupts.
    pub(super) woken: u64,
    /// Context switches, voluntary ones included.
    pub(super) switches: u64,
}

impl Of {
    /// The counts so far; `None` if the system does not report them.
    pub(super) fn counts(&self) -> Option<Counts> {
        match self {
            Of::Process(pid) => of_process(*pid),
            Of::Machine => of_machine(&fs::read_to_string("/proc/stat").ok()?),
        }
    }

    /// The name of what [`Counts::woken`] counts.
    pub(super) fn woken_by(&self) -> &'static str {
        match self {
            Of::Process(_) => "wake-ups",
            Of::Machine => "interrupts of the machine",
        }
    }
}

impl Counts {
    /// The difference since `then`. A thread that ended takes its counts with it, so it may be too
    /// low.
    pub(super) fn since(self, then: Counts) -> Counts {
        Counts {
            woken: self.woken.saturating_sub(then.woken),
            switches: self.switches.saturating_sub(then.switches),
        }
    }
}

fn of_process(pid: u32) -> Option<Counts> {
    let mut all = Counts::default();
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        // The thread may have ended.
        let Ok(status) = fs::read_to_string(thread.path().join("status")) else { continue };
        let waited = number(&status, "voluntary_ctxt_switches:").unwrap_or(0);
        let forced = number(&status, "nonvoluntary_ctxt_switches:").unwrap_or(0);
        all.woken += waited;
        all.switches += waited + forced;
    }
    Some(all)
}

fn of_machine(stat: &str) -> Option<Counts> {
    Some(Counts { woken: number(stat, "intr")?, switches: number(stat, "ctxt")? })
}

/// The first number behind `name` at the beginning of a line.
fn number(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_behind_a_name_counts() {
        let stat = "cpu 1 2\nintr 70 1 2 3\nctxt 99\n";
        assert_eq!(of_machine(stat), Some(Counts { woken: 70, switches: 99 }));
        assert_eq!(of_machine("intr 7\n"), None);
    }

    #[test]
    fn this_process_has_been_switched_to() {
        let own = Of::Process(std::process::id()).counts().expect("it has a folder");
        assert!(own.switches > 0 && own.woken <= own.switches, "{own:?}");
        assert_eq!(Of::Process(u32::MAX).counts(), None);
    }

    #[test]
    fn counts_that_shrink_are_none() {
        let (few, many) = (Counts { woken: 1, switches: 2 }, Counts { woken: 5, switches: 9 });
        assert_eq!(many.since(few), Counts { woken: 4, switches: 7 });
        assert_eq!(few.since(many), Counts::default());
    }
}
