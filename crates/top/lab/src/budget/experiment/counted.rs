//! Instructions by stage, counted one by one by a simulator (valgrind's callgrind), for machines
//! whose processor does not count them for us. The program starts itself again under the simulator.
//!
//! Called by: `experiment.rs`. Source: the Callgrind Format Specification of the valgrind manual.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use profile::{Code, Stage, of_symbol};

use super::work::{Role, Work};
use crate::Error;

/// Instructions a packet, by stage.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Counted {
    pub(super) role: Role,
    pub(super) size: usize,
    pub(super) stages: [f64; Stage::ALL.len()],
}

/// Turns that are counted.
const TURNS: usize = 64;

/// The environment variable in which the child finds the sizes.
const SIZES_FROM: &str = "WIRESPEED_BUDGET_SIZES";

/// How long the simulator may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// The child's work, for each role and size. The simulator is told the names of the functions at
/// which it resets and writes its counts.
pub(super) fn work() -> Result<(), Error> {
    let sizes = std::env::var(SIZES_FROM).unwrap_or_default();
    let sizes: Vec<usize> = sizes.split(',').filter_map(|size| size.parse().ok()).collect();
    for role in Role::ALL {
        for &size in &sizes {
            let mut work = Work::new(role, size)?;
            work.warm_up()?;
            budget_zero();
            let mut packets = 0.0;
            for _ in 0..TURNS {
                packets += work.counted_turn(role)?;
            }
            budget_dump();
            writeln!(std::io::stdout(), "{packets}").map_err(|e| Error::Failed(e.to_string()))?;
        }
    }
    Ok(())
}

/// The simulator sets its counts to zero when this function is called.
#[inline(never)]
fn budget_zero() {
    std::hint::black_box(0);
}

/// The simulator writes its counts to a file when this function is called.
#[inline(never)]
fn budget_dump() {
    std::hint::black_box(1);
}

/// Run the work under the simulator and read its counts.
pub(super) fn count(sizes: &[usize], stop: &dyn Fn() -> bool) -> Result<Vec<Counted>, Error> {
    let failed = |what: String| Error::Failed(what);
    let exe = std::env::current_exe()
        .map_err(|e| failed(format!("cannot find this program's own path: {e}")))?;
    let folder =
        Scratch::new().map_err(|e| failed(format!("cannot make a folder for the counts: {e}")))?;
    let out = folder.0.join("counts");
    let list: Vec<String> = sizes.iter().map(usize::to_string).collect();
    let mut child = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet", "--dump-instr=yes", "--compress-strings=no"])
        .args(["--compress-pos=no", "--toggle-collect=*budget_counted_part*"])
        .args(["--zero-before=*budget_zero*", "--dump-before=*budget_dump*"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(&exe)
        .args(["lab", "budget", "--counted"])
        .env(SIZES_FROM, list.join(","))
        .stdin(Stdio::null())
        .stdout(fs::File::create(folder.0.join("packets")).map_err(|e| failed(e.to_string()))?)
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| failed(format!("no valgrind ({e}): `apt-get install valgrind`")))?;
    let begun = std::time::Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if !stop() && begun.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(20));
            }
            _ => {
                // The child may have ended meanwhile.
                let _ = child.kill();
                let _ = child.wait();
                return Err(failed("valgrind was stopped".to_owned()));
            }
        }
    };
    if !status.success() {
        return Err(failed(format!("valgrind failed ({status})")));
    }
    read(&folder.0, &exe, sizes)
}

