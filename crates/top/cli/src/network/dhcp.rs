//! `--addr dhcp`: a DHCP server on the link gives the device's port an IPv4 address, which is kept
//! while the tool runs and given back at its end.
//!
//! Called by: `network.rs` when the device is open, `leases.rs` afterwards. What changes is
//! said on standard error. RFC 2131.

use core::net::IpAddr;

use anyhow::{Result, bail};
use wirespeed::net::dhcp::{Change, Config, DhcpPort, Lease, State};
use wirespeed::{Duration, Instant, KeyedHash, MacAddr, PortId, Stack};

use super::{Network, obtained};
use crate::Usage;
use crate::clock::Interrupt;
use crate::output;

/// The time that a server has for its first answer; the client asks three times in it.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time of the check of an address for conflicts (RFC 5227 section 2.1: up to 7 seconds).
const CHECK: Duration = Duration::from_secs(8);
/// The wait after an address that another host has: the client asks again after ten seconds
/// (RFC 2131 section 3.1), and its server may first check the address that it offers.
const AFTER_DECLINE: Duration = Duration::from_secs(20);
/// Addresses that a server gave and other hosts have, before we stop asking.
const DECLINED_MAX: u32 = 3;
/// Sets the client's secret apart from what else the stack's seed determines.
const PURPOSE: u64 = 68;

/// The DHCP client of the port, and what it has.
pub(super) struct Dhcp {
    port: PortId,
    client: DhcpPort,
    lease: Option<Box<Lease>>,
    /// Addresses in a row that other hosts turned out to have.
    declined: u32,
}

/// The client whose address is given back, and the server that is told.
pub(super) struct Released {
    pub(super) port: PortId,
    pub(super) client: DhcpPort,
    pub(super) server: Option<IpAddr>,
}

/// Begin to ask for an address.
///
/// # Errors
/// [`Usage`] for a device without link addresses.
pub(super) fn begin(network: &mut Network, mac: MacAddr) -> Result<()> {
    let [a, b] = network.stack.derived_secret(PURPOSE);
    let mtu_max = u16::try_from(network.mtu()).unwrap_or(u16::MAX);
    let config = Config { mtu_max, ..Config::new(mac, KeyedHash::new(a, b)) };
    let (port, now) = (network.port, network.clock.now());
    let client = DhcpPort::new(&mut network.stack, port, config, now)
        .map_err(|why| Usage(format!("--addr dhcp: {why}")))?;
    network.leases.dhcp = Some(Dhcp { port, client, lease: None, declined: 0 });
    Ok(())
}

/// Wait until the port has an address; `false` after Ctrl-C.
///
/// # Errors
/// No server gave an address in time, or other hosts have those that it gave.
pub(super) fn wait(network: &mut Network, interrupt: &Interrupt) -> Result<bool> {
    let mut until = network.clock.now() + PATIENCE;
    let mut step = (State::Init, 0);
    loop {
        network.turn();
        let now = network.clock.now();
        let Some(dhcp) = &network.leases.dhcp else { return Ok(true) };
        if dhcp.lease.is_some() {
            return Ok(true);
        }
        let state = dhcp.client.client().state();
        let here = (if state == State::Probing { state } else { State::Init }, dhcp.declined);
        if here != step {
            step = here;
            until = now + if state == State::Probing { CHECK } else { AFTER_DECLINE };
        }
        if now >= until || dhcp.declined >= DECLINED_MAX {
            bail!(without_an_address(network));
        }
        if interrupt.noted() {
            return Ok(false);
        }
        network.rest(until, [interrupt.descriptor()])?;
    }
}

fn without_an_address(network: &Network) -> String {
    let seconds = PATIENCE.as_millis() / 1_000;
    let trouble = network.trouble().map(|trouble| format!(" ({trouble})")).unwrap_or_default();
    let declined = network.leases.dhcp.as_ref().map_or(0, |dhcp| dhcp.declined);
    let refusal = network.leases.dhcp.as_ref().and_then(|dhcp| dhcp.client.client().refusal());
    match (declined, refusal) {
        (0, None) => format!(
            "no DHCP server gave an address in {seconds} s{trouble}: look whether one serves this \
             link (dnsmasq --interface=DEV --dhcp-range=...), or give an address by --addr A/B"
        ),
        (0, Some(why)) => format!(
            "no DHCP server gave an address in {seconds} s: {why}; look into the server's \
             configuration and its log, or give an address by --addr A/B"
        ),
        _ => format!(
            "other hosts have what the DHCP server gave ({declined} declined), and there was no \
             further address: change its range so that it leaves out those that are configured by \
             hand, or give an address by --addr A/B"
        ),
    }
}

impl Dhcp {
    /// Read answers, send what is due; says what changes.
    pub(super) fn turn(&mut self, stack: &mut Stack, now: Instant) {
        while let Some(change) = self.client.poll(stack, now) {
            match change {
                Change::Configured(lease) => {
                    let is_known = self.lease.as_ref().is_some_and(|old| is_like(old, &lease));
                    if !is_known {
                        say(&lease);
                    }
                    (self.lease, self.declined) = (Some(lease), 0);
                }
                Change::Lost(address, why) => {
                    self.lease = None;
                    obtained::lost(address, "DHCP", why);
                }
                Change::NotAdded(address, why) => obtained::not_added(address, "DHCP", why),
                Change::Declined(address) => {
                    self.declined += 1;
                    obtained::declined(address, "DHCP", ", which takes ten seconds");
                }
                Change::Refused(why) => output::err(&format!("warning: DHCP: {why}")),
            }
        }
    }

    /// When to turn next if nothing is received.
    pub(super) fn deadline(&self) -> Instant {
        self.client.deadline()
    }

    /// The name servers of the lease.
    pub(super) fn dns_servers(&self) -> impl Iterator<Item = IpAddr> {
        self.lease.iter().flat_map(|lease| lease.dns_servers.iter().copied().map(IpAddr::V4))
    }

    /// The domains of the lease in which names are searched.
    pub(super) fn dns_search(&self) -> &[String] {
        self.lease.as_ref().map_or(&[], |lease| &lease.search)
    }

    /// Tell the server that the address is free, if there is one.
    pub(super) fn release(mut self, stack: &mut Stack, now: Instant) -> Released {
        let server = self.lease.take().map(|lease| IpAddr::V4(lease.server));
        self.client.release(stack, now);
        Released { port: self.port, client: self.client, server }
    }
}

/// Do they differ in nothing but times?
fn is_like(old: &Lease, new: &Lease) -> bool {
    let Lease { valid, renew, rebind, .. } = *old;
    *old == Lease { valid, renew, rebind, ..new.clone() }
}

fn say(lease: &Lease) {
    let (address, len, server) = (lease.address, lease.prefix_len, lease.server);
    let time = obtained::time(lease.valid);
    let mtu = lease.mtu.map(|mtu| format!("; MTU {mtu}")).unwrap_or_default();
    let what = format!("address: {address}/{len} {time}, by DHCP from {server}{mtu}");
    let routers: Vec<_> = lease.routes.iter().filter_map(|route| route.gateway).collect();
    output::err(&obtained::line(&what, &routers, &lease.dns_servers));
}
