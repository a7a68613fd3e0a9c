//! `cargo xtask packetdrill DIR`: every packetdrill script below a folder, against this stack.
//!
//! Called by: `main.rs`. packetdrill loads the shared object of crate packetdrill and compares.
//! Each script runs in a network namespace of its own, under a time limit, as many at once as there
//! are processors. Scripts and packetdrill are GPL and not part of this project;
//! docs/packetdrill.md says how to get both.

mod run;
mod tools;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, bail};
use clap::Args;
use run::Outcome;

use crate::report::{Tally, Usage, step};
use crate::{cargo, process};

/// The options of the command line.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The folder with scripts, e.g. packetdrill/gtests/net/tcp
    dir: PathBuf,
    /// Whose defaults and option semantics: linux or freebsd
    #[arg(long, default_value = "linux", value_parser = ["linux", "freebsd"])]
    profile: String,
    /// Only the scripts with this in their paths
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Over IPv6
    #[arg(long)]
    v6: bool,
    /// The packetdrill program; looked for beside the scripts and on PATH
    #[arg(long, value_name = "FILE")]
    packetdrill: Option<PathBuf>,
    /// Seconds of real time that a script may take
    #[arg(long, default_value_t = 30)]
    timeout: u64,
    /// Print all that packetdrill said of each script that fails
    #[arg(long, short)]
    verbose: bool,
}

/// Shared by all scripts of a run.
pub(crate) struct Bench {
    packetdrill: PathBuf,
    object: PathBuf,
    tools: tools::Tools,
    options: Options,
}

/// Run them all; a script is a case.
pub(crate) fn run(root: &Path, options: Options, tally: &mut Tally) -> Result<()> {
    let dir = options.dir.canonicalize().map_err(|e| {
        let dir = options.dir.display();
        Usage(format!("cannot read {dir}: {e}; clone google/packetdrill, see docs/packetdrill.md"))
    })?;
    let mut found = below(&dir)?;
    if let Some(only) = &options.only {
        found.retain(|script| script.name.contains(only));
    }
    if found.is_empty() {
        bail!(Usage(format!("no script (*.pkt) to run below {}", dir.display())));
    }
    if let Some(missing) = missing() {
        for script in &found {
            tally.skip(&script.name, &missing);
        }
        return Ok(());
    }
    let packetdrill = program(&dir, options.packetdrill.as_deref())?;
    let object = object(root)?;
    let tools = tools::Tools::new(&dir)?;
    let bench = Bench { packetdrill, object, tools, options };
    step(&format!("packetdrill, {} scripts", found.len()), tally, |tally| {
        let outcomes = all(&bench, &found);
        report(&bench, &found, &outcomes, tally);
        Ok(())
    })
}

/// The needs of every script: the message if one is missing.
fn missing() -> Option<String> {
    if !process::is_root() {
        return Some("root, for network namespaces".to_owned());
    }
    ["unshare", "python3"].iter().find(|p| process::find(p).is_none()).map(|p| (*p).to_owned())
}

/// The packetdrill program.
fn program(dir: &Path, named: Option<&Path>) -> Result<PathBuf> {
    if let Some(named) = named {
        return named.canonicalize().with_context(|| format!("cannot run {}", named.display()));
    }
    let beside = dir.ancestors().map(|a| a.join("packetdrill/packetdrill"));
    let found = beside.into_iter().find(|file| file.is_file());
    found.or_else(|| process::find("packetdrill")).context(
        "there is no packetdrill: install bison and flex, then in gtests/net/packetdrill of \
         google/packetdrill run ./configure && make packetdrill, or name one with --packetdrill",
    )
}

/// Build the shared object and return its path.
fn object(root: &Path) -> Result<PathBuf> {
    let metadata = cargo::Metadata::read(root)?;
    process::pass_on(cargo::cargo(root).args(["build", "-p", "wirespeed-packetdrill"]))?;
    Ok(metadata.target_directory.join("debug/libpacketdrill.so"))
}

