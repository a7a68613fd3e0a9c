//! `--addr auto`: the device's port makes itself IPv6 addresses, gets one of a DHCPv6 server if
//! routers say that there is one, and the tool waits for them.
//!
//! Called by: `network.rs` when the device is open. What it got, or what it lacks, is said on
//! standard error. RFC 4862.

use core::net::Ipv6Addr;

use anyhow::{Result, bail};
use wirespeed::net::dhcp6::Mode;
use wirespeed::{
    Address, AddressState, AutoConfig, AutoconfStatus, Duration, MacAddr, Origin, Progress,
};

use super::dhcp6::{self, Dhcp6};
use super::{Network, obtained};
use crate::Usage;
use crate::clock::Interrupt;
use crate::output;

/// The time that a router has for its answer (two solicitations are sent in it), and that a DHCPv6
/// server has to give an address.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time of the check of addresses for duplicates.
const CHECK: Duration = Duration::from_secs(3);
/// The time for a DHCPv6 server to give options alone: we can do without.
const INFORM: Duration = Duration::from_secs(4);
/// Addresses that a server gave and other hosts have, before we stop asking.
const DECLINED_MAX: u32 = 3;

/// Begin to configure the port.
///
/// # Errors
/// [`Usage`]: the device has no link addresses.
pub(super) fn begin(network: &mut Network, mac: MacAddr) -> Result<()> {
    // Tools are looked for by their addresses: those that change are of no use.
    let config = AutoConfig { temporary: false, ..AutoConfig::default() };
    let started = network.stack.autoconfigure(network.port, config);
    started.map_err(|why| Usage(format!("--addr auto: {why}")))?;
    network.leases.dhcp6 = Some(Dhcp6::new(&network.stack, network.port, mac));
    Ok(())
}

/// Wait until the port has the addresses that routers speak of, or until none can be expected;
/// `false` after Ctrl-C.
///
/// # Errors
/// Other hosts have ours; no frame can be sent.
pub(super) fn wait(network: &mut Network, interrupt: &Interrupt) -> Result<bool> {
    let mut until = network.clock.now() + PATIENCE;
    let mut asked = None;
    loop {
        network.turn();
        let now = network.clock.now();
        let Some(status) = network.stack.autoconf(network.port) else { return Ok(true) };
        if status.progress == Progress::Duplicate {
            bail!(
                "other hosts on the link have all the link-local addresses that were tried: look \
                 whether frames are looped back, or give an address by --addr A/B"
            );
        }
        let asks = network.leases.dhcp6.as_ref().map(Dhcp6::mode);
        if status.progress == Progress::Routed && asked != asks {
            asked = asks;
            until = now + patience_for(asks.flatten());
        }
        let is_complete =
            network.leases.dhcp6.as_ref().is_none_or(Dhcp6::is_done) && has_global(network);
        let declined = network.leases.dhcp6.as_ref().map_or(0, |dhcp6| dhcp6.declined);
        if is_complete && !is_checking(network) || now >= until || declined >= DECLINED_MAX {
            end(network, &status)?;
            return Ok(true);
        }
        if interrupt.noted() {
            return Ok(false);
        }
        network.rest(until, [interrupt.descriptor()])?;
    }
}

/// What a router said last decides for how long we wait.
fn patience_for(mode: Option<Mode>) -> Duration {
    match mode {
        None => CHECK,
        Some(Mode::Stateless) => INFORM,
        Some(Mode::Stateful) => PATIENCE,
    }
}

/// The addresses that we made or were given.
fn ours(network: &Network) -> impl Iterator<Item = &Address> {
    let all = network.stack.addresses(network.port).iter();
    all.filter(|a| a.origin != Origin::Static && a.ip().is_ipv6())
}

fn has_global(network: &Network) -> bool {
    ours(network).any(|a| a.is_usable() && matches!(a.origin, Origin::Stable | Origin::Dhcp))
}

fn is_checking(network: &Network) -> bool {
    ours(network).any(|a| a.state == AddressState::Tentative)
}

/// Say what there is, and what is missing.
fn end(network: &mut Network, status: &AutoconfStatus) -> Result<()> {
    let Some(own) = ours(network).find(|a| a.is_usable()).map(Address::ip) else {
        bail!(
            "no frame could be sent to check a link-local address: look whether the device is up \
             and its other end attached"
        );
    };
    let lacks = lacking(network, status);
    if has_global(network) {
        say_what_there_is(network, status);
    }
    if let Some(lacks) = lacks {
        output::err(&format!("warning: {lacks}"));
    } else if !has_global(network) {
        output::err(&match status.progress {
            Progress::Routed => format!(
                "warning: the router advertises no prefix to make addresses of, so that we have \
                 {own} alone: give an address by --addr A/B"
            ),
            _ => format!(
                "warning: no router answered in {} s, so that hosts on the link alone can be \
                 reached, from {own}. Look whether a router advertises itself there (radvd, or \
                 'sysctl net.ipv6.conf.DEV.forwarding'), or give an address by --addr A/B",
                PATIENCE.as_millis() / 1_000
            ),
        });
    }
    if let Some(dhcp6) = &mut network.leases.dhcp6 {
        dhcp6.says_changes = true;
    }
    Ok(())
}

/// What a DHCPv6 server should have given, and did not.
fn lacking(network: &Network, status: &AutoconfStatus) -> Option<String> {
    let dhcp6 = network.leases.dhcp6.as_ref().filter(|dhcp6| !dhcp6.is_done())?;
    let router = status.routers.first().map_or(Ipv6Addr::UNSPECIFIED, |router| router.ip);
    let trouble = match (dhcp6.declined, dhcp6.dropped()) {
        (0, 0) => "no answer came".to_owned(),
        (0, dropped) => format!("{dropped} answers were of no use"),
        (declined, _) => format!("other hosts have the {declined} addresses that it gave"),
    };
    Some(match dhcp6.mode()? {
        Mode::Stateful => format!(
            "router {router} says that a DHCPv6 server gives addresses (flag M), but {trouble}: \
             look whether one serves this link (dnsmasq --dhcp-range=...) and into its log, or \
             give an address by --addr A/B. Asking goes on"
        ),
        Mode::Stateless => format!(
            "router {router} says that a DHCPv6 server has settings (flag O), but {trouble}: if \
             names are not found, give --dns ADDR. Asking goes on"
        ),
    })
}

fn say_what_there_is(network: &Network, status: &AutoconfStatus) {
    let lease = network.leases.dhcp6.as_ref().and_then(Dhcp6::lease);
    let all = ours(network).filter(|a| a.is_usable()).map(|a| match lease {
        Some(lease) if a.ip() == lease.address => dhcp6::text(lease),
        _ => format!("{} ({})", a.cidr, a.origin),
    });
    let all: Vec<String> = all.collect();
    let routers: Vec<Ipv6Addr> = status.routers.iter().map(|router| router.ip).collect();
    let leased = network.leases.dhcp6.iter().flat_map(|dhcp6| dhcp6.dns_servers()).collect();
    let servers = obtained::in_turn(&[leased, network.stack.dns_servers(network.port)]);
    let what = format!("addresses: {}", all.join(", "));
    output::err(&obtained::line(&what, &routers, &servers));
}
