//! Reads the file into a draft, in which every value knows its place.
//!
//! Called by: `Config::parse`. `check.rs` makes a configuration of the draft.

use core::net::{IpAddr, SocketAddr};
use core::num::NonZeroU8;
use std::str::FromStr;

use base::{Cidr, Duration, Limit, MacAddr, Mtu, Switch};
use device::mitigation::Mitigation;
use stack::route::{MAIN_TABLE, SourceCheck};
use toml::de::{DeTable, DeValue};

use super::place::{At, Log, Problems};
use super::policy::{self, ControlDraft, GroupDraft, RuleDraft, UsersDraft};
use super::section::{self, Section};
use super::{Asks, BYTES_MAX, Config, DeviceName, Kind, SHARDS_MAX, check};
use crate::accounts::Accounts;

/// The longest wait for queued output at the end.
const DRAIN_MAX_S: usize = 300;

/// The keys of the file itself.
const KEYS: &[&str] = &[
    "forwarding",
    "directed_broadcasts",
    "drain_seconds",
    "metrics",
    "privileges",
    "limits",
    "switches",
    "port",
    "route",
    "neighbour",
    "gap",
    "groups",
    "rule",
    "control",
    "tap",
    "shards",
];

/// Keys whose parts of the program are still to come.
const LATER: &[(&str, &str)] =
    &[("tap", "captures to files; `wirespeed dump -w FILE` captures from a running router")];

/// The file with the places of its values.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) config: Config,
    pub(super) ports: Vec<PortDraft>,
    pub(super) routes: Vec<RouteDraft>,
    pub(super) neighbours: Vec<NeighbourDraft>,
    pub(super) gaps: Vec<(At<Cidr>, Duration)>,
    pub(super) groups: Vec<GroupDraft>,
    pub(super) rules: Vec<RuleDraft>,
    pub(super) control: Option<ControlDraft>,
    /// The user of the process without privileges.
    pub(super) user: Option<At<String>>,
}

pub(super) struct PortDraft {
    pub(super) name: At<String>,
    pub(super) at: usize,
    pub(super) device: Option<At<DeviceName>>,
    pub(super) parent: Option<At<String>>,
    pub(super) vlan: Option<At<usize>>,
    pub(super) mac: Option<At<Mac>>,
    pub(super) mtu: Option<At<Mtu>>,
    pub(super) addresses: Vec<At<Cidr>>,
    pub(super) asks: Vec<At<Asks>>,
    pub(super) learn_routes: Option<bool>,
    pub(super) mitigation: Option<Mitigation>,
    pub(super) source_check: SourceCheck,
}

pub(super) struct RouteDraft {
    pub(super) to: At<Cidr>,
    pub(super) port: Option<At<String>>,
    pub(super) via: Option<At<IpAddr>>,
    pub(super) mtu: Option<Mtu>,
    pub(super) weight: Option<NonZeroU8>,
    pub(super) table: u32,
    pub(super) users: UsersDraft,
    pub(super) no_forward: bool,
    pub(super) metric: u32,
}

pub(super) struct NeighbourDraft {
    pub(super) port: At<String>,
    pub(super) address: At<IpAddr>,
    pub(super) mac: Option<At<Mac>>,
    pub(super) mtu: Option<At<Mtu>>,
}

/// The configuration in `text`.
pub(super) fn config(file: &str, text: &str, accounts: &mut Accounts) -> Result<Config, Problems> {
    let mut log = Log::new(file, text);
    if text.len() > BYTES_MAX {
        log.note(0, format!("the file is longer than {BYTES_MAX} bytes: remove some of it"));
        return Err(log.problems());
    }
    let table = match DeTable::parse(text) {
        Ok(table) => table,
        Err(error) => {
            let at = error.span().map_or(0, |span| span.start);
            log.note(at, format!("{}: see https://toml.io for the syntax", error.message()));
            return Err(log.problems());
        }
    };
    let draft = draft(table.get_ref(), &mut log);
    let config = check::config(draft, accounts, &mut log);
    if log.is_empty() { Ok(config) } else { Err(log.problems()) }
}

