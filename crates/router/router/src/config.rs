//! The configuration of a router: reads and checks the file. An invalid file gives no configuration
//! but a list of [`Problem`]s, each with its line, its column and what to write.
//!
//! Called by: `wirespeed up`. Each section has a file with everything about its keys: how they are
//! read, their defaults, the errors in them, their words in the log, how they take effect. The keys
//! of the router as a whole are here. Limit: [`BYTES_MAX`].
//! docs/decisions/0078-configuration-by-difference.md, 0128-a-key-is-said-once.md.

mod file;
pub(crate) mod filter;
mod frr;
pub(crate) mod group;
pub(crate) mod hosts;
pub(crate) mod ipfix;
mod link;
pub(crate) mod mirror;
pub(crate) mod pair;
pub(crate) mod port;
pub(crate) mod process;
pub(crate) mod route;
pub(crate) mod rule;
pub(crate) mod setting;
#[cfg(test)]
mod tests;
mod vrf;

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use base::{Duration, Limit, Switch};
use stack::route::{MAIN_TABLE, TABLES_MAX};
use toml::de::DeTable;

use crate::machine::Machine;
use file::{Log, Section};

pub use control::Members;
pub use file::{Problem, Problems};
pub use filter::Filter;
pub use frr::Frr;
pub use group::GROUPS_MAX;
pub use hosts::{Neighbour, NeighbourKey};
pub use ipfix::Ipfix;
pub use link::{DeviceName, Kind, Link};
pub use mirror::{Mirrors, Space};
pub use pair::Pair;
pub use port::{Asks, Port};
pub use process::{Control, Process, SHARDS_MAX};
pub use route::{For, RouteKey, RouteTo};
pub use rule::{Rule, masked};
pub use setting::{Change, Prefix, Setting, cidr, count, prefix};
pub use vrf::InVrf;

/// The longest configuration file, in bytes: some 50,000 routes.
pub const BYTES_MAX: usize = 4 << 20;

/// The text of a file, or of a pipe. Of a text longer than [`BYTES_MAX`], which
/// [`Config::parse_with`] refuses, one byte more is read: a device may have no end.
///
/// # Errors
/// The file cannot be opened or read, or is not UTF-8.
pub fn text_of(file: &std::path::Path) -> std::io::Result<String> {
    use std::io::Read as _;
    let mut text = String::new();
    std::fs::File::open(file)?.take(BYTES_MAX as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

/// The configuration of a router. Equal values are equal routers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Settings of the router as a whole.
    pub router: Router,
    /// Settings of the program that runs them.
    pub process: Process,
    /// Switches that are not at their defaults.
    pub switches: BTreeMap<&'static str, bool>,
    /// The ports by name.
    pub ports: BTreeMap<String, Port>,
    /// The routes; those to one network are adjacent.
    pub routes: BTreeMap<RouteKey, RouteTo>,
    /// Groups of users by name.
    pub groups: BTreeMap<String, Members>,
    /// The rules by priority.
    pub rules: BTreeMap<u32, Rule>,
    /// Settings of neighbours, by port and address.
    pub neighbours: BTreeMap<NeighbourKey, Neighbour>,
    /// The least time between two frames to each host of a network.
    pub gaps: BTreeMap<Prefix, Duration>,
    /// Rules of the filter and of NAT; `None`: packets pass as they are.
    pub filter: Option<Filter>,
    /// Flow export.
    pub ipfix: Option<Ipfix>,
    /// The control plane, from which routes come.
    pub frr: Option<Frr>,
    /// Interfaces of the kernel in which other programs see our ports.
    pub mirrors: Option<Mirrors>,
    /// The partner that has copies of states.
    pub pair: Option<Pair>,
}

/// Settings of the router as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Router {
    /// Are packets for others forwarded?
    pub forwarding: bool,
    /// Are directed broadcasts (RFC 2644) forwarded?
    pub directed_broadcasts: bool,
}

impl Default for Router {
    fn default() -> Router {
        Router { forwarding: true, directed_broadcasts: false }
    }
}

