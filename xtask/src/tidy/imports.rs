//! The import law: which crate may import which. No layer imports a layer.
//!
//! The crates lie on floors, and import downwards only. The manifests are checked as cargo reads
//! them. Dev-dependencies are free, because a test may join layers that the code keeps apart.
//! ARCHITECTURE.md has the same table for people, and is checked to be equal.

use super::source::krate;
use super::{Finding, Project};

/// Which of our crates a crate may import.
enum May {
    Only(&'static [&'static str]),
    Everything,
}

use May::{Everything, Only};

const LAYERS: &[&str] = &["base", "mbuf", "wire", "bpf", "filter", "tcp", "inet", "device"];
const SIMULATED: &[&str] = &[
    "base", "mbuf", "wire", "bpf", "filter", "tcp", "inet", "device", "stack", "link", "host",
    "gateway",
];

const NETSTACK: &[&str] = &["base", "mbuf", "wire", "tcp", "device", "stack", "net"];

const OBSERVE: &[&str] =
    &["base", "bpf", "filter", "tcp", "device", "stack", "net", "control", "explain", "live"];

const MACHINE: &[&str] = &[
    "base", "device", "stack", "link", "virtio", "host", "control", "live", "observe", "gateway",
    "outside", "policy",
];

const ROUTER: &[&str] = &[
    "base",
    "filter",
    "device",
    "stack",
    "net",
    "control",
    "observe",
    "live",
    "ipfix",
    "jail",
    "fpm",
    "rib",
    "statesync",
];

/// The floors under crates/, the lowest first, and their crates with those that each may import: of
/// its own floor or below. Packages at the root come last.
const FLOORS: &[(&str, &[(&str, May)])] = &[
    (
        "core",
        &[
            ("base", Only(&[])),
            ("mbuf", Only(&["base"])),
            ("wire", Only(&["base"])),
            ("bpf", Only(&["base"])),
            ("filter", Only(&["base", "mbuf", "wire"])),
            ("tcp", Only(&["base", "mbuf", "wire"])),
            ("inet", Only(&["base", "mbuf", "wire"])),
            ("device", Only(&["base", "mbuf"])),
            ("stack", Only(LAYERS)),
            ("link", Only(&["base", "mbuf", "wire", "device"])),
            ("virtio", Only(&["base", "mbuf", "wire", "device", "link"])),
        ],
    ),
    (
        "sockets",
        &[
            ("host", Only(&["base", "wire"])),
            ("net", Only(&["base", "mbuf", "tcp", "device", "stack", "host"])),
            ("netstack-smoltcp", Only(NETSTACK)),
            ("phy", Only(&["base", "mbuf", "wire", "device", "link"])),
        ],
    ),
    (
        "services",
        &[
            ("rpc", Only(&["base", "net"])),
            ("nfs", Only(&["base", "rpc"])),
            ("telnet", Only(&["base"])),
        ],
    ),
    (
        "capture",
        &[
            ("capture", Only(&[])),
            ("dissect", Only(&["base", "wire"])),
            ("trace", Only(&["base", "wire"])),
        ],
    ),
    (
        "observe",
        &[
            ("control", Only(&["base"])),
            ("page", Only(&[])),
            ("profile", Only(&[])),
            ("explain", Only(&["base", "tcp", "stack", "control"])),
            ("live", Only(&["base", "net", "stack", "page", "profile", "control", "explain"])),
            ("observe", Only(OBSERVE)),
            ("ipfix", Only(&["base", "wire", "filter"])),
        ],
    ),
    (
        "gateway",
        &[
            ("gateway", Only(&["base", "mbuf", "tcp", "stack", "host"])),
            ("outside", Only(&["base", "tcp", "device", "stack", "host", "gateway"])),
            ("policy", Only(&["base", "wire", "filter", "stack", "host", "gateway"])),
            ("jail", Only(&["base", "device"])),
            ("machine", Only(MACHINE)),
        ],
    ),
    (
        "router",
        &[
            ("fpm", Only(&["base"])),
            ("rib", Only(&["base"])),
            ("statesync", Only(&["base", "filter"])),
            ("router", Only(ROUTER)),
        ],
    ),
    (
        "proof",
        &[
            ("sim", Only(SIMULATED)),
            ("packetdrill", Only(&["base", "mbuf", "tcp", "device", "stack"])),
            ("virtual-time", Only(&["base", "device", "stack", "link", "net"])),
            ("testbed", Only(&[])),
        ],
    ),
    (
        "top",
        &[
            ("wirespeed", Everything),
            ("capi", Only(&["base", "mbuf", "tcp", "device", "stack", "host", "net", "machine"])),
            ("cli", Everything),
            ("lab", Everything),
        ],
    ),
    (
        "",
        &[
            ("bench", Everything),
            ("examples", Everything),
            ("fuzz", Everything),
            ("python", Only(&["link", "wirespeed"])),
            ("xtask", Only(&[])),
        ],
    ),
];