/// The keys of a port.
const PORT: &[&str] = &[
    "name",
    "device",
    "parent",
    "vlan",
    "mac",
    "mtu",
    "addresses",
    "learn_routes",
    "mitigation",
    "source_check",
];

fn draft(table: &DeTable<'_>, log: &mut Log<'_>) -> Draft {
    let all = Section::new(table, 0, "the file", KEYS, log);
    for (key, what) in LATER {
        if let Some(value) = all.get(key) {
            let text = format!("{key} is not available yet ({what}): remove it");
            log.note(value.span().start, text);
        }
    }
    let mut draft = Draft::default();
    let config = &mut draft.config;
    config.forwarding = all.flag("forwarding", log).unwrap_or(config.forwarding);
    let broadcasts = all.flag("directed_broadcasts", log);
    config.directed_broadcasts = broadcasts.unwrap_or(config.directed_broadcasts);
    if let Some(seconds) = all.number("drain_seconds", (0, DRAIN_MAX_S), log) {
        config.drain = Duration::from_secs(seconds.value as u64);
    }
    if let Some(shards) = all.number("shards", (1, SHARDS_MAX), log) {
        config.shards = shards.value;
    }
    if let Some(metrics) = one(&all, "metrics", "[metrics]", &["listen"], log) {
        let example = "127.0.0.1:9464";
        metrics.needed("listen", &format!("\"{example}\""), log);
        let listen = metrics.parsed::<SocketAddr>("listen", example, log);
        config.metrics = listen.map(|listen| listen.value);
    }
    if let Some(privileges) = one(&all, "privileges", "[privileges]", &["separate", "user"], log) {
        config.separate = privileges.flag("separate", log).unwrap_or(config.separate);
        draft.user = privileges.text("user", log).map(owned);
    }
    limits(&all, config, log);
    switches(&all, config, log);
    for section in many(&all, "port", "[[port]]", PORT, log) {
        draft.ports.extend(port(&section, log));
    }
    const ROUTE: &[&str] = &[
        "to",
        "via",
        "port",
        "mtu",
        "weight",
        "metric",
        "table",
        "include",
        "exclude",
        "no_forward",
    ];
    for section in many(&all, "route", "[[route]]", ROUTE, log) {
        draft.routes.extend(route(&section, log));
    }
    const NEIGHBOUR: &[&str] = &["port", "address", "mac", "mtu"];
    for section in many(&all, "neighbour", "[[neighbour]]", NEIGHBOUR, log) {
        draft.neighbours.extend(neighbour(&section, log));
    }
    for section in many(&all, "gap", "[[gap]]", &["to", "microseconds"], log) {
        draft.gaps.extend(gap(&section, log));
    }
    draft.groups = policy::groups(&all, log);
    draft.rules = policy::rules(&all, log);
    draft.control = policy::control(&all, log);
    draft
}

/// The table at `key`, if it is there.
pub(super) fn one<'a>(
    all: &Section<'a>,
    key: &str,
    name: &'static str,
    known: &[&'static str],
    log: &mut Log<'_>,
) -> Option<Section<'a>> {
    let value = all.get(key)?;
    let at = value.span().start;
    match value.get_ref() {
        DeValue::Table(table) => Some(Section::new(table, at, name, known, log)),
        other => {
            log.note(at, format!("{key} is {}: write a section {name}", other.type_str()));
            None
        }
    }
}

/// The tables at `key`.
pub(super) fn many<'a>(
    all: &Section<'a>,
    key: &str,
    name: &'static str,
    known: &[&'static str],
    log: &mut Log<'_>,
) -> Vec<Section<'a>> {
    let Some(value) = all.get(key) else { return Vec::new() };
    let wrong = |is: &str| format!("{key} is {is}: write a section {name} for each");
    let DeValue::Array(values) = value.get_ref() else {
        log.note(value.span().start, wrong(value.get_ref().type_str()));
        return Vec::new();
    };
    let mut sections = Vec::new();
    for value in values.iter() {
        let at = value.span().start;
        match value.get_ref() {
            DeValue::Table(table) => sections.push(Section::new(table, at, name, known, log)),
            other => log.note(at, wrong(other.type_str())),
        }
    }
    sections
}