/// Run every script, on all processors.
fn all(bench: &Bench, scripts: &[Script]) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let outcomes: Vec<_> = scripts.iter().map(|_| Mutex::new(None)).collect();
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for worker in 0..workers {
            let (next, outcomes) = (&next, &outcomes);
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(script) = scripts.get(index) else { return };
                    if process::interrupted() {
                        return;
                    }
                    let outcome = run::script(bench, script, worker);
                    if let Ok(mut place) = outcomes[index].lock() {
                        *place = Some(outcome);
                    }
                }
            });
        }
    });
    let unless = || Outcome::NotRun("interrupted".to_owned());
    outcomes.into_iter().map(|o| o.into_inner().ok().flatten().unwrap_or_else(unless)).collect()
}

/// The table by folder, and a line for each script that did not pass.
fn report(bench: &Bench, scripts: &[Script], outcomes: &[Outcome], tally: &mut Tally) {
    let mut folders: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    for (script, outcome) in scripts.iter().zip(outcomes) {
        let (passed, all) = folders.entry(&script.folder).or_default();
        *all += 1;
        match outcome {
            Outcome::Passed => {
                *passed += 1;
                tally.pass();
            }
            Outcome::Failed { reason, output } => {
                let note = note(&script.name).map(|n| format!(" ({n})")).unwrap_or_default();
                tally.fail(&script.name, &format!("{reason}{note}"));
                if bench.options.verbose {
                    println!("---- {}\n{output}", script.name);
                }
            }
            Outcome::NotRun(why) => tally.skip(&script.name, why),
        }
    }
    println!("{:<32} passed   of", "folder");
    for (folder, (passed, all)) in folders {
        println!("{folder:<32} {passed:>6} {all:>4}");
    }
}

// Why a script of google's suite may fail here: it expects behaviour specific to Linux, not to TCP.
//
// The script still counts as failed.

/// Part of a script's name, and what it expects; the first match counts.
const NOTES: &[(&str, &str)] = &[
    ("cubic/cubic-bulk-166k", "Linux's HyStart and buffer sizes; ours is HyStart++, RFC 9406"),
    ("cubic/cubic-hystart", "when Linux's HyStart ends slow start; ours is HyStart++, RFC 9406"),
    ("cwnd-moderation-ecn-enter-cwr", "a mark reduces the window by PRR there, at once here"),
    ("epoll/epoll_out_edge", "what wmem sysctls admit, overhead of Linux's buffers included"),
    ("fr-4pkt-fack-last-byte", "a tail probe although SACKs came, which RFC 8985 7.3 excludes"),
    ("fr-4pkt-fack-last-mss", "Linux adds jiffies to the reordering timer"),
    ("gro/gro-mss-option", "the segment size that GRO tells Linux"),
    ("mtu_probe/", "routes with an MSS and a lock, by `ip route`"),
    ("nagle/https_client", "PSH inside what is cut in software"),
    ("notsent_lowat/", "what Linux's buffers admit, overhead included"),
    ("sack-shift", "counts of lost packets while they are sent again"),
    ("shutdown-rdwr-send-queue", "the borders of what was cut by the congestion window"),
    ("slow-start-after", "sizes of TSO packets"),
    ("slow-start-fq", "pacing by the queue discipline fq"),
    ("splice/", "a splice of nothing at the urgent mark, which is no error there"),
    ("tcp-info-sndbuf-limited", "what Linux's buffers admit, overhead included"),
    ("timestamping/", "SO_TIMESTAMPING, which the stack lacks"),
    ("user-timeout-probe", "a queue discipline that drops all, by `tc`"),
    ("zerocopy/maxfrags", "pieces of a page in one packet"),
    ("blocking-sendmsg-multi-iov", "delayed ACKs later in a connection; here every one is at once"),
    (
        "client/blocking-sendto",
        "counts delivered packets; here delivered bytes are told in segments",
    ),
    ("cookie-less-sendto", "Minshall's variant of Nagle's algorithm: small behind large"),
    ("sendto-over-mss", "Minshall's variant of Nagle's algorithm: small behind large"),
    ("fallback-exp-opt", "a client that asks again under the experimental kind"),
    ("client/nonblocking-sendto", "`ip tcp_metrics flush`, which forgets cookies"),
    (
        "simultaneous-fast-open",
        "a SYN-ACK in SYN-RECEIVED that acknowledges the data; here it goes again",
    ),
    ("syn-data-icmp", "an ICMP error that has the SYN sent again at once, smaller"),
    ("syn-data-only-syn-acked", "counts the SYN's data as retransmitted when it goes again"),
    ("syn-data-partial", "counts the SYN's data as retransmitted when it goes again"),
    ("synack-data", "a SYN-ACK whose timestamp echoes nothing of ours is reset there"),
    ("client-ack-dropped", "sizes of TSO packets"),
    (
        "server/icmp-baseline",
        "an ICMP error that ends a half-open connection; soft here (RFC 5927)",
    ),
    ("icmp-before-accept", "counters of Linux's, by `nstat`"),
];

