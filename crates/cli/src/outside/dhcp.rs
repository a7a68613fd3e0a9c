//! `--addr dhcp`: a DHCP server on the link gives the device's port an IPv4 address, which is kept
//! while the tool runs and given back at its end.
//!
//! Called by: `outside.rs`: when the device is open, at each turn, and at the end. What changes is
//! said on standard error. RFC 2131.

use core::net::IpAddr;

use anyhow::{Result, bail};
use wirespeed::net::dhcp::{Change, Config, DhcpPort, Lease, LossReason, State};
use wirespeed::{Duration, Instant, KeyedHash, MacAddr, NeighbourState, PortId, Stack};

use super::Outside;
use crate::Usage;
use crate::output;

/// So long a server has for its first answer: three questions are sent meanwhile.
const PATIENCE: Duration = Duration::from_secs(10);
/// And so long an address is checked for conflicts (RFC 5227 section 2.1 takes up to 7 seconds).
const CHECK: Duration = Duration::from_secs(8);
/// So long the release of the address may wait for the server's link address.
const RELEASE: Duration = Duration::from_millis(300);
/// Sets the client's secret apart from what else the stack's seed determines.
const PURPOSE: u64 = 68;

/// The DHCP client of the port, and what it has.
pub(super) struct Dhcp {
    port: PortId,
    client: DhcpPort,
    lease: Option<Box<Lease>>,
}

/// Ask for an address, and wait until the port has one.
///
/// # Errors
/// [`Usage`] for a device without link addresses; no server gave an address in time.
pub(super) fn configure(outside: &mut Outside, mac: MacAddr) -> Result<()> {
    let [a, b] = outside.stack.derived_secret(PURPOSE);
    let mtu_max = u16::try_from(outside.mtu()).unwrap_or(u16::MAX);
    let config = Config { mtu_max, ..Config::new(mac, KeyedHash::new(a, b)) };
    let (port, now) = (outside.port, outside.clock.now());
    let client = DhcpPort::new(&mut outside.stack, port, config, now)
        .map_err(|why| Usage(format!("--addr dhcp: {why}")))?;
    outside.dhcp = Some(Dhcp { port, client, lease: None });
    let mut until = now + PATIENCE;
    let mut is_checking = false;
    loop {
        let worked = outside.turn();
        let now = outside.clock.now();
        let Some(dhcp) = &outside.dhcp else { return Ok(()) };
        if dhcp.lease.is_some() {
            return Ok(());
        }
        if dhcp.client.client().state() == State::Probing && !is_checking {
            is_checking = true;
            until = now + CHECK;
        }
        if now >= until {
            bail!(without_an_answer(outside));
        }
        if worked == 0 && !outside.stack.has_input() {
            outside.wait(until, [])?;
        }
    }
}

fn without_an_answer(outside: &Outside) -> String {
    let seconds = PATIENCE.as_millis() / 1_000;
    let trouble = outside.trouble().map(|trouble| format!(" ({trouble})")).unwrap_or_default();
    let dropped = outside.dhcp.as_ref().map_or(0, |dhcp| dhcp.client.client().drops().total());
    match dropped {
        0 => format!(
            "no DHCP server gave an address in {seconds} s{trouble}: look whether one serves this \
             link (dnsmasq --interface=DEV --dhcp-range=...), or give an address by --addr A/B"
        ),
        _ => format!(
            "no DHCP server gave an address in {seconds} s: {dropped} answers were of no use; look \
             into the server's log, or give an address by --addr A/B"
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
                    self.lease = Some(lease);
                }
                Change::Lost(address, why) => {
                    self.lease = None;
                    output::err(&format!("warning: {address} is no longer ours: {}", lost(why)));
                }
                Change::NotAdded(address, why) => {
                    output::err(&format!("warning: {address}, by DHCP, cannot be used: {why}"));
                }
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

    /// Send the release; `None` if there is nothing to give back.
    fn release(&mut self, stack: &mut Stack, now: Instant) -> Option<IpAddr> {
        let server = self.lease.take().map(|lease| IpAddr::V4(lease.server));
        self.client.release(stack, now);
        server
    }
}

/// Give the address back.
pub(super) fn release(outside: &mut Outside) {
    let Some(mut dhcp) = outside.dhcp.take() else { return };
    let began = outside.clock.now();
    if let Some(server) = dhcp.release(&mut outside.stack, began) {
        let until = began + RELEASE;
        loop {
            outside.stack.flush();
            // The message waits for a server on the link whose link address is not known yet.
            let state = outside.stack.neighbour_state(dhcp.port, server);
            let is_sent = state.is_some_and(|state| state != NeighbourState::Incomplete);
            if is_sent || outside.clock.now() >= until || outside.wait(until, []).is_err() {
                break;
            }
            outside.turn();
        }
    }
    dhcp.client.stop(&mut outside.stack, outside.clock.now());
    outside.stack.flush();
}

/// Do they differ in nothing but times?
fn is_like(old: &Lease, new: &Lease) -> bool {
    let Lease { valid, renew, rebind, .. } = *old;
    *old == Lease { valid, renew, rebind, ..new.clone() }
}

fn say(lease: &Lease) {
    let time = match lease.valid {
        Some(valid) => format!("for {} s", valid.as_millis() / 1_000),
        None => "for ever".to_owned(),
    };
    let (address, len, server) = (lease.address, lease.prefix_len, lease.server);
    output::err(&format!("address: {address}/{len} {time}, by DHCP from {server}"));
    let routers: Vec<String> =
        lease.routes.iter().filter_map(|route| route.gateway).map(|ip| ip.to_string()).collect();
    if !routers.is_empty() {
        output::err(&format!("routers: {}", routers.join(", ")));
    }
    if !lease.dns_servers.is_empty() {
        let servers: Vec<String> = lease.dns_servers.iter().map(ToString::to_string).collect();
        output::err(&format!("name servers: {}", servers.join(", ")));
    }
}

fn lost(why: LossReason) -> &'static str {
    match why {
        LossReason::Expired => "no server extended the lease in time; asking again",
        LossReason::Refused => "a server refused it; asking for another",
        LossReason::Conflict => "another host has it; asking for another",
        LossReason::Released => "it was given back",
    }
}