/// A key of the router as a whole.
pub(crate) struct Whole {
    pub(crate) setting: Setting<Router, ()>,
    /// Does this value turn something off? Then it takes effect before everything else; otherwise
    /// after everything else, in reverse order.
    pub(crate) ends: fn(&Router) -> bool,
}

/// The keys of the router as a whole; the other shards follow the first one.
pub(crate) static WHOLE: [Whole; 2] = [
    Whole {
        setting: Setting {
            read: |router, file| {
                router.forwarding = file.flag("forwarding").unwrap_or(router.forwarding);
            },
            is_same: |router, other| router.forwarding == other.forwarding,
            copy: |router, from| router.forwarding = from.forwarding,
            words: |router| format!("forwarding {}", on(router.forwarding)),
            carry_out: |router, (), stacks| {
                setting::first(stacks).set_forwarding(router.forwarding);
                Ok(())
            },
        },
        ends: |router| !router.forwarding,
    },
    Whole {
        setting: Setting {
            read: |router, file| {
                let read = file.flag("directed_broadcasts");
                router.directed_broadcasts = read.unwrap_or(router.directed_broadcasts);
            },
            is_same: |router, other| router.directed_broadcasts == other.directed_broadcasts,
            copy: |router, from| router.directed_broadcasts = from.directed_broadcasts,
            words: |router| format!("directed broadcasts {}", on(router.directed_broadcasts)),
            carry_out: |router, (), stacks| {
                setting::first(stacks).set_directed_broadcasts(router.directed_broadcasts);
                Ok(())
            },
        },
        ends: |router| !router.directed_broadcasts,
    },
];