/// The note about a script.
pub(crate) fn note(name: &str) -> Option<&'static str> {
    NOTES.iter().find(|(script, _)| name.contains(script)).map(|&(_, why)| why)
}

/// One script.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) path: PathBuf,
    /// Its path below the given folder, without `.pkt`.
    pub(crate) name: String,
    /// The folder part of `name`.
    pub(crate) folder: String,
    /// Our addresses that it asks for (`--local_ip`).
    pub(crate) locals: Vec<String>,
    /// The IP version that it asks for itself (`--ip_version`).
    pub(crate) version: Option<Version>,
}

/// The values of `--ip_version`. IPv4 through IPv6 sockets (`ipv4-mapped-ipv6`) is IPv4 on the
/// wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    V4,
    V6,
}

impl Version {
    fn named(name: &str) -> Version {
        if name.trim() == "ipv6" { Version::V6 } else { Version::V4 }
    }
}

/// All of them, sorted by name.
pub(crate) fn below(dir: &Path) -> Result<Vec<Script>> {
    let mut scripts = Vec::new();
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder)
            .with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let path = entry.path();
            // Links to folders may form a cycle, so only real folders are followed.
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "pkt") {
                scripts.push(script(dir, path)?);
            }
        }
    }
    scripts.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(scripts)
}

fn script(dir: &Path, path: PathBuf) -> Result<Script> {
    let text = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let text = String::from_utf8_lossy(&text);
    let short = path.strip_prefix(dir).unwrap_or(&path).with_extension("");
    let folder = short.parent().map(|p| p.display().to_string()).unwrap_or_default();
    let options: Vec<_> = text.lines().map(str::trim).filter(|l| l.starts_with("--")).collect();
    let locals = options.iter().filter_map(|o| o.strip_prefix("--local_ip="));
    let version = options.iter().find_map(|o| o.strip_prefix("--ip_version="));
    Ok(Script {
        name: short.display().to_string(),
        folder,
        locals: locals.map(|l| l.trim().to_owned()).collect(),
        version: version.map(Version::named),
        path,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_says_its_address_on_its_first_lines() {
        let dir = std::env::temp_dir().join(format!("wirespeed-pkt-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("tcp/close")).unwrap();
        let text = "--ip_version=ipv6\n--local_ip=fd::1\n\n 0 socket(...) = 3\n";
        std::fs::write(dir.join("tcp/close/a.pkt"), text).unwrap();
        std::fs::write(dir.join("tcp/close/a.txt"), text).unwrap();
        let found = below(&dir);
        std::fs::remove_dir_all(&dir).unwrap();
        let found = found.unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].name.as_str(), found[0].folder.as_str()),
            ("tcp/close/a", "tcp/close")
        );
        assert_eq!(found[0].locals, ["fd::1"]);
        assert_eq!(found[0].version, Some(Version::V6));
    }
}
