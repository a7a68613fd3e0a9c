//! The configuration of a router: what the file says, read and checked. An invalid file gives no
//! configuration but a list of [`Problem`]s, each with its line, its column and what to write.
//!
//! Called by: `wirespeed up`. `read` takes the file apart, `section` reads the keys of a table,
//! `check` compares entries with each other, `policy` reads and checks groups and rules, `place`
//! finds lines and columns. Limits: [`BYTES_MAX`], [`SHARDS_MAX`].
//! docs/decisions/0078-configuration-by-difference.md.

mod check;
mod place;
mod policy;
mod read;
mod section;
#[cfg(test)]
mod tests;

use core::net::{IpAddr, SocketAddr};
use core::num::NonZeroU8;
use std::collections::{BTreeMap, BTreeSet};

use base::{Cidr, Duration, Limit, LinkKind, MacAddr, Mtu, Switch};
use device::mitigation::Mitigation;
use stack::route::SourceCheck;

use crate::accounts::Accounts;

pub use place::{Problem, Problems};
pub use policy::{Control, For, GROUPS_MAX, Members, Rule, masked};

/// The longest configuration file, in bytes: some 50,000 routes.
pub const BYTES_MAX: usize = 4 << 20;

/// The most shards: no machine of today has more queues at a port that are worth it.
pub const SHARDS_MAX: usize = 64;

/// A network, ordered: address without host bits, prefix length.
pub type Prefix = (IpAddr, u8);

/// What a router is to be. Equal values are equal routers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Are packets for others forwarded?
    pub forwarding: bool,
    /// Are directed broadcasts (RFC 2644) forwarded?
    pub directed_broadcasts: bool,
    /// How long queued output may take to leave at the end.
    pub drain: Duration,
    /// Where `/metrics` and `/healthz` are served, on a socket of the kernel.
    pub metrics: Option<SocketAddr>,
    /// Does a process without privileges run the stack?
    pub separate: bool,
    /// The number of that process's user; `None`: one who owns nothing.
    pub user: Option<u32>,
    /// Stacks that share the packets, each on a thread of its own.
    pub shards: usize,
    /// Limits that are not at their defaults; they count from the start of the program.
    pub limits: BTreeMap<&'static str, usize>,
    /// Switches that are not at their defaults.
    pub switches: BTreeMap<&'static str, bool>,
    /// The ports by name.
    pub ports: BTreeMap<String, Port>,
    /// The routes, those to one network side by side.
    pub routes: BTreeMap<RouteKey, RouteTo>,
    /// Groups of users by name.
    pub groups: BTreeMap<String, Members>,
    /// The rules by priority.
    pub rules: BTreeMap<u32, Rule>,
    /// Where other users than root may open sockets in the router, and which.
    pub control: Option<Control>,
    /// What is known of neighbours, by port and address.
    pub neighbours: BTreeMap<(String, IpAddr), Neighbour>,
    /// The least time between two frames to each host of a network.
    pub gaps: BTreeMap<Prefix, Duration>,
}

impl Default for Config {
    /// A router without ports.
    fn default() -> Config {
        Config {
            forwarding: true,
            directed_broadcasts: false,
            drain: Duration::from_secs(5),
            metrics: None,
            separate: true,
            user: None,
            shards: 1,
            limits: BTreeMap::new(),
            switches: BTreeMap::new(),
            ports: BTreeMap::new(),
            routes: BTreeMap::new(),
            groups: BTreeMap::new(),
            rules: BTreeMap::new(),
            control: None,
            neighbours: BTreeMap::new(),
            gaps: BTreeMap::new(),
        }
    }
}

/// A port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// What its frames pass through.
    pub link: Link,
    /// Our link address; `None`: one of the device's or a random one.
    pub mac: Option<MacAddr>,
    /// The largest packet; `None`: what the device has.
    pub mtu: Option<Mtu>,
    /// Addresses, each with the length of its network's prefix.
    pub addresses: BTreeMap<IpAddr, u8>,
    /// Addresses that come by themselves.
    pub asks: BTreeSet<Asks>,
    /// Take routes to more than everywhere that servers and routers there offer: DHCP's option 121,
    /// RFC 4191. Unless set, only a host does.
    pub learn_routes: bool,
    /// How often frames wake us.
    pub mitigation: Option<Mitigation>,
    /// What the sources of packets that come by it have to be (RFC 3704).
    pub source_check: SourceCheck,
}

