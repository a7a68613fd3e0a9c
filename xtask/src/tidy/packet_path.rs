//! Files that every packet passes through: no dynamic dispatch, no allocation, no formatting, no
//! lock.

use super::source::has_word;
use super::{Finding, Project};

/// The files of the path, in the order in which a packet meets them.
const FILES: &[&str] = &[
    "crates/core/stack/src/rx.rs",
    "crates/core/stack/src/rx/unusual.rs",
    "crates/core/stack/src/tx.rs",
    "crates/core/wire/src/ether.rs",
    "crates/core/wire/src/ipv4.rs",
    "crates/core/wire/src/ipv6.rs",
    "crates/core/wire/src/tcp.rs",
    "crates/core/wire/src/udp.rs",
    "crates/core/inet/src/ether.rs",
    "crates/core/inet/src/ip_input.rs",
    "crates/core/inet/src/ip_output.rs",
    "crates/core/tcp/src/predict.rs",
    "crates/core/tcp/src/input.rs",
    "crates/core/tcp/src/output.rs",
    "crates/core/tcp/src/output/rare.rs",
    "crates/core/tcp/src/header.rs",
    "crates/core/tcp/src/ack.rs",
    "crates/core/tcp/src/receive/text.rs",
    "crates/core/stack/src/follow.rs",
    "crates/core/stack/src/forward/burst.rs",
    "crates/core/inet/src/forward/plain.rs",
    "crates/core/stack/src/stamp.rs",
];

/// Banned words, and what to use instead.
const WORDS: &[(&str, &str)] = &[
    ("dyn", "dispatch once a burst in the joining file, by enum or generics"),
    ("Box", "keep it in the connection or the table, made when that is made"),
    ("Vec", "use a fixed array, a chain of mbufs, or a buffer owned by the stack"),
    ("vec!", "use a fixed array, or a buffer owned by the stack"),
    ("String", "return a small enum; the code that prints it has the words"),
    ("format!", "return a small enum; the code that prints it has the words"),
    ("HashMap", "look up in the pcb table, through its one-entry cache"),
    ("Mutex", "one stack per core: nothing is shared, nothing is locked"),
    ("RwLock", "published tables are read without a lock"),
];

pub(super) fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for path in FILES {
        let Some(source) = project.sources.iter().find(|s| s.path == *path) else {
            findings.extend(gone(project, path));
            continue;
        };
        for (number, line) in source.library_lines() {
            for (word, remedy) in WORDS.iter().filter(|(word, _)| has_word(line, word)) {
                let what = format!("`{word}` on the packet path");
                findings.push(Finding::new(path, number, word, what, remedy));
            }
        }
    }
    findings
}

/// A listed file that does not exist although its crate does: the list then checks nothing there.
fn gone(project: &Project, path: &str) -> Option<Finding> {
    let (folder, _) = path.rsplit_once('/')?;
    project.tree.has_folder(folder).then(|| {
        let what = format!("{path} is on the packet-path list and does not exist");
        let remedy = "correct FILES in xtask/src/tidy/packet_path.rs";
        Finding::new("xtask/src/tidy/packet_path.rs", 1, path, what, remedy).warned()
    })
}
