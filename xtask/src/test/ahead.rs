//! Compiles what later steps need while the tests run: those wait for networks and for time, and
//! leave most of the processors idle.
//!
//! Called by: `test/mod.rs`. What is compiled here is asked for again by its step, which then finds
//! it made, and reports what does not compile.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::process;

/// Run `work` while the commands run one after the other, at the lowest priority. When `work` is
/// done the one that runs is waited for; those that did not begin are left to their steps.
pub(super) fn beside<T>(commands: Vec<Command>, work: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for command in commands {
                if is_over.load(Ordering::Relaxed) || process::interrupted() {
                    break;
                }
                // Its step says what is wrong with it.
                let _ = at_lowest_priority(&command).status();
            }
        });
        let done = work();
        is_over.store(true, Ordering::Relaxed);
        done
    })
}

fn at_lowest_priority(command: &Command) -> Command {
    let mut nice = Command::new("nice");
    nice.args(["-n", "19"]).arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        nice.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => nice.env(name, value),
            None => nice.env_remove(name),
        };
    }
    nice.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    nice
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_run_beside_the_work_with_their_folder_and_environment() {
        let folder = std::env::temp_dir().join(format!("wirespeed-ahead-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("room");
        let mut command = Command::new("sh");
        command.args(["-c", "nice > said; echo $WORD >> said"]).current_dir(&folder);
        command.env("WORD", "hello");
        let found = folder.join("said");
        let said = beside(vec![command], || {
            let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
            loop {
                let said = std::fs::read_to_string(&found).unwrap_or_default();
                if said.lines().count() == 2 || std::time::Instant::now() > until {
                    return said;
                }
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        });
        let _ = std::fs::remove_dir_all(&folder);
        assert_eq!(said, "19\nhello\n");
    }
}