fn limits(all: &Section<'_>, config: &mut Config, log: &mut Log<'_>) {
    let names: Vec<&'static str> = Limit::ALL.iter().map(|limit| limit.name()).collect();
    let Some(section) = one(all, "limits", "[limits]", &names, log) else { return };
    for (key, value) in section.entries() {
        let Some(name) = names.iter().find(|name| **name == key.value) else { continue };
        if let Some(number) = section::number(value, name, (0, isize::MAX as usize), log) {
            config.limits.insert(name, number.value);
        }
    }
}

fn switches(all: &Section<'_>, config: &mut Config, log: &mut Log<'_>) {
    let names: Vec<&'static str> = Switch::ALL.iter().map(|switch| switch.name()).collect();
    let Some(section) = one(all, "switches", "[switches]", &names, log) else { return };
    for switch in Switch::ALL {
        if let Some(on) = section.flag(switch.name(), log)
            && on != switch.default_on()
        {
            config.switches.insert(switch.name(), on);
        }
    }
}

fn port(section: &Section<'_>, log: &mut Log<'_>) -> Option<PortDraft> {
    section.needed("name", "\"lan\"", log);
    let mut draft = PortDraft {
        name: owned(section.text("name", log)?),
        at: section.at,
        device: section.text("device", log).and_then(|text| device(text, log)),
        parent: section.text("parent", log).map(owned),
        vlan: section.number("vlan", (1, 4094), log),
        mac: section.parsed("mac", "02:00:00:00:00:01", log),
        mtu: mtu(section, log),
        addresses: Vec::new(),
        asks: Vec::new(),
        learn_routes: section.flag("learn_routes", log),
        mitigation: mitigation(section, log),
        source_check: source_check(section, log),
    };
    // The device is there, but not understood: that was noted.
    if section.get("device").is_none() && section.get("parent").is_none() {
        let what = "the port has no device: add device = \"tap:ws0\", or parent and vlan";
        log.note(section.at, what);
    }
    if let (Some(parent), None) = (section.get("parent"), section.get("vlan")) {
        log.note(parent.span().start, "the VLAN has no number: add vlan = 20");
    }
    for text in section.texts("addresses", log) {
        let at = text.at;
        match text.value {
            "auto" => draft.asks.push(At { value: Asks::Auto, at }),
            "dhcp" => draft.asks.push(At { value: Asks::Dhcp, at }),
            _ => draft.addresses.extend(section::parsed(text, "an address", "192.0.2.1/24", log)),
        }
    }
    Some(draft)
}

fn mitigation(section: &Section<'_>, log: &mut Log<'_>) -> Option<Mitigation> {
    let text = section.get("mitigation")?;
    let mitigation = match text.get_ref() {
        // A level may be written as a number.
        DeValue::Integer(level) => level.as_str().parse().ok(),
        other => other.as_str().and_then(|text| text.parse().ok()),
    };
    if mitigation.is_none() {
        let what = "mitigation has to be a level from 0 to 5, \"adaptive\" or \"poll\"";
        log.note(text.span().start, what);
    }
    mitigation
}

/// Strict unless the file says otherwise: who has several ways to a network knows that.
fn source_check(section: &Section<'_>, log: &mut Log<'_>) -> SourceCheck {
    let Some(text) = section.text("source_check", log) else { return SourceCheck::Strict };
    text.value.parse().unwrap_or_else(|()| {
        let names = SourceCheck::ALL.map(|(name, _)| name);
        log.note(text.at, section::unknown("source_check", text.value, &names));
        SourceCheck::Strict
    })
}

