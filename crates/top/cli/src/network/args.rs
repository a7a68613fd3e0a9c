//! The options of a device and of our addresses on it, and whether they fit together.
//!
//! Called by: clap; `network.rs`, when it opens the device.

use core::net::IpAddr;
use std::str::FromStr;

use anyhow::{Result, anyhow, bail};
use wirespeed::device::mitigation::Mitigation;
use wirespeed::{Cidr, Mtu, PortId, check_address};

use super::device::{Dev, Kind, Tags};
use crate::Usage;

/// The group of options in `--help`.
pub(crate) const HEADING: &str = "Over a device";

/// The options that choose the device, and our address on it.
#[derive(clap::Args, Clone, Debug, Default)]
#[group(id = "network", multiple = true)]
#[command(next_help_heading = HEADING)]
pub(crate) struct Args {
    /// tap:NAME, tun:NAME, packet:NAME, xdp:NAME, vm:PATH
    ///
    /// tap:NAME (Ethernet) and tun:NAME (bare IP) are made if they are not there. packet:NAME is an
    /// interface that is there, used beside the kernel, xdp:NAME one used instead of it. vm:PATH
    /// connects to a virtual machine's stream socket in QEMU's framing, vm-listen:PATH waits for
    /// the machine.
    #[arg(long, value_name = "KIND:NAME")]
    pub(crate) dev: Option<Dev>,
    /// Our VLAN on the device: ID for one 802.1Q tag, OUTER.ID for an 802.1ad tag around it
    #[arg(long, value_name = "[OUTER.]ID", requires = "dev", hide_short_help = true)]
    pub(crate) vlan: Option<Tags>,
    /// Our address and network, as 192.0.2.2/24, or auto or dhcp; repeatable
    ///
    /// auto is for IPv6: addresses as routers on the link advertise (SLAAC); also one of a DHCPv6
    /// server, or name servers of one, if routers say that there is one. dhcp is for IPv4: a server
    /// gives an address. Both may be given. Addresses are checked for conflicts before they are
    /// used, which takes up to 2 s for IPv6 and 7 s for IPv4; those of servers are kept while the
    /// tool runs, and given back at the end. Ctrl-C ends the wait.
    #[arg(long, value_name = "A/B|auto|dhcp", requires = "dev")]
    pub(crate) addr: Vec<Addr>,
    /// Gateway to other networks, one a version of IP; also fe80::1, or fe80::1%NAME
    #[arg(long, value_name = "GATEWAY", requires = "dev")]
    pub(crate) via: Vec<Zoned>,
    /// The largest packet to send to a neighbour whose MTU is not the device's, as 192.0.2.9=1500;
    /// repeatable
    #[arg(long, value_name = "ADDRESS=BYTES", requires = "dev", hide_short_help = true)]
    pub(crate) neigh_mtu: Vec<NeighbourMtu>,
    /// How often the device wakes us: a level, 0 for each frame to 5 for the fewest wake-ups,
    /// adaptive, or poll [default: 0]
    #[arg(long, value_name = "0-5|adaptive|poll", requires = "dev", hide_short_help = true)]
    pub(crate) mitigation: Option<Mitigation>,
}

/// An address of ours, or how to get one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Addr {
    /// This one, with its network.
    Fixed(Cidr),
    /// As routers advertise.
    Auto,
    /// As a DHCP server says.
    Dhcp,
}

impl FromStr for Addr {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Addr, Self::Err> {
        match text {
            "auto" => Ok(Addr::Auto),
            "dhcp" => Ok(Addr::Dhcp),
            _ => text.parse().map(Addr::Fixed).map_err(
                |_| "expected ADDRESS/LENGTH, as in 192.0.2.1/24 or 2001:db8::1/64, auto or dhcp",
            ),
        }
    }
}

/// The MTU of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NeighbourMtu {
    pub(super) ip: IpAddr,
    pub(super) mtu: Mtu,
}

impl FromStr for NeighbourMtu {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<NeighbourMtu, Self::Err> {
        let (ip, mtu) = text.split_once('=').ok_or("give ADDRESS=BYTES, as 192.0.2.9=1500")?;
        let ip = ip.parse().map_err(|_| "before = there has to be an address, as 192.0.2.9")?;
        let mtu = mtu.parse().ok().and_then(Mtu::new);
        let mtu = mtu.ok_or("an MTU is a number of bytes from 68 to 65535")?;
        Ok(NeighbourMtu { ip, mtu })
    }
}

/// Are both of one version of IP?
fn is_like(a: IpAddr, b: IpAddr) -> bool {
    a.is_ipv4() == b.is_ipv4()
}

/// An address, with the link that it is on if one is said (RFC 4007 section 11): `fe80::1%ws0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Zoned {
    pub(crate) ip: IpAddr,
    zone: Option<String>,
}

impl FromStr for Zoned {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Zoned, Self::Err> {
        let (ip, zone) = match text.split_once('%') {
            Some((ip, zone)) => (ip, Some(zone.to_owned())),
            None => (text, None),
        };
        let ip: IpAddr = ip.parse().map_err(|_| "expected an address, as 192.0.2.1 or fe80::1")?;
        if zone.is_some() && !is_link_local(ip) {
            return Err("a link, as %ws0, is said behind a link-local address (fe80::) alone");
        }
        Ok(Zoned { ip, zone })
    }
}

