//! `[[port]]`: its keys, the errors in them, and how the keys take effect that can be changed on a
//! running port. The link, the MTU and the addresses are changed by steps of `applied/ports.rs`.
//!
//! Called by: `config.rs`. All ports are read before one is checked, because a VLAN's parent may
//! come behind it in the file.

use core::fmt;
use core::net::IpAddr;
use std::collections::BTreeMap;

use base::{Cidr, Limit, MacAddr, Mtu};
use device::mitigation::{Level, Mitigation};
use stack::PortId;
use stack::route::{MAIN_TABLE, SourceCheck};
use toml::de::DeValue;

use super::file::{At, Once, Section};
use super::link::{DeviceName, Kind, Link};
use super::process::Process;
use super::setting::{Prefix, Setting, prefix};
use super::vrf::{self, InVrf, Vrfs};

/// Names of ports are shown in tables and metrics.
const NAME_MAX: usize = 32;

/// A port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its link.
    pub link: Link,
    /// Our link address; `None`: one from the device, or a random one.
    pub mac: Option<MacAddr>,
    /// The largest packet; `None`: that of the device.
    pub mtu: Option<Mtu>,
    /// Do its device and the router leave checksums, and the cutting of super-segments, to each
    /// other? On unless the file says otherwise.
    pub offloads: bool,
    /// Addresses, each with the length of its network's prefix.
    pub addresses: BTreeMap<IpAddr, u8>,
    /// The ways in which it gets addresses by itself; the flag says whether to take more than
    /// default routes from servers and routers there (DHCP's option 121, RFC 4191).
    pub asks: BTreeMap<Asks, bool>,
    /// How often frames wake us.
    pub mitigation: Option<Mitigation>,
    /// The check of the sources of packets that come by it (RFC 3704). Strict unless the file says
    /// otherwise: users with several ways to a network know that they have them.
    pub source_check: SourceCheck,
    /// The VRF that it belongs to.
    pub vrf: Option<InVrf>,
}

/// The settings that can be changed on a running port.
pub(crate) static SETTINGS: [Setting<Port, PortId>; 3] = [
    // First, so that addresses get into the right table at once.
    vrf::SETTING,
    Setting {
        read: |port, section| port.mitigation = mitigation(section),
        is_same: |port, other| port.mitigation == other.mitigation,
        copy: |port, from| port.mitigation = from.mitigation,
        words: |port| match port.mitigation {
            Some(to) => format!("mitigation {to}"),
            None => "mitigation 0".to_owned(),
        },
        carry_out: |port, id, stacks| {
            let to = port.mitigation.unwrap_or(Mitigation::Level(Level::default()));
            let mut all = stacks.iter_mut().map(|stack| stack.set_mitigation(id, to));
            all.try_for_each(|set| set.map_err(|why| why.to_string()))
        },
    },
    Setting {
        read: |port, section| {
            port.source_check =
                section.word("source_check", &SourceCheck::ALL).unwrap_or(port.source_check);
        },
        is_same: |port, other| port.source_check == other.source_check,
        copy: |port, from| port.source_check = from.source_check,
        words: |port| format!("source_check {}", port.source_check),
        // Each shard checks the packets of its own queue.
        carry_out: |port, id, stacks| {
            stacks.iter_mut().for_each(|stack| _ = stack.set_source_check(id, port.source_check));
            Ok(())
        },
    },
];

impl Port {
    /// A port over this link, with defaults for everything else.
    pub fn new(link: Link) -> Port {
        Port {
            link,
            mac: None,
            mtu: None,
            offloads: true,
            addresses: BTreeMap::new(),
            asks: BTreeMap::new(),
            mitigation: None,
            source_check: SourceCheck::Strict,
            vrf: None,
        }
    }

    /// The port as a step adds it: other steps set the rest.
    pub(crate) fn bare(&self) -> Port {
        let Port { mac, mtu, offloads, source_check, .. } = *self;
        Port { mac, mtu, offloads, source_check, ..Port::new(self.link.clone()) }
    }

    /// Is it a VLAN of another one?
    pub(crate) fn is_vlan(&self) -> bool {
        matches!(self.link, Link::Vlan { .. })
    }

    /// Is it over a device of this kind?
    fn is_over(&self, kind: Kind) -> bool {
        matches!(&self.link, Link::Device(device) if device.kind == kind)
    }

    /// The table in which its packets are looked up.
    pub(super) fn table(&self) -> u32 {
        self.vrf.as_ref().map_or(MAIN_TABLE, |vrf| vrf.table)
    }

    /// Does one of its networks contain `addr`?
    pub(super) fn has_network_of(&self, addr: IpAddr) -> bool {
        let of = |(&addr_of, &prefix_len): (&IpAddr, &u8)| Cidr { addr: addr_of, prefix_len };
        self.addresses.iter().map(of).any(|own| own.contains(addr))
    }
}