pub(super) fn owned(text: At<&str>) -> At<String> {
    At { value: text.value.to_owned(), at: text.at }
}

/// Bytes of an interface's name in Linux.
const NAME_MAX: usize = 15;

fn device(text: At<&str>, log: &mut Log<'_>) -> Option<At<DeviceName>> {
    let At { value, at } = text;
    let names: Vec<&str> = Kind::ALL.iter().map(|(name, _)| *name).collect();
    let Some((kind, name)) = value.split_once(':') else {
        log.note(at, format!("'{value}' is no device: write KIND:NAME, as \"tap:ws0\""));
        return None;
    };
    let Some((_, kind)) = Kind::ALL.iter().find(|(known, _)| *known == kind) else {
        log.note(at, section::unknown("kind of device", kind, &names));
        return None;
    };
    let is_name = |c: char| !c.is_whitespace() && !c.is_control() && c != '/';
    if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(is_name) {
        let what = "an interface's name has 1 to 15 bytes, no space and no slash";
        log.note(at, format!("'{name}' names no interface: {what}"));
        return None;
    }
    Some(At { value: DeviceName { kind: *kind, name: name.to_owned() }, at })
}

fn mtu(section: &Section<'_>, log: &mut Log<'_>) -> Option<At<Mtu>> {
    let bytes = (Mtu::MIN_V4.bytes(), Mtu::MAX.bytes());
    let At { value, at } = section.number("mtu", bytes, log)?;
    Some(At { value: Mtu::new(value)?, at })
}

fn route(section: &Section<'_>, log: &mut Log<'_>) -> Option<RouteDraft> {
    section.needed("to", "\"0.0.0.0/0\"", log);
    let weight = section.number("weight", (1, usize::from(u8::MAX)), log);
    let table = policy::table(section, log).map_or(MAIN_TABLE, |table| table.value);
    let metric = section.number("metric", (0, u32::MAX as usize), log);
    Some(RouteDraft {
        table,
        users: policy::users(section, log),
        no_forward: section.flag("no_forward", log).unwrap_or(false),
        to: section.parsed("to", "198.51.100.0/24", log)?,
        port: section.text("port", log).map(owned),
        via: section.parsed("via", "192.0.2.254", log),
        mtu: mtu(section, log).map(|mtu| mtu.value),
        weight: weight.and_then(|weight| NonZeroU8::new(weight.value as u8)),
        metric: metric.map_or(0, |metric| metric.value as u32),
    })
}

fn neighbour(section: &Section<'_>, log: &mut Log<'_>) -> Option<NeighbourDraft> {
    section.needed("port", "\"lan\"", log);
    section.needed("address", "\"192.0.2.9\"", log);
    let draft = NeighbourDraft {
        port: owned(section.text("port", log)?),
        address: section.parsed("address", "192.0.2.9", log)?,
        mac: section.parsed("mac", "02:00:00:00:00:01", log),
        mtu: mtu(section, log),
    };
    if section.get("mac").is_none() && section.get("mtu").is_none() {
        log.note(section.at, "nothing is said about the neighbour: add mac, mtu or both");
    }
    Some(draft)
}

fn gap(section: &Section<'_>, log: &mut Log<'_>) -> Option<(At<Cidr>, Duration)> {
    section.needed("to", "\"192.0.2.0/24\"", log);
    section.needed("microseconds", "60", log);
    let us = section.number("microseconds", (0, 1_000_000), log)?;
    let to = section.parsed("to", "192.0.2.0/24", log)?;
    Some((to, Duration::from_micros(us.value as u64)))
}

/// A link address as text.
pub(super) struct Mac(pub(super) MacAddr);

impl FromStr for Mac {
    type Err = ();

    fn from_str(text: &str) -> Result<Mac, ()> {
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().filter(|part| part.len() == 2).ok_or(())?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| ())?;
        }
        if parts.next().is_some() { Err(()) } else { Ok(Mac(MacAddr(bytes))) }
    }
}