/// How a port gets addresses by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asks {
    /// IPv6 addresses as routers advertise (RFC 4862).
    Auto,
    /// An IPv4 address from a DHCP server (RFC 2131).
    Dhcp,
}

/// What a port's frames pass through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// A device of this machine.
    Device(DeviceName),
    /// A VLAN of another port.
    Vlan {
        /// The port whose frames have tags.
        parent: String,
        /// 1 to 4094.
        id: u16,
    },
}

/// A device by kind and name, as in `tap:ws0`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceName {
    /// What it is.
    pub kind: Kind,
    /// The interface's name, at most 15 bytes.
    pub name: String,
}

/// The kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A TAP: Ethernet frames from and to the kernel.
    Tap,
    /// A TUN: IP packets from and to the kernel.
    Tun,
    /// A packet socket on an interface, beside the kernel.
    Packet,
    /// An AF_XDP socket on an interface, instead of the kernel.
    Xdp,
}

/// What tells a route from others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RouteKey {
    /// The destination.
    pub to: Prefix,
    /// The port to send on.
    pub port: String,
    /// The gateway; `None`: the destination is on the link.
    pub via: Option<IpAddr>,
    /// The table that it is in.
    pub table: u32,
}

/// The rest of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteTo {
    /// The largest packet to send by it.
    pub mtu: Option<Mtu>,
    /// Its part of the packets, if others lead to the network too (ECMP); else `None`.
    pub weight: Option<NonZeroU8>,
    /// The users that it is for; `None`: everybody.
    pub users: Option<For>,
    /// Forwarded packets skip it.
    pub no_forward: bool,
    /// Of several to one network those with the lowest are used, the others while the links of all
    /// of these are down.
    pub metric: u32,
}

/// What is known of a neighbour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Neighbour {
    /// Its link address; `None`: it is asked for.
    pub mac: Option<MacAddr>,
    /// The largest packet to send to it; `None`: what the port takes.
    pub mtu: Option<Mtu>,
}

impl Kind {
    /// All kinds, with the text before the colon.
    pub const ALL: [(&'static str, Kind); 4] =
        [("tap", Kind::Tap), ("tun", Kind::Tun), ("packet", Kind::Packet), ("xdp", Kind::Xdp)];

    /// What its frames begin with.
    pub fn link(self) -> LinkKind {
        if self == Kind::Tun { LinkKind::Ip } else { LinkKind::Ethernet }
    }

    fn name(self) -> &'static str {
        Kind::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

impl core::fmt::Display for DeviceName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}:{}", self.kind.name(), self.name)
    }
}

impl Config {
    /// Read a configuration that names no accounts of this machine; `file` is its name in messages.
    ///
    /// # Errors
    /// Everything that is wrong, in the order of the file.
    pub fn parse(file: &str, text: &str) -> Result<Config, Problems> {
        Config::parse_with(file, text, &mut Accounts::default())
    }

    /// The same, with the numbers of users and groups of this machine that it names.
    ///
    /// # Errors
    /// As [`Config::parse`].
    pub fn parse_with(file: &str, text: &str, accounts: &mut Accounts) -> Result<Config, Problems> {
        read::config(file, text, accounts)
    }

    /// The limits of a stack with this configuration.
    pub fn budget(&self) -> base::Budget {
        let mut budget = base::Budget::default();
        for &limit in Limit::ALL {
            if let Some(&value) = self.limits.get(limit.name()) {
                budget.set(limit, value);
            }
        }
        budget
    }

    /// What a switch is to be.
    pub fn is_on(&self, switch: Switch) -> bool {
        self.switches.get(switch.name()).copied().unwrap_or_else(|| switch.default_on())
    }

    /// The device of a port is gone: the difference to a configuration that has the port makes it
    /// anew.
    pub fn lose_device(&mut self, port: &str) {
        if let Some(Port { link: Link::Device(device), .. }) = self.ports.get_mut(port) {
            device.name.clear();
        }
    }

    /// Does a port have VLANs?
    pub fn is_trunk(&self, port: &str) -> bool {
        let of = |p: &Port| matches!(&p.link, Link::Vlan { parent, .. } if parent == port);
        self.ports.values().any(of)
    }
}

/// The network of an address.
pub fn prefix(cidr: Cidr) -> Prefix {
    let network = cidr.network();
    (network.addr, network.prefix_len)
}

/// The same as an address with a length.
pub fn cidr((addr, prefix_len): Prefix) -> Cidr {
    Cidr { addr, prefix_len }
}