/// How a port gets addresses by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asks {
    /// IPv6 addresses as routers advertise (RFC 4862).
    Auto,
    /// An IPv4 address from a DHCP server (RFC 2131).
    Dhcp,
}

impl fmt::Display for Asks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Asks::Auto => "autoconfiguration",
            Asks::Dhcp => "DHCP",
        })
    }
}

/// A port, with the places in the file that messages about it name.
struct Draft<'a> {
    section: Section<'a>,
    name: &'a str,
    /// It has no device if its link is invalid, which was noted.
    port: Port,
    has_link: bool,
    addresses: Vec<At<Cidr>>,
}

/// `[[port]]`, by name; the flag says whether the router forwards.
pub(super) fn read(
    file: &Section<'_>,
    process: &Process,
    forwards: bool,
    vrfs: &Vrfs,
) -> BTreeMap<String, Port> {
    let sections = file.many("port", "[[port]]").into_iter();
    let drafts: Vec<Draft<'_>> =
        sections.filter_map(|section| draft(section, process, forwards, vrfs)).collect();
    let known: Vec<&str> = drafts.iter().map(|draft| draft.name).collect();
    vrfs.check_ports(&known, file.log);
    let (mut names, mut devices, mut vlans) = (Once::default(), Once::default(), Once::default());
    let mut ports = BTreeMap::new();
    for draft in &drafts {
        let Draft { section, name, port, has_link, .. } = draft;
        let log = section.log;
        let is_first =
            names.is_first(*name, section.at("name"), &format!("the port '{name}'"), log);
        if !is_first || !has_link {
            continue;
        }
        match &port.link {
            Link::Device(device) => {
                let what = format!("the device {device}");
                // An interface has one TAP, and its name is the same for all kinds.
                devices.is_first(&device.name, section.at("device"), &what, log);
            }
            Link::Vlan { parent, id } => {
                let what = format!("VLAN {id} of '{parent}'");
                vlans.is_first((parent, id), section.at("vlan"), &what, log);
                self::parent(draft, parent, &drafts);
            }
        }
        ports.insert((*name).to_owned(), port.clone());
    }
    addresses(&drafts);
    if drafts.len() > usize::from(u16::MAX) {
        file.log.note(0, "there are more than 65535 ports: remove some");
    }
    ports
}

fn draft<'a>(
    section: Section<'a>,
    process: &Process,
    forwards: bool,
    vrfs: &Vrfs,
) -> Option<Draft<'a>> {
    section.needed("name", "\"lan\"");
    let name = section.text("name");
    let link = Link::read(&section);
    let has_link = link.is_some();
    let nothing = || Link::Device(DeviceName { kind: Kind::Tap, name: String::new() });
    let mut port = Port::new(link.unwrap_or_else(nothing));
    port.vrf = name.and_then(|name| vrfs.of(name));
    port.mac = section.mac();
    port.mtu = section.mtu();
    port.offloads = section.flag("offloads").unwrap_or(port.offloads);
    let mut addresses = Vec::new();
    let learns = section.flag("learn_routes").unwrap_or(!forwards);
    for text in section.texts("addresses") {
        let asks = match text.value {
            "auto" => Asks::Auto,
            "dhcp" => Asks::Dhcp,
            _ => {
                let cidr = section.log.parsed(text, "an address", "192.0.2.1/24");
                addresses.extend(cidr.map(|cidr| At { value: cidr, at: text.at }));
                continue;
            }
        };
        if port.is_over(Kind::Tun) {
            let what = "a TUN has no link addresses to ask by: give an address, as \
                        \"192.0.2.1/24\"";
            section.log.note(text.at, what);
        }
        port.asks.insert(asks, learns);
    }
    for At { value: cidr, at } in &addresses {
        host(*cidr, *at, &section);
        port.addresses.insert(cidr.addr, cidr.prefix_len);
    }
    SETTINGS.iter().for_each(|setting| (setting.read)(&mut port, &section));
    check(&port, &section, process);
    Some(Draft { name: name?, section, port, has_link, addresses })
}

fn mitigation(section: &Section<'_>) -> Option<Mitigation> {
    let mitigation = match section.get("mitigation")?.get_ref() {
        // A level may be written as a number.
        DeValue::Integer(level) => level.as_str().parse().ok(),
        other => other.as_str().and_then(|text| text.parse().ok()),
    };
    if mitigation.is_none() {
        let what = "mitigation has to be a level from 0 to 5, \"adaptive\" or \"poll\"";
        section.note("mitigation", what);
    }
    mitigation
}