/// Read the files that the child left.
fn read(folder: &Path, exe: &Path, sizes: &[usize]) -> Result<Vec<Counted>, Error> {
    let failed = |what: &str| Error::Failed(format!("{what}; please report this line"));
    let packets = fs::read_to_string(folder.join("packets")).unwrap_or_default();
    let mut packets = packets.lines().map(|line| line.parse().unwrap_or(0.0));
    let code = Code::of(None).map_err(|error| failed(&error.to_string()))?;
    let exe = exe.to_string_lossy();
    let mut all = Vec::new();
    for role in Role::ALL {
        for &size in sizes {
            let part = folder.join(format!("counts.{}", all.len() + 1));
            let text = fs::read_to_string(part).map_err(|_| failed("valgrind left no counts"))?;
            let packets: f64 = packets.next().unwrap_or(0.0);
            let stages = by_stage(&text, |file, address, function| {
                if file == exe {
                    return code.stage_of_linked(file, address);
                }
                of_symbol(function).unwrap_or(Stage::Other)
            });
            let stages = stages.ok_or_else(|| failed("valgrind's counts cannot be read"))?;
            if packets < 1.0 {
                return Err(failed("no packets were counted"));
            }
            all.push(Counted { role, size, stages: stages.map(|n| n as f64 / packets) });
        }
    }
    Ok(all)
}

/// Sum up a file with the positions `instr line` and the one event `Ir`; `None` for another.
fn by_stage(
    text: &str,
    stage: impl Fn(&str, u64, &str) -> Stage,
) -> Option<[u64; Stage::ALL.len()]> {
    let (mut file, mut function, mut is_call) = ("", "", false);
    let mut stages = [0; Stage::ALL.len()];
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("ob=") {
            file = name;
        } else if let Some(name) = line.strip_prefix("fn=") {
            function = name;
        } else if line.starts_with("calls=") {
            // The next line has the cost of the called function. It is not added: the function's
            // own lines have it.
            is_call = true;
        } else if let Some(positions) = line.strip_prefix("positions:") {
            (positions.trim() == "instr line").then_some(())?;
        } else if let Some(events) = line.strip_prefix("events:") {
            (events.trim() == "Ir").then_some(())?;
        } else if let Some(rest) = line.strip_prefix("0x") {
            let mut words = rest.split(' ');
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let count: u64 = words.nth(1).map_or(Some(0), |count| count.parse().ok())?;
            if !std::mem::take(&mut is_call) {
                stages[stage(file, address, function) as usize] += count;
            }
        }
    }
    Some(stages)
}

/// A folder that is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> std::io::Result<Scratch> {
        let name = format!("wirespeed-budget-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path)?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If this fails, the folder stays: nothing more can be done.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
version: 1
positions: instr line
events: Ir

ob=/opt/wirespeed
fl=/a/crates/core/tcp/src/input.rs
fn=input
0x1000 10 5
0x1004 11 7
cob=/lib/libc.so.6
cfi=???
cfn=memcpy
calls=3 0x55 0
0x1008 12 300
0x100c 13 1

ob=/lib/libc.so.6
fl=???
fn=memcpy
0x55 0 300

totals: 313
";

    #[test]
    fn what_a_called_function_cost_is_counted_once() {
        let stage = |file: &str, address, function: &str| match (file, address) {
            ("/opt/wirespeed", 0x1004) => Stage::Checksum,
            ("/opt/wirespeed", _) => Stage::Tcp,
            _ => of_symbol(function).unwrap_or(Stage::Other),
        };
        let found = by_stage(TEXT, stage).expect("readable");
        assert_eq!(found[Stage::Tcp as usize], 6);
        assert_eq!(found[Stage::Checksum as usize], 7);
        assert_eq!(found[Stage::Copy as usize], 300);
        assert_eq!(found.iter().sum::<u64>(), 313);
    }

    #[test]
    fn other_files_are_no_counts() {
        let tcp = |_: &str, _, _: &str| Stage::Tcp;
        assert_eq!(by_stage("positions: line\n", tcp), None);
        assert_eq!(by_stage("positions: instr line\nevents: Ir Dr\n", tcp), None);
        assert_eq!(by_stage("0xzz 1 1\n", tcp), None);
        assert_eq!(by_stage("0x10 1 x\n", tcp), None);
    }
}
