//! The import law: which crate may import which. No layer imports a layer.
//!
//! Checked against the manifests as cargo reads them; dev-dependencies are free, because a test
//! may join what the code keeps apart. ARCHITECTURE.md shows the same table to people.

use super::source::krate;
use super::{Finding, Project};

/// What a crate may import of ours.
enum May {
    Only(&'static [&'static str]),
    Everything,
}

use May::{Everything, Only};

const LAYERS: &[&str] = &["base", "mbuf", "wire", "bpf", "tcp", "inet", "device"];
const SIMULATED: &[&str] =
    &["base", "mbuf", "wire", "bpf", "tcp", "inet", "device", "stack", "link"];

/// Folder under crates/ (or at the root), and its right-hand column.
const LAW: &[(&str, May)] = &[
    ("base", Only(&[])),
    ("mbuf", Only(&["base"])),
    ("wire", Only(&["base"])),
    ("bpf", Only(&["base"])),
    ("tcp", Only(&["base", "mbuf", "wire"])),
    ("inet", Only(&["base", "mbuf", "wire"])),
    ("device", Only(&["base", "mbuf"])),
    ("stack", Only(LAYERS)),
    ("link", Only(&["base", "mbuf", "device"])),
    ("sim", Only(SIMULATED)),
    ("net", Only(&["stack"])),
    ("control", Only(&["base"])),
    ("capi", Only(&["net"])),
    ("rpc", Only(&["base"])),
    ("nfs", Only(&["base", "rpc"])),
    ("telnet", Only(&["base"])),
    ("host", Only(&["base"])),
    ("router", Only(&["stack", "control"])),
    ("wirespeed", Everything),
    ("lab", Everything),
    ("cli", Everything),
    ("bench", Everything),
    ("fuzz", Everything),
    ("xtask", Only(&[])),
];

/// Crates that take nothing from outside either: core alone.
const CORE_ONLY: &[&str] = &["base"];

pub(super) fn check(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in project.metadata.members() {
        let manifest = project.metadata.manifest(package);
        let folder = krate(&manifest);
        let Some((_, may)) = LAW.iter().find(|(name, _)| *name == folder) else {
            let what = format!("crate {folder} has no line in the import law");
            let remedy = "add it to LAW in xtask/src/tidy/imports.rs and to ARCHITECTURE.md";
            findings.push(Finding::new(&manifest, 1, folder, what, remedy));
            continue;
        };
        for dependency in &package.dependencies {
            if dependency.kind.as_deref() == Some("dev") {
                continue;
            }
            let name = dependency.name.as_str();
            let line = line_of(project.tree.get(&manifest), name);
            let broken = match &dependency.path {
                Some(_) => ours(folder, may, name),
                None => outside(folder, name),
            };
            if let Some((what, remedy)) = broken {
                findings.push(Finding::new(&manifest, line, name, what, &remedy));
            }
        }
    }
    findings
}

/// Does importing our own package `name` break the law? What, and what to do.
fn ours(folder: &str, may: &May, name: &str) -> Option<(String, String)> {
    let target = name.strip_prefix("wirespeed-").unwrap_or(name);
    match may {
        Everything => None,
        Only(allowed) if allowed.contains(&target) => None,
        Only(allowed) => {
            let list = if allowed.is_empty() { "nothing".to_owned() } else { allowed.join(", ") };
            let remedy = format!("it may import {list}; join layers in crates/stack instead");
            Some((format!("{folder} imports {target}"), remedy))
        }
    }
}

fn outside(folder: &str, name: &str) -> Option<(String, String)> {
    CORE_ONLY.contains(&folder).then(|| {
        let remedy = "it builds on core alone; make it a dev-dependency or move the code up";
        (format!("{folder} depends on {name}"), remedy.to_owned())
    })
}

/// The line of the manifest that names the dependency, by package or by its short name.
fn line_of(manifest: Option<&str>, name: &str) -> usize {
    let short = name.strip_prefix("wirespeed-").unwrap_or(name);
    let lines = manifest.unwrap_or("").lines();
    lines
        .enumerate()
        .find(|(_, l)| l.starts_with(short) || l.contains(name))
        .map_or(1, |(i, _)| i + 1)
}