/// Check a port by itself.
fn check(port: &Port, section: &Section<'_>, process: &Process) {
    if let Some(name) = section.text("name") {
        let is_char = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(is_char) {
            let what = "a port's name has 1 to 32 letters, digits, '-', '_' and '.'";
            section.note("name", format!("'{name}' cannot be the name: {what}"));
        }
    }
    if port.is_over(Kind::Xdp) && process.separate {
        let what = "an xdp device cannot be passed to a process without privileges yet: write \
                    separate = false under [privileges], or use packet:";
        section.note("device", what);
    }
    if port.mac.is_some_and(MacAddr::is_group) {
        let what = "a port cannot have a group address: clear the lowest bit of its first byte";
        section.note("mac", what);
    }
    if port.is_vlan() && section.has("offloads") {
        section.note("offloads", "a VLAN has those of its parent: set offloads there");
    }
    if port.is_over(Kind::Tun) && port.mac.is_some() {
        section.note("mac", "a TUN has no link address: remove mac");
    }
    let most = process.limit(Limit::Addresses);
    if port.addresses.len() > most {
        let what = format!("the port has more than {most} addresses: raise limit addresses");
        section.log.note(section.at, what);
    }
    let has_v6 = port.addresses.keys().any(IpAddr::is_ipv6) || port.asks.contains_key(&Asks::Auto);
    if has_v6 && port.mtu.is_some_and(|mtu| mtu < Mtu::MIN_V6) {
        section.note("mtu", "a port with IPv6 addresses carries 1280 bytes at least: raise mtu");
    }
}

/// A VLAN's parent has to be a port with a device of Ethernet frames.
fn parent(draft: &Draft<'_>, name: &str, all: &[Draft<'_>]) {
    let section = &draft.section;
    let Some(of) = all.iter().find(|other| other.name == name) else {
        let names: Vec<&str> = all.iter().map(|other| other.name).collect();
        return section.log.unknown(section.at("parent"), "port", name, &names);
    };
    if of.section.has("parent") {
        let what = format!("'{name}' is a VLAN itself: give the port that has the device");
        return section.note("parent", what);
    }
    if of.port.is_over(Kind::Tun) {
        let what = format!("'{name}' carries no Ethernet frames: use tap: instead of tun:");
        section.note("parent", what);
    }
    if let (Some(mtu), Some(below)) = (draft.port.mtu, of.port.mtu)
        && mtu > below
    {
        let what = format!("'{name}' carries {} bytes: give {0} or less", below.bytes());
        section.note("mtu", what);
    }
}

/// Can a host have the address?
fn host(cidr: Cidr, at: usize, section: &Section<'_>) {
    let addr = cidr.addr;
    let is_this_network = matches!(addr, IpAddr::V4(v4) if v4.octets()[0] == 0);
    let is_group = addr.is_multicast()
        || addr.is_unspecified()
        || addr.is_loopback()
        || is_this_network
        || addr == IpAddr::V4(core::net::Ipv4Addr::BROADCAST);
    let is_edge = match addr {
        IpAddr::V4(v4) if cidr.prefix_len < 31 => {
            let mask = u32::MAX.checked_shr(u32::from(cidr.prefix_len)).unwrap_or(0);
            matches!(u32::from(v4) & mask, 0) || u32::from(v4) & mask == mask
        }
        _ => false,
    };
    if is_group || is_edge {
        let what = "no host can have it (it is a network's, a broadcast, multicast, loopback or \
                    of 0.0.0.0/8)";
        section.log.note(at, format!("{cidr}: {what}; give an address of a host"));
    }
}

/// Check that no address is ours twice, and that no network is on two ports, of one VRF.
fn addresses(drafts: &[Draft<'_>]) {
    let mut seen = Once::default();
    let mut networks: BTreeMap<(Option<&InVrf>, Prefix), (usize, &str)> = BTreeMap::new();
    for Draft { section, name, addresses, port, .. } in drafts {
        let vrf = port.vrf.as_ref();
        let log = section.log;
        for At { value: cidr, at } in addresses {
            // A link-local address belongs to its link alone.
            let is_local = matches!(cidr.addr, IpAddr::V6(a) if a.is_unicast_link_local());
            let what = format!("the address {}", cidr.addr);
            if is_local || !seen.is_first((vrf, cidr.addr), *at, &what, log) {
                continue;
            }
            match networks.get(&(vrf, prefix(*cidr))) {
                Some((before, other)) if other != name => {
                    let what = format!(
                        "{} is the network of port '{other}' (line {}) too: hosts of it would be \
                         looked for on one of them alone; give another network",
                        cidr.network(),
                        log.line(*before)
                    );
                    log.note(*at, what);
                }
                _ => drop(networks.insert((vrf, prefix(*cidr)), (*at, *name))),
            }
        }
    }
}

/// The port that a key names, which has to be there.
pub(super) fn named(
    section: &Section<'_>,
    key: &'static str,
    ports: &BTreeMap<String, Port>,
) -> Option<String> {
    let name = section.text(key)?;
    if ports.contains_key(name) {
        return Some(name.to_owned());
    }
    let names: Vec<&str> = ports.keys().map(String::as_str).collect();
    section.log.unknown(section.at(key), "port", name, &names);
    None
}