/// An address of another stack's network, and the name of the port on whose link it is.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn with_link(text: &str) -> Result<(IpAddr, Option<String>), &'static str> {
    text.parse().map(|Zoned { ip, zone }| (ip, zone))
}

fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

impl Args {
    /// The address that a text is, on the device's link; `None` for what is no address.
    ///
    /// # Errors
    /// [`Usage`] for one on another link.
    pub(crate) fn address(&self, text: &str) -> Result<Option<IpAddr>> {
        if !text.contains('%') {
            return Ok(text.parse().ok());
        }
        let zoned: Zoned = text.parse().map_err(|why| Usage(format!("'{text}': {why}")))?;
        self.check_zone(&zoned)?;
        Ok(Some(zoned.ip))
    }

    /// The device has one link, whose name and number are the device's and 1.
    fn check_zone(&self, zoned: &Zoned) -> Result<()> {
        let Some(zone) = &zoned.zone else { return Ok(()) };
        let name = self.dev.as_ref().map_or("", |dev| dev.name.as_str());
        if zone != name && *zone != PortId(0).scope_id().to_string() {
            let ip = zoned.ip;
            bail!(Usage(format!(
                "the link of --dev is called {name}, not {zone}: give {ip}%{name}"
            )));
        }
        Ok(())
    }

    /// Check that the options fit together.
    ///
    /// # Errors
    /// [`Usage`], with the option to add or to change.
    pub(super) fn check(&self) -> Result<&Dev> {
        let usage = |text: String| Err(anyhow!(Usage(text)));
        let Some(dev) = &self.dev else {
            return usage(
                "say which device to use: --dev tap:NAME (or tun:, packet:, xdp:) --addr A/B"
                    .to_owned(),
            );
        };
        if self.addr.is_empty() {
            return usage(
                "our end needs an address: --addr A/B, as in 192.0.2.2/24, --addr dhcp, or \
                 --addr auto for IPv6"
                    .to_owned(),
            );
        }
        for cidr in self.fixed() {
            if let Err(why) = check_address(cidr) {
                return usage(format!("--addr {cidr}: {why}"));
            }
            if self.is_lonely(cidr.addr) && !self.via.iter().any(|via| is_like(via.ip, cidr.addr)) {
                return usage(format!(
                    "--addr {cidr} is a network without neighbours: give the length of its \
                     network, as in {}/{}, or a gateway by --via",
                    cidr.addr,
                    if cidr.addr.is_ipv4() { 24 } else { 64 }
                ));
            }
        }
        for via in &self.via {
            self.check_zone(via)?;
            let gateway = &via.ip;
            let asks = if gateway.is_ipv6() { Addr::Auto } else { Addr::Dhcp };
            let is_auto = self.addr.contains(&asks);
            let is_neighbour = |cidr: Cidr| {
                cidr.contains(*gateway) || (is_link_local(*gateway) && cidr.addr.is_ipv6())
            };
            let is_beside = self.is_lonely(*gateway) || self.fixed().any(is_neighbour);
            if !is_auto && !is_beside {
                return usage(format!(
                    "gateway {gateway} is on none of our networks; give an --addr A/B beside it"
                ));
            }
        }
        Ok(dev)
    }

    /// The addresses that are given.
    pub(super) fn fixed(&self) -> impl Iterator<Item = Cidr> {
        self.addr.iter().filter_map(|addr| match addr {
            Addr::Fixed(cidr) => Some(*cidr),
            Addr::Auto | Addr::Dhcp => None,
        })
    }

    /// Are all our addresses of the version of `like` networks without neighbours? Then a gateway
    /// is on the link by itself.
    pub(super) fn is_lonely(&self, like: IpAddr) -> bool {
        let asks = if like.is_ipv6() { Addr::Auto } else { Addr::Dhcp };
        let mut alike = self.fixed().filter(|cidr| is_like(cidr.addr, like)).peekable();
        let is_alone = |cidr: Cidr| cidr.prefix_len == if cidr.addr.is_ipv4() { 32 } else { 128 };
        !self.addr.contains(&asks) && alike.peek().is_some() && alike.all(is_alone)
    }

    pub(super) fn is_auto(&self) -> bool {
        self.addr.contains(&Addr::Auto)
    }

    /// Check that `host` is not this stack, whose packets to itself never reach the device.
    ///
    /// # Errors
    /// [`Usage`] for one of our own addresses.
    pub(crate) fn check_host(&self, host: IpAddr) -> Result<()> {
        if self.fixed().any(|cidr| cidr.addr == host) {
            bail!(Usage(format!(
                "{host} is our own --addr, and nothing sent to it leaves: give the other end's"
            )));
        }
        Ok(())
    }

    /// What to try if `host`, on one of our networks, does not answer.
    pub(crate) fn hint(&self, host: IpAddr) -> Option<String> {
        let (dev, net) = (self.dev.as_ref()?, self.fixed().find(|cidr| cidr.contains(host))?);
        if !matches!(dev.kind, Kind::Tap(_)) {
            // This machine is not the other end.
            return None;
        }
        Some(format!(
            "If {host} is to be this machine, give it the address: \
             `sudo ip addr add {host}/{} dev {}`",
            net.prefix_len, dev.name
        ))
    }
}
