//! `unsafe` is allowed only in buffers, devices, the SIMD sums, the filter compiler, the calls of
//! libpcap, and the C interface. Tests of other crates are checked too, and every manifest must
//! take the lint.

use super::source::has_word;
use super::{Finding, Project};

/// Where `unsafe` may be, by the beginning of the path, and what for.
pub(super) const ALLOWED: &[(&str, &str)] = &[
    ("crates/core/mbuf/", "reference-counted clusters behind an eight-byte handle"),
    ("crates/core/wire/src/checksum", "SIMD sums chosen at run time"),
    ("crates/core/bpf/src/jit", "running code that was just compiled"),
    ("crates/core/bpf/src/libpcap", "functions of a library loaded at run time"),
    ("crates/core/device/", "rings shared between threads, mapped device memory"),
    ("crates/top/capi/", "the C interface"),
    ("crates/proof/packetdrill/", "the C interface of packetdrill"),
    ("python/src/buffer.rs", "the memory of Python's objects as slices"),
];

pub(super) fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &project.sources {
        if ALLOWED.iter().any(|(prefix, _)| source.path.starts_with(prefix)) {
            continue;
        }
        for (index, line) in source.code.lines().enumerate() {
            let allows = ["allow(unsafe_code", "expect(unsafe_code"].iter();
            if has_word(line, "unsafe") || allows.into_iter().any(|a| line.contains(a)) {
                let what =
                    "unsafe outside mbuf, device, capi, checksum, jit and libpcap".to_owned();
                let remedy = "move it to one of them, or use a library that wraps it (rustix)";
                findings.push(Finding::new(&source.path, index + 1, "unsafe", what, remedy));
            }
        }
    }
    findings.extend(project.metadata.members().filter_map(|package| {
        let manifest = project.metadata.manifest(package);
        let text = project.tree.get(&manifest).unwrap_or("");
        (!text.contains("[lints]\nworkspace = true")).then(|| {
            let what = "the crate does not take the workspace's lints".to_owned();
            Finding::new(&manifest, 1, "lints", what, "write [lints] and workspace = true")
        })
    }));
    findings
}