/// A crate's floor, and what it may import.
fn law(krate: &str) -> Option<(&'static str, &'static May)> {
    let of = |(floor, crates): &(&'static str, &'static [(&str, May)])| {
        Some((*floor, crates.iter().find(|(name, _)| *name == krate).map(|(_, may)| may)?))
    };
    FLOORS.iter().find_map(of)
}

/// The folder of a crate.
pub(crate) fn folder(krate: &str) -> Option<String> {
    let (floor, _) = law(krate)?;
    Some(if floor.is_empty() { krate.to_owned() } else { format!("crates/{floor}/{krate}") })
}

/// Crates without outside dependencies either: core alone.
const CORE_ONLY: &[&str] = &["base"];

pub(super) fn check(project: &Project) -> Vec<Finding> {
    let mut findings = documented(project.tree.get(MAP).unwrap_or(""));
    for package in project.metadata.members() {
        let manifest = project.metadata.manifest(package);
        let name = krate(&manifest);
        let (Some((_, may)), Some(place)) = (law(name), folder(name)) else {
            let what = format!("crate {name} has no line in the import law");
            let remedy = "add it to FLOORS in xtask/src/tidy/imports.rs and to ARCHITECTURE.md";
            findings.push(Finding::new(&manifest, 1, name, what, remedy));
            continue;
        };
        if manifest != format!("{place}/Cargo.toml") {
            let what = format!("crate {name} is not on its floor");
            let remedy = format!("move it to {place}, or change FLOORS in tidy/imports.rs");
            findings.push(Finding::new(&manifest, 1, name, what, &remedy));
        }
        for dependency in &package.dependencies {
            if dependency.kind.as_deref() == Some("dev") {
                continue;
            }
            let needed = dependency.name.as_str();
            let line = line_of(project.tree.get(&manifest), needed);
            let broken = match &dependency.path {
                Some(_) => ours(name, may, needed),
                None => outside(name, needed),
            };
            if let Some((what, remedy)) = broken {
                findings.push(Finding::new(&manifest, line, needed, what, &remedy));
            }
        }
    }
    findings
}

const MAP: &str = "ARCHITECTURE.md";

/// Checks that the table in ARCHITECTURE.md has a row for each crate of the law, with the same
/// imports.
pub(super) fn documented(text: &str) -> Vec<Finding> {
    let rows: Vec<(usize, Vec<&str>)> = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.split('|').map(str::trim).collect()))
        .filter(|(_, cells): &(usize, Vec<&str>)| cells.len() == 6)
        .collect();
    let mut findings = Vec::new();
    for (name, may) in FLOORS.iter().flat_map(|(_, crates)| *crates) {
        let expected = match may {
            Everything => "everything".to_owned(),
            Only([]) => "nothing".to_owned(),
            Only(allowed) => allowed.join(" "),
        };
        let named = |cell: &str| cell.split(", ").any(|n| n.trim_end_matches('/') == *name);
        let remedy = format!("write '{expected}' beside {name} in the table");
        let row = rows.iter().find(|(_, cells)| named(cells[1]));
        match row.map(|(line, cells)| (*line, cells[3])) {
            None => {
                let what = format!("crate {name} of the import law is not in the table");
                findings.push(Finding::new(MAP, 1, name, what, &remedy));
            }
            Some((line, cell)) if cell != expected => {
                let what = format!("{name} may import '{cell}' here, '{expected}' by the law");
                findings.push(Finding::new(MAP, line, name, what, &remedy));
            }
            Some(_) => {}
        }
    }
    findings
}

/// Does importing our own package `name` break the law? Returns what is wrong and the remedy.
fn ours(folder: &str, may: &May, name: &str) -> Option<(String, String)> {
    let target = name.strip_prefix("wirespeed-").unwrap_or(name);
    match may {
        Everything => None,
        Only(allowed) if allowed.contains(&target) => None,
        Only(allowed) => {
            let list = if allowed.is_empty() { "nothing".to_owned() } else { allowed.join(", ") };
            let remedy = format!("it may import {list}; join layers in crates/core/stack instead");
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of a crate's floor, and its number there.
    fn height(krate: &str) -> (usize, usize) {
        let at = |crates: &[(&str, May)]| crates.iter().position(|(name, _)| *name == krate);
        let mut floors = FLOORS.iter().enumerate();
        floors.find_map(|(floor, (_, crates))| Some((floor, at(crates)?))).expect(krate)
    }

    #[test]
    fn crates_import_downwards() {
        for (name, may) in FLOORS.iter().flat_map(|(_, crates)| *crates) {
            let Only(allowed) = may else { continue };
            for below in *allowed {
                assert!(height(below) < height(name), "{name} is not above {below}");
            }
        }
        let everything = FLOORS
            .iter()
            .filter(|(_, crates)| crates.iter().any(|(_, may)| matches!(may, Everything)));
        let floors: Vec<&str> = everything.map(|(floor, _)| *floor).collect();
        assert_eq!(floors, ["top", ""], "only what people take may import everything");
    }
}
