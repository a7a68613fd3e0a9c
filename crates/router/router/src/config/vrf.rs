//! `[[vrf]]`: ports with a routing table of their own, its keys, the errors in them, and how the
//! VRF of a port takes effect.
//!
//! Called by: `config.rs` before the ports are read, since each port holds its VRF; `port.rs` and
//! `route.rs`. docs/decisions/0149-vrfs-by-tables.md.

use core::fmt;
use std::collections::BTreeMap;

use base::Cidr;
use stack::{PortId, Vrf};

use super::file::{At, Log, Once, Section};
use super::port::Port;
use super::setting::{Setting, Stacks, first};

/// Names of VRFs are words of a command line.
const NAME_MAX: usize = 32;
/// Tables that Linux names: default, main, local.
const NAMED_TABLES: core::ops::RangeInclusive<u32> = 253..=255;

/// The VRF of a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InVrf {
    /// Its name.
    pub name: String,
    /// Its table.
    pub table: u32,
}

impl fmt::Display for InVrf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (table {})", self.name, self.table)
    }
}

/// The VRFs of a file.
#[derive(Default)]
pub(super) struct Vrfs {
    /// By the name of the port.
    of_port: BTreeMap<String, InVrf>,
    /// The names of ports, with their places in the file.
    ports: Vec<At<String>>,
    /// The tables by name.
    tables: BTreeMap<String, u32>,
}

impl Vrfs {
    /// The VRF of a port.
    pub(super) fn of(&self, port: &str) -> Option<InVrf> {
        self.of_port.get(port).cloned()
    }

    /// Check that the ports are there.
    pub(super) fn check_ports(&self, names: &[&str], log: &Log<'_>) {
        for At { value, at } in &self.ports {
            if !names.contains(&value.as_str()) {
                log.unknown(*at, "port", value, names);
            }
        }
    }

    /// The table of the VRF that the key `vrf` names; `None` without the key.
    pub(super) fn table(&self, section: &Section<'_>) -> Option<u32> {
        let name = section.text("vrf")?;
        let found = self.tables.get(name).copied();
        if found.is_none() {
            let names: Vec<&str> = self.tables.keys().map(String::as_str).collect();
            section.log.unknown(section.at("vrf"), "VRF", name, &names);
        }
        found
    }

    /// The filter knows flows by addresses and ports alone: with rules, the networks of two VRFs
    /// have to differ.
    pub(super) fn check_filter(&self, ports: &BTreeMap<String, Port>, log: &Log<'_>) {
        for At { value: name, at } in &self.ports {
            let Some(port) = ports.get(name) else { continue };
            let meets = |other: &&Port| other.vrf != port.vrf && meet(port, other);
            let Some((other, _)) = ports.iter().find(|(_, other)| meets(other)) else { continue };
            let what = format!(
                "'{name}' and '{other}' have networks that overlap, in two VRFs: [filter] and \
                 [nat] know a flow by its addresses, so give them other networks, or remove the \
                 rules"
            );
            log.note(*at, what);
        }
    }
}

/// Has a network of one port an address in common with one of the other, beyond their links?
fn meet(port: &Port, other: &Port) -> bool {
    let networks = |port: &Port| -> Vec<Cidr> {
        let all = port.addresses.iter().map(|(&addr, &prefix_len)| Cidr { addr, prefix_len });
        all.map(|cidr| cidr.network()).filter(|cidr| !is_local(cidr)).collect()
    };
    let others = networks(other);
    let meets = |a: &Cidr| others.iter().any(|b| a.contains(b.addr) || b.contains(a.addr));
    networks(port).iter().any(meets)
}

fn is_local(cidr: &Cidr) -> bool {
    matches!(cidr.addr, core::net::IpAddr::V6(addr) if addr.is_unicast_link_local())
}

/// `[[vrf]]`.
pub(super) fn read(file: &Section<'_>) -> Vrfs {
    let mut vrfs = Vrfs::default();
    let (mut names, mut tables, mut ports) = (Once::default(), Once::default(), Once::default());
    for section in file.many("vrf", "[[vrf]]") {
        let log = section.log;
        section.needed("name", "\"blue\"");
        section.needed("table", "10");
        section.needed("ports", "[\"lan\"]");
        let (name, table) =
            (section.text("name"), section.number("table", 1..=usize::from(u16::MAX)));
        let members = section.texts("ports");
        let (Some(name), Some(table)) = (name, table) else { continue };
        check(name, table, &section);
        let is_first = names.is_first(name, section.at("name"), &format!("the VRF '{name}'"), log);
        let what = format!("table {table} of a VRF");
        if !tables.is_first(table, section.at("table"), &what, log) || !is_first {
            continue;
        }
        if members.is_empty() && section.has("ports") {
            section.note("ports", "a VRF without ports has no packets: name its ports");
        }
        for At { value: port, at } in members {
            let what = format!("the port '{port}' in a VRF");
            if ports.is_first(port, at, &what, log) {
                let of = InVrf { name: name.to_owned(), table };
                vrfs.of_port.insert(port.to_owned(), of);
                vrfs.ports.push(At { value: port.to_owned(), at });
            }
        }
        vrfs.tables.insert(name.to_owned(), table);
    }
    vrfs
}

fn check(name: &str, table: u32, section: &Section<'_>) {
    let is_char = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_word = !name.is_empty() && name.len() <= NAME_MAX && name.chars().all(is_char);
    if !is_word || name.parse::<u64>().is_ok() || matches!(name, "main" | "none" | "all") {
        let what = "a VRF's name has 1 to 32 letters, digits, '-', '_' and '.', and is no number \
                    and none of main, none, all";
        section.note("name", format!("'{name}' cannot be the name: {what}"));
    }
    if NAMED_TABLES.contains(&table) {
        let what =
            format!("table {table} has another meaning (default, main, local): give another");
        section.note("table", what);
    }
}

/// The VRF of a port, which `[[vrf]]` says and not the port itself.
pub(super) const SETTING: Setting<Port, PortId> = Setting {
    read: |_, _| {},
    is_same: |port, other| port.vrf == other.vrf,
    copy: |port, from| port.vrf.clone_from(&from.vrf),
    words: |port| match &port.vrf {
        Some(vrf) => format!("VRF {vrf}"),
        None => "no VRF".to_owned(),
    },
    carry_out: |port, id, stacks| set(port, id, stacks),
};

/// The other shards follow the first one.
fn set(port: &Port, id: PortId, stacks: Stacks<'_, '_>) -> Result<(), String> {
    let vrf = port.vrf.as_ref().and_then(|vrf| Vrf::of_table(vrf.table)).unwrap_or_default();
    let stack = first(stacks);
    if !stack.set_vrf(id, vrf) {
        return Err("there are as many tables as a router can have: use fewer".to_owned());
    }
    if let Some(of) = &port.vrf {
        stack.name_vrf(vrf, &of.name);
    }
    Ok(())
}
