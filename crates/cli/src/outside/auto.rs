//! `--addr auto`: the device's port makes itself IPv6 addresses, and the tool waits for them.
//!
//! Called by: `outside.rs` when the device is open. What it got, or what it lacks, is said on
//! standard error.

use anyhow::{Result, bail};
use wirespeed::{Address, AddressState, AutoConfig, Duration, Instant, Origin, Progress};

use super::Outside;
use crate::Usage;
use crate::output;

/// So long a router has for its answer: two solicitations are sent meanwhile.
const PATIENCE: Duration = Duration::from_secs(10);
/// And so long its addresses have to be checked for duplicates.
const CHECK: Duration = Duration::from_secs(3);

/// Configure the port, and wait until it has an address of a router's prefix, or until none can be
/// expected.
///
/// # Errors
/// The device has no link addresses, or others have ours.
pub(super) fn configure(outside: &mut Outside) -> Result<()> {
    // Tools are looked for by their addresses: those that change are of no use.
    let config = AutoConfig { temporary: false, ..AutoConfig::default() };
    let started = outside.stack.autoconfigure(outside.port, config);
    started.map_err(|why| Usage(format!("--addr auto: {why}")))?;
    let mut until = outside.clock.now() + PATIENCE;
    let mut is_routed = false;
    loop {
        outside.turn();
        let now = outside.clock.now();
        let progress = outside.stack.autoconf(outside.port).map(|status| status.progress);
        if progress == Some(Progress::Duplicate) {
            bail!(
                "other hosts on the link have all the link-local addresses that were tried: look \
                 whether frames are looped back, or give an address by --addr A/B"
            );
        }
        if progress == Some(Progress::Routed) && !is_routed {
            is_routed = true;
            until = now + CHECK;
        }
        if has_global(outside) && !is_checking(outside) {
            say_what_there_is(outside);
            return Ok(());
        }
        if now >= until {
            return without_a_prefix(outside);
        }
        wait(outside, until)?;
    }
}

fn wait(outside: &mut Outside, until: Instant) -> Result<()> {
    if !outside.stack.has_input() {
        outside.wait(until, [])?;
    }
    Ok(())
}

fn made(outside: &Outside) -> impl Iterator<Item = &Address> {
    let all = outside.stack.addresses(outside.port).iter();
    all.filter(|a| matches!(a.origin, Origin::Stable | Origin::LinkLocal) && a.ip().is_ipv6())
}

fn has_global(outside: &Outside) -> bool {
    made(outside).any(|a| a.is_usable() && a.origin == Origin::Stable)
}

fn is_checking(outside: &Outside) -> bool {
    made(outside).any(|a| a.state == AddressState::Tentative)
}

/// Nothing but a link-local address: say why, and go on.
fn without_a_prefix(outside: &Outside) -> Result<()> {
    let routers = outside.stack.autoconf(outside.port).map_or(0, |status| status.routers.len());
    let own = made(outside).find(|a| a.is_usable()).map(Address::ip);
    let Some(own) = own else {
        bail!(
            "no frame could be sent to check a link-local address: look whether the device is up \
             and its other end attached"
        );
    };
    let seconds = PATIENCE.as_millis() / 1_000;
    output::err(&match routers {
        0 => format!(
            "warning: no router answered in {seconds} s, so that hosts on the link alone can be \
             reached, from {own}. Look whether a router advertises itself there (radvd, or \
             'sysctl net.ipv6.conf.DEV.forwarding'), or give an address by --addr A/B"
        ),
        _ => format!(
            "warning: the router advertises no prefix to make addresses of, so that we have {own} \
             alone: give an address by --addr A/B"
        ),
    });
    Ok(())
}

fn say_what_there_is(outside: &Outside) {
    let ours: Vec<String> = made(outside)
        .filter(|a| a.is_usable())
        .map(|a| format!("{} ({})", a.cidr, a.origin))
        .collect();
    output::err(&format!("addresses: {}", ours.join(", ")));
    let Some(status) = outside.stack.autoconf(outside.port) else { return };
    let routers: Vec<String> = status.routers.iter().map(|r| r.ip.to_string()).collect();
    if !routers.is_empty() {
        output::err(&format!("routers: {}", routers.join(", ")));
    }
    let servers: Vec<String> =
        outside.stack.dns_servers(outside.port).iter().map(ToString::to_string).collect();
    if !servers.is_empty() {
        output::err(&format!("name servers: {}", servers.join(", ")));
    }
}
