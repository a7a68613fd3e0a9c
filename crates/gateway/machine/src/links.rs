//! The links of a gateway to its guests: the model of a bad network, the switch and the capture
//! that are in front of the stack.
//!
//! Called by: `machine.rs`, once.

use std::fs::File;
use std::sync::Arc;

use ::link::{Shaped, Switch, SwitchNews};
use anyhow::{Context, Result, anyhow};
use base::Cidr;
use device::Device;
use device::capture::Capture;
use stack::{PortConfig, PortId, Stack};

use super::link::{self, Path};
use super::machine::clock;
use super::machine::since_1970;
use super::networks::{LINK_LOCAL, MAC, Network};
use super::settings::Settings;
use super::watch::Watch;

type Links = Vec<Box<dyn Device>>;
type Began = std::time::Instant;

/// The links as ports of the stack.
pub(super) struct Linked {
    pub(super) ports: Vec<PortId>,
    /// The networks of each.
    pub(super) networks: Vec<(PortId, Vec<Network>)>,
    /// News of the switch, if there is one.
    pub(super) switch: Option<SwitchNews>,
}

/// Add the links to the stack. Their packets are captured if there is a file.
///
/// # Errors
/// The text of `--link` is wrong; the system has no descriptor left; the file has no room.
pub(super) fn linked(
    stack: &mut Stack,
    settings: &Settings,
    links: Links,
    (capture, watch): (Option<&File>, &mut Watch),
    began: Began,
) -> Result<Linked> {
    let links = links.into_iter().map(|link| shaped(link, settings, began));
    let (links, switch) = switched(settings, links.collect::<Result<_>>()?, began)?;
    let mut networks = Vec::new();
    for (number, device) in links.into_iter().enumerate() {
        let device = captured(device, capture, watch)?;
        let own = settings.networks.iter().filter(|network| network.link == number);
        let own: Vec<Network> = own.copied().collect();
        let addresses = own_addresses(&own);
        let config = PortConfig { mac: MAC, addresses, answer_all: !settings.is_switched };
        networks.push((stack.add_port(device, config), own));
    }
    let ports = networks.iter().map(|(port, _)| *port).collect();
    Ok(Linked { ports, networks, switch })
}

/// The addresses of the gateway and of the resolver on a link, and the one of a router that
/// advertises itself.
fn own_addresses(networks: &[Network]) -> Vec<Cidr> {
    let of =
        |network: &Network| [network.gateway, network.names].map(|addr| network.with_prefix(addr));
    let has_v6 = networks.iter().any(|network| network.gateway.is_ipv6());
    let router = Cidr { addr: LINK_LOCAL.into(), prefix_len: 64 };
    networks.iter().flat_map(of).chain(has_v6.then_some(router)).collect()
}

/// A link with the model of `--link`.
fn shaped(link: Box<dyn Device>, settings: &Settings, began: Began) -> Result<Box<dyn Device>> {
    let Some(text) = &settings.link else { return Ok(link) };
    let Path { settings, seed } = link::parse(text).map_err(|why| anyhow!("{why}"))?;
    let (shaped, _) = Shaped::new(link, settings, seed, Arc::new(move || clock(began)));
    Ok(Box::new(shaped))
}

/// With `--switch`: all machines at one switch, which is the stack's link, and its news.
fn switched(
    settings: &Settings,
    links: Links,
    began: Began,
) -> Result<(Links, Option<SwitchNews>)> {
    if !settings.is_switched {
        return Ok((links, None));
    }
    let clock = Arc::new(move || clock(began));
    let switch = Switch::new(links, MAC, clock).context("no epoll can be made")?;
    let news = switch.news();
    Ok((vec![Box::new(switch)], Some(news)))
}

/// A link whose packets are written to the file.
fn captured(
    device: Box<dyn Device>,
    file: Option<&File>,
    watch: &mut Watch,
) -> Result<Box<dyn Device>> {
    let Some(file) = file else { return Ok(device) };
    let file = file.try_clone().context("no descriptor is left")?;
    let (capture, status) = Capture::new(device, file, since_1970).map_err(|why| {
        anyhow!("--capture: the file cannot be written ({}): make room, or name another", why.cause)
    })?;
    watch.capture(status);
    Ok(Box::new(capture))
}
