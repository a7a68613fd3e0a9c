//! The keys of `[control]` for mirrors: which ports have one, in which network namespace, and what
//! is punted there beside the usual.
//!
//! Called by: `config.rs`. They are no operations on a stack: the first process makes the
//! interfaces (`daemon/mirrors.rs`), and `mirror/frames.rs` passes frames. docs/router.md.

use std::collections::{BTreeMap, BTreeSet};

use toml::de::DeValue;

use super::file::Section;
use super::link::{Kind, Link};
use super::port::Port;

/// The longest name of an interface, in bytes: IFNAMSIZ without its zero.
const NAME_MAX: usize = 15;
/// The longest name of a file.
const SPACE_MAX: usize = 255;
/// The namespace, unless the file names another one.
const SPACE: &str = "control";
/// The most ports that are punted beside the usual.
const PORTS_MAX: usize = 64;
/// Punted packets a second that belong to no routing protocol.
const RATE: u32 = 1_000;
/// The most of them.
const RATE_MAX: usize = 1_000_000;

/// Mirrors of ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirrors {
    /// The network namespace that they are in.
    pub space: Space,
    /// The ports that have one, by name.
    pub ports: BTreeSet<String>,
    /// UDP ports whose broadcasts, and datagrams to groups of more than the link, are punted too.
    pub punt_ports: BTreeSet<u16>,
    /// Punted packets a second that belong to no routing protocol.
    pub punt_rate: u32,
}

/// A network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Space {
    /// That of the program.
    Host,
    /// One that `ip netns` names; it is made if it is not there.
    Named(String),
}

impl core::fmt::Display for Space {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Space::Host => f.write_str("the host's namespace"),
            Space::Named(name) => write!(f, "namespace {name}"),
        }
    }
}

/// The keys for mirrors.
pub(super) fn read(section: &Section<'_>, ports: &BTreeMap<String, Port>) -> Option<Mirrors> {
    let space = space(section);
    let punt_ports = punt_ports(section);
    let punt_rate = section.number("punt_rate", 1..=RATE_MAX).unwrap_or(RATE);
    let named = section.texts("mirrors");
    if !section.has("mirrors") {
        for key in ["namespace", "punt_ports", "punt_rate"] {
            if section.has(key) {
                let what = format!("{key} is for mirrors: add mirrors = \"all\", or remove {key}");
                section.note(key, what);
            }
        }
        return None;
    }
    let mut mirrored = BTreeSet::new();
    let is_tun = |port: &Port| matches!(&port.link, Link::Device(d) if d.kind == Kind::Tun);
    for one in named {
        if one.value == "all" {
            let with_frames = ports.iter().filter(|(_, port)| !is_tun(port));
            mirrored.extend(with_frames.map(|(name, _)| name.clone()));
            continue;
        }
        match ports.get(one.value) {
            Some(port) if is_tun(port) => {
                let what = "a TUN carries no Ethernet frames";
                section.log.note(one.at, format!("{what}: leave '{}' out", one.value));
            }
            Some(_) => drop(mirrored.insert(one.value.to_owned())),
            None => {
                let mut names: Vec<&str> = ports.keys().map(String::as_str).collect();
                names.push("all");
                section.log.unknown(one.at, "port", one.value, &names);
            }
        }
    }
    for name in &mirrored {
        if let Some(what) = unfit(name, &space, ports) {
            section.note("mirrors", what);
        }
    }
    Some(Mirrors { space, ports: mirrored, punt_ports, punt_rate })
}

/// Why no interface of the namespace can have the name of this port.
fn unfit(name: &str, space: &Space, ports: &BTreeMap<String, Port>) -> Option<String> {
    let instead = "give the port another name, or name the ports that have mirrors";
    if name.len() > NAME_MAX {
        return Some(format!(
            "'{name}' is too long for an interface, whose name has {NAME_MAX} bytes at most: \
             {instead}"
        ));
    }
    // The kernel has the settings of all interfaces in folders of these names.
    if ["lo", "all", "default", ".", ".."].contains(&name) {
        return Some(format!("no interface can have the name '{name}': {instead}"));
    }
    let is_device = |port: &Port| matches!(&port.link, Link::Device(d) if d.name == name);
    let is_taken = *space == Space::Host && ports.values().any(is_device);
    is_taken.then(|| {
        format!("'{name}' is a device of the host's namespace, and its mirror cannot be: {instead}")
    })
}

fn space(section: &Section<'_>) -> Space {
    let name = section.text("namespace").unwrap_or(SPACE);
    let is_char = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_file = !name.is_empty() && !name.starts_with('.') && name.chars().all(is_char);
    if !is_file || name.len() > SPACE_MAX {
        let what = "letters, digits, '-', '_' and '.', as \"control\", or \"host\"";
        section.note("namespace", format!("namespace cannot be '{name}': write {what}"));
    }
    if name == "host" { Space::Host } else { Space::Named(name.to_owned()) }
}

fn punt_ports(section: &Section<'_>) -> BTreeSet<u16> {
    let Some(value) = section.get("punt_ports") else { return BTreeSet::new() };
    let one = |value| section.log.number::<u16>(value, "a port of punt_ports", 1..=65_535);
    let ports: BTreeSet<u16> = match value.get_ref() {
        DeValue::Array(all) => all.iter().filter_map(one).collect(),
        _ => one(value).into_iter().collect(),
    };
    if ports.len() > PORTS_MAX {
        let what = format!("punt_ports has more than {PORTS_MAX} ports: remove some");
        section.note("punt_ports", what);
    }
    ports
}