/// The value in the words of the log.
pub(crate) fn on(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

impl Config {
    /// A host without ports: the state of a router before its first configuration.
    pub fn host() -> Config {
        let router = Router { forwarding: false, ..Router::default() };
        Config { router, ..Config::default() }
    }

    /// Read a configuration that names no accounts and files of this machine; `file` is its name in
    /// messages.
    ///
    /// # Errors
    /// Everything that is wrong, in the order of the file.
    pub fn parse(file: &str, text: &str) -> Result<Config, Problems> {
        Config::parse_with(file, text, &mut Machine::default())
    }

    /// The same, with the users, groups and files of this machine that the file names.
    ///
    /// # Errors
    /// As [`Config::parse`].
    pub fn parse_with(file: &str, text: &str, machine: &mut Machine) -> Result<Config, Problems> {
        let (log, mut config) = (Log::new(file, text), Config::default());
        if text.len() > BYTES_MAX {
            log.note(0, format!("the file is longer than {BYTES_MAX} bytes: remove some of it"));
            return log.end(config);
        }
        match DeTable::parse(text) {
            Ok(table) => {
                let file = Section::new(table.get_ref(), 0, "the file", &log);
                config = Config::read(&file, machine);
            }
            Err(error) => {
                let at = error.span().map_or(0, |span| span.start);
                log.note(at, format!("{}: see https://toml.io for the syntax", error.message()));
            }
        }
        log.end(config)
    }

    /// Each section can use those that were read before it.
    fn read(file: &Section<'_>, machine: &mut Machine) -> Config {
        let mut router = Router::default();
        WHOLE.iter().for_each(|whole| (whole.setting.read)(&mut router, file));
        let mut process = Process::read(file, machine);
        let switches = switches(file);
        let vrfs = vrf::read(file);
        let ports = port::read(file, &process, router.forwarding, &vrfs);
        let groups = group::read(file, machine);
        let mirrors;
        (process.control, mirrors) = match file.one("control", "[control]") {
            Some(section) => (group::control(&section, &groups), mirror::read(&section, &ports)),
            None => (None, None),
        };
        let routes = route::read(file, &ports, &groups, &vrfs);
        let rules = rule::read(file, &ports, &groups);
        let neighbours = hosts::neighbours(file, &ports);
        let gaps = hosts::gaps(file, process.shards);
        let filter = filter::read(file, &ports, (router.forwarding, &process), machine);
        if filter.is_some() {
            vrfs.check_filter(&ports, file.log);
        }
        let has_rules = file.has("filter") || file.has("nat");
        let ipfix = ipfix::read(file, has_rules, process.shards);
        let frr = frr::read(file, mirrors.as_ref());
        let pair = pair::read(file, &ports, (has_rules, process.shards), machine);
        let config = Config {
            router,
            process,
            switches,
            ports,
            routes,
            groups,
            rules,
            neighbours,
            gaps,
            filter,
            ipfix,
            frr,
            mirrors,
            pair,
        };
        config.bound(file.log);
        config
    }

    /// Check that the tables have room for the file.
    fn bound(&self, log: &Log<'_>) {
        let with_mtu = self.neighbours.values().filter(|neighbour| neighbour.mtu.is_some());
        let counts = [
            (Limit::BurstGaps, self.gaps.len(), "gaps"),
            (Limit::Routes, self.routes.len(), "routes"),
            (Limit::Rules, self.rules.len(), "rules"),
            (Limit::NeighbourMtus, with_mtu.count(), "neighbours with an MTU"),
        ];
        for (limit, count, what) in counts {
            if count > self.process.limit(limit) {
                let name = limit.name();
                log.note(0, format!("there are {count} {what}: raise {name} under [limits]"));
            }
        }
        let of_vrfs = self.ports.values().filter_map(|port| Some(port.vrf.as_ref()?.table));
        let of_routes = self.routes.keys().map(|key| key.table);
        let tables: BTreeSet<u32> = of_routes.chain(of_vrfs).collect();
        if tables.len() >= TABLES_MAX {
            log.note(0, format!("routes are in more than {} tables: use fewer", TABLES_MAX - 1));
        }
    }

    /// Is a switch to be on?
    pub fn is_on(&self, switch: Switch) -> bool {
        self.switches.get(switch.name()).copied().unwrap_or_else(|| switch.default_on())
    }

    /// Turn a switch on or off.
    pub(crate) fn turn(&mut self, switch: Switch, on: bool) {
        match on == switch.default_on() {
            true => drop(self.switches.remove(switch.name())),
            false => drop(self.switches.insert(switch.name(), on)),
        }
    }

    /// The device of a port is gone: the difference to a configuration with the port then opens it
    /// again.
    pub fn lose_device(&mut self, port: &str) {
        if let Some(Port { link: Link::Device(device), .. }) = self.ports.get_mut(port) {
            device.name.clear();
        }
    }

    /// The port by which packets to `addr` leave, as far as the file says: that of the longest
    /// prefix among the networks of ports in no VRF and the routes of the main table.
    pub fn port_to(&self, addr: IpAddr) -> Option<&str> {
        let in_main = self.ports.iter().filter(|(_, port)| port.vrf.is_none());
        let connected = in_main.flat_map(|(name, port)| {
            port.addresses.iter().map(move |(&ip, &len)| ((ip, len), name))
        });
        let main = self.routes.keys().filter(|key| key.table == MAIN_TABLE);
        let all = connected.chain(main.filter_map(|key| Some((key.to, key.port.as_ref()?))));
        let found = all.filter(|(net, _)| cidr(*net).contains(addr));
        found.max_by_key(|((_, len), _)| *len).map(|(_, name)| name.as_str())
    }

    /// The ports that have VLANs.
    pub fn trunks(&self) -> BTreeSet<&str> {
        let links = self.ports.values().map(|port| &port.link);
        let parents = links.filter_map(|link| match link {
            Link::Vlan { parent, .. } => Some(parent.as_str()),
            Link::Device(_) => None,
        });
        parents.collect()
    }
}

/// `[switches]`.
fn switches(file: &Section<'_>) -> BTreeMap<&'static str, bool> {
    let Some(section) = file.one("switches", "[switches]") else { return BTreeMap::new() };
    let read = Switch::ALL.iter().map(|switch| (switch, section.flag(switch.name())));
    let other = read.filter(|(switch, on)| on.is_some_and(|on| on != switch.default_on()));
    other.filter_map(|(switch, on)| Some((switch.name(), on?))).collect()
}
