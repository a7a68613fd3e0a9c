//! Items that library code must not use, and their replacements. Most bans do not apply to tests.
//!
//! A row of the table is a banned text, its scope, and what to use instead.

use super::source::{Source, has_word};
use super::{Finding, Project};

/// Where a ban holds.
#[derive(Clone, Copy)]
enum Scope {
    /// All code, tests included.
    All,
    /// Code outside tests and programs.
    Libraries,
    /// Crates that get time and randomness as arguments.
    Deterministic,
    /// Crates that offer functions to poll.
    Polled,
    /// Crates a packet passes through.
    PacketPath,
}

use Scope::{All, Deterministic, Libraries, PacketPath, Polled};

/// Crates that a packet passes through.
const PACKET_CRATES: &[&str] =
    &["base", "mbuf", "wire", "bpf", "filter", "tcp", "inet", "device", "stack"];
/// Crates that may read a clock, sleep or draw random numbers by themselves.
const CLOCKED: &[&str] = &[
    "device",
    "link",
    "virtio",
    "net",
    "netstack-smoltcp",
    "phy",
    "control",
    "observe",
    "jail",
    "machine",
    "router",
    "capi",
    "live",
    "profile",
    "lab",
    "cli",
    "bench",
    "examples",
    "xtask",
    "fuzz",
    "testbed",
    "packetdrill",
    "python",
    "virtual-time",
];
/// Crates that may be asynchronous.
const ASYNC: &[&str] = &[
    "net",
    "netstack-smoltcp",
    "capi",
    "rpc",
    "nfs",
    "telnet",
    "host",
    "router",
    "live",
    "wirespeed",
    "lab",
    "cli",
    "bench",
    "examples",
    "python",
    "virtual-time",
];
/// Crates that are programs, or the `main` of some: they may print and exit.
const PROGRAMS: &[&str] = &["cli", "bench", "examples", "xtask", "lab", "fuzz", "testbed"];

const BANS: &[(&str, Scope, &str)] = &[
    ("#[allow(dead_code)]", All, "remove the dead code; what waits for its caller comes with it"),
    ("Instant::now", Deterministic, "take `now: base::Instant` as an argument"),
    ("SystemTime", Deterministic, "take `base::WallTime` as an argument"),
    ("thread::sleep", Deterministic, "return the deadline; the driver waits"),
    ("getrandom", Deterministic, "take the secret or the seed as an argument"),
    ("rand::random", Deterministic, "take the secret or the seed as an argument"),
    ("rand::rng", Deterministic, "take the secret or the seed as an argument"),
    ("async fn", Polled, "offer a poll function; async begins in crates/sockets/net"),
    (".await", Polled, "offer a poll function; async begins in crates/sockets/net"),
    ("println!", Libraries, "return the value; programs print, `tracing` logs"),
    ("print!", Libraries, "return the value; programs print, `tracing` logs"),
    ("eprintln!", Libraries, "return an error or count it; `tracing` logs"),
    ("eprint!", Libraries, "return an error or count it; `tracing` logs"),
    ("process::exit", Libraries, "return an error; only a program ends the process"),
    ("env::var", Libraries, "take it as configuration"),
    (".unwrap()", Libraries, "use `?`, a named drop, or `expect` with the reason it holds"),
    (".expect(  )", Libraries, "say in `expect` why it cannot fail"),
    ("dyn Error", Libraries, "return a small enum; in core and sockets without `thiserror`"),
    ("HashMap::new", PacketPath, "use the table keyed by `base::KeyedHash`, or `foldhash`"),
    ("HashMap::with_capacity", PacketPath, "use the table keyed by `base::KeyedHash`"),
    ("HashSet::new", PacketPath, "use the table keyed by `base::KeyedHash`, or `foldhash`"),
    ("HashSet::with_capacity", PacketPath, "use the table keyed by `base::KeyedHash`"),
    ("RandomState", PacketPath, "use `base::KeyedHash` with a key that was passed in"),
];

pub(super) fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &project.sources {
        for (text, scope, remedy) in BANS {
            let code = match scope {
                All => &source.code,
                _ => &source.library,
            };
            if !holds(*scope, source) {
                continue;
            }
            for (index, _) in code.lines().enumerate().filter(|(_, l)| has_word(l, text)) {
                let what = format!("`{text}` in `{}`", source.shown(index));
                findings.push(Finding::new(&source.path, index + 1, text, what, remedy));
            }
        }
        findings.extend(default_hashers(source));
    }
    findings
}

fn holds(scope: Scope, source: &Source) -> bool {
    let krate = source.krate();
    match scope {
        All => true,
        _ if is_program(&source.path) => false,
        Libraries => !PROGRAMS.contains(&krate),
        Deterministic => !CLOCKED.contains(&krate),
        Polled => !ASYNC.contains(&krate),
        PacketPath => PACKET_CRATES.contains(&krate),
    }
}

/// Is the file a program of its own inside a crate of any kind?
fn is_program(path: &str) -> bool {
    path.ends_with("/main.rs") || path.ends_with("/build.rs") || path.contains("/examples/")
}

/// `HashMap<K, V>` and `HashSet<K>` without a hasher of their own, in packet-path crates.
fn default_hashers(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !holds(PacketPath, source) {
        return findings;
    }
    for (number, line) in source.library_lines() {
        for (name, commas) in [("HashMap", 1), ("HashSet", 0)] {
            let Some(at) = line.find(&format!("{name}<")) else { continue };
            if top_level_commas(&line[at + name.len() + 1..]) == Some(commas) {
                let what = format!("`{name}` with the default hasher");
                let remedy =
                    "use the table keyed by `base::KeyedHash`, or name `foldhash`'s hasher";
                findings.push(Finding::new(&source.path, number, name, what, remedy));
            }
        }
    }
    findings
}

/// Commas before the `>` that closes the generic arguments which `text` begins with.
fn top_level_commas(text: &str) -> Option<usize> {
    let (mut depth, mut commas) = (0, 0);
    for c in text.chars() {
        match c {
            '<' | '(' | '[' => depth += 1,
            '>' if depth == 0 => return Some(commas),
            '>' | ')' | ']' => depth -= 1,
            ',' if depth == 0 => commas += 1,
            _ => {}
        }
    }
    None
}
