//! Addresses that a port makes itself: link-local ones, and stable and temporary ones in the
//! prefixes that routers advertise. A temporary address is random, is used for a day, and is kept
//! for another day for the connections that still use it.
//!
//! Called by: `calls.rs`; `router.rs` for each advertisement; `dad.rs` for a duplicate. RFC 4862
//! sections 5.3 and 5.5, RFC 7217, RFC 8981 section 3. Limits: `prefixes`, `addresses`,
//! `temporary_addresses`.

use core::net::{IpAddr, Ipv6Addr};

use base::{Cidr, Duration, Instant, Limit, MacAddr};
use inet::slaac::{
    self, DESYNC_MAX, Identifiers, PREFIX_LEN, REGENERATE_BEFORE, TEMPORARY_PREFERRED,
    TEMPORARY_VALID, TRIES_MAX, valid_until,
};
use inet::solicit::DELAY_MAX;
use inet::{Address, AddressState, Origin};
use wire::nd::Prefix;

use super::{AutoconfError, Autonomous, Progress, Temporaries, before};
use crate::addresses::AddressError;
use crate::handles::PortId;
use crate::stack::Stack;

const LINK_LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0);

/// The link-local address made from a link address, for a port on which the user has set an
/// address. Like the user's address it is not checked for duplicates.
pub(super) fn link_local(mac: MacAddr) -> Address {
    let addr = IpAddr::V6(slaac::address(LINK_LOCAL, slaac::eui64(mac)));
    let address = Address::fixed(Cidr { addr, prefix_len: PREFIX_LEN });
    Address { origin: Origin::LinkLocal, ..address }
}

/// Is the address link-local, and in use?
fn is_link_local(address: &Address) -> bool {
    address.is_usable() && matches!(address.ip(), IpAddr::V6(ip) if ip.is_unicast_link_local())
}

/// Make the next link-local address, or use one that the user has set.
/// RFC 4862 5.3-a.
pub(super) fn make_link_local(stack: &mut Stack, id: PortId) -> Result<(), AutoconfError> {
    if stack.addresses(id).iter().any(is_link_local) {
        // No message of this port was delayed yet.
        // RFC 4861 6.3.7-b.
        let delay = stack.autoconf.draw(&stack.core.secret) % DELAY_MAX.as_nanos();
        solicit_from(stack, id, stack.core.cx.now + Duration::from_nanos(delay));
        return Ok(());
    }
    let counter = stack.autoconf.port(id).map_or(0, |conf| conf.duplicates);
    let Some(ip) = stable(stack, id, LINK_LOCAL, counter) else { return Ok(()) };
    let address = tentative(ip, Origin::LinkLocal, (Instant::NEVER, Instant::NEVER));
    stack.add_address(id, address).map_err(|why| match why {
        AddressError::NoPort => AutoconfError::NoPort,
        AddressError::NotAHost | AddressError::LimitReached => AutoconfError::LimitReached,
    })
}

fn solicit_from(stack: &mut Stack, id: PortId, at: Instant) {
    if let Some(conf) = stack.autoconf.port(id) {
        conf.solicit_from(at);
    }
}

/// The stable address in a prefix: its identifier does not change.
fn stable(stack: &mut Stack, id: PortId, prefix: Ipv6Addr, counter: u8) -> Option<Ipv6Addr> {
    let mac = stack.ports.get(id.0)?.mac;
    let conf = stack.autoconf.port(id)?;
    let identifier = match conf.config.identifiers {
        Identifiers::StablePrivacy => slaac::stable(&conf.secret, prefix, mac, counter),
        Identifiers::Eui64 => slaac::eui64(mac),
    };
    Some(slaac::address(prefix, identifier))
}

/// Make and renew addresses in the advertised prefixes.
/// RFC 4862 5.5.3-d, 5.5.3-e.
pub(super) fn take(stack: &mut Stack, id: PortId, prefixes: &[Prefix]) {
    let now = stack.core.cx.now;
    for one in prefixes.iter().filter(|p| p.prefix_len == PREFIX_LEN) {
        let prefix = slaac::address(one.prefix, 0);
        let advertised = (slaac::until(now, one.preferred_s), slaac::until(now, one.valid_s));
        let Some(conf) = stack.autoconf.ports.get_mut(&id.0) else { return };
        if let Some(known) = conf.prefixes.iter_mut().find(|known| known.prefix == prefix) {
            known.preferred_until = advertised.0;
            known.valid_until = valid_until(known.valid_until, advertised.1, now);
            renew(stack, id, prefix, advertised);
            continue;
        }
        let used = conf.prefixes.len();
        if one.valid_s == 0 || !stack.core.cx.budget.admits(Limit::Prefixes, used) {
            continue;
        }
        conf.prefixes.push(Autonomous {
            prefix,
            preferred_until: advertised.0,
            valid_until: advertised.1,
            duplicates: 0,
            temporaries: Temporaries::default(),
        });
        make_stable(stack, id, prefix);
        make_temporary(stack, id, prefix);
    }
}

/// Make the stable address in a prefix, unless the port has it already, or has as many addresses as
/// its limit allows.
fn make_stable(stack: &mut Stack, id: PortId, prefix: Ipv6Addr) {
    let Some(known) = known(stack, id, prefix) else { return };
    let (lifetimes, counter) = ((known.preferred_until, known.valid_until), known.duplicates);
    let Some(ip) = stable(stack, id, prefix, counter) else { return };
    if stack.addresses(id).iter().all(|a| a.ip() != IpAddr::V6(ip)) {
        // If the limit `addresses` refuses the address, the refusal has been counted.
        let _ = stack.add_address(id, tentative(ip, Origin::Stable, lifetimes));
    }
}

/// The port's state for a prefix.
fn known(stack: &mut Stack, id: PortId, prefix: Ipv6Addr) -> Option<&mut Autonomous> {
    stack.autoconf.port(id)?.prefixes.iter_mut().find(|known| known.prefix == prefix)
}

/// Give the addresses in a prefix new lifetimes. Temporary ones never live longer than first
/// intended.
/// RFC 4862 5.5.3-e, RFC 8981 3.4-a.
fn renew(stack: &mut Stack, id: PortId, prefix: Ipv6Addr, (preferred, valid): (Instant, Instant)) {
    let now = stack.core.cx.now;
    let Some(port) = stack.ports.get_mut(id.0) else { return };
    let conf = stack.autoconf.ports.get_mut(&id.0);
    let known = conf.and_then(|conf| conf.prefixes.iter_mut().find(|k| k.prefix == prefix));
    let Some(known) = known else { return };
    for address in &mut port.addresses {
        let IpAddr::V6(ip) = address.ip() else { continue };
        if slaac::address(ip, 0) != prefix {
            continue;
        }
        let most = match address.origin {
            Origin::Stable => (Instant::NEVER, Instant::NEVER),
            Origin::Temporary => known.temporaries.most(ip),
            _ => continue,
        };
        address.preferred_until = preferred.min(most.0);
        address.valid_until = valid_until(address.valid_until, valid, now).min(most.1);
        if address.state == AddressState::Deprecated && address.preferred_until > now {
            address.state = AddressState::Preferred;
        }
    }
    let preferred = |ip| port.addresses.iter().find(|a| a.ip() == IpAddr::V6(ip));
    known.temporaries.reschedule(|ip| preferred(ip).map(|a| a.preferred_until));
}

/// Forget prefixes that are no longer valid, and make temporary addresses where it is time to.
pub(super) fn expire(stack: &mut Stack, id: PortId) {
    let now = stack.core.cx.now;
    let Some(conf) = stack.autoconf.port(id) else { return };
    conf.prefixes.retain(|known| known.valid_until > now);
    let is_due = |known: &&Autonomous| known.temporaries.regenerate_at() <= now;
    let due: Vec<Ipv6Addr> = conf.prefixes.iter().filter(is_due).map(|k| k.prefix).collect();
    for prefix in due {
        make_temporary(stack, id, prefix);
    }
}

/// Note that an address passed its check for duplicates.
pub(super) fn passed(stack: &mut Stack, id: PortId, address: &Address) {
    match (address.origin, address.ip()) {
        (Origin::LinkLocal, _) => solicit_from(stack, id, Instant::ZERO),
        (Origin::Temporary, IpAddr::V6(ip)) => {
            if let Some(known) = known(stack, id, slaac::address(ip, 0)) {
                known.temporaries.passed();
            }
        }
        _ => {}
    }
}

/// An address turned out to be another host's: try the next identifier, three in all.
/// RFC 4862 5.4.5-b, RFC 7217 6-a.
pub(super) fn duplicate(stack: &mut Stack, id: PortId, address: &Address) {
    let IpAddr::V6(ip) = address.ip() else { return };
    let prefix = slaac::address(ip, 0);
    let Some(conf) = stack.autoconf.port(id) else { return };
    let can_change = conf.config.identifiers == Identifiers::StablePrivacy;
    match address.origin {
        Origin::LinkLocal => {
            conf.duplicates += 1;
            if can_change && conf.duplicates < TRIES_MAX {
                stack.remove_address(id, address.ip());
                // The address that was removed left room for this one.
                let _ = make_link_local(stack, id);
            } else {
                conf.progress = Progress::Duplicate;
            }
        }
        Origin::Stable => {
            let Some(known) = known(stack, id, prefix) else { return };
            known.duplicates += 1;
            if can_change && known.duplicates < TRIES_MAX {
                stack.remove_address(id, address.ip());
                make_stable(stack, id, prefix);
            }
        }
        Origin::Temporary => {
            stack.remove_address(id, address.ip());
            let Some(known) = known(stack, id, prefix) else { return };
            if known.temporaries.duplicate(ip) {
                make_temporary(stack, id, prefix);
            }
        }
        Origin::Static | Origin::Dhcp | Origin::Program => {}
    }
}

/// Make a temporary address in a prefix, if the port is to have them.
/// RFC 8981 3.4-b, 3.4-c, 3.5-a.
fn make_temporary(stack: &mut Stack, id: PortId, prefix: Ipv6Addr) {
    let now = stack.core.cx.now;
    let desync =
        Duration::from_nanos(stack.autoconf.draw(&stack.core.secret) % DESYNC_MAX.as_nanos());
    let identifier = slaac::random(|_| stack.autoconf.draw(&stack.core.secret));
    let is_wanted = stack.autoconf.port(id).is_some_and(|conf| conf.config.temporary);
    let addresses: Vec<IpAddr> = stack.addresses(id).iter().map(|a| a.ip()).collect();
    let autoconf = &mut stack.autoconf;
    let conf = autoconf.ports.get_mut(&id.0);
    let found = conf.and_then(|conf| conf.prefixes.iter_mut().find(|k| k.prefix == prefix));
    let Some(known) = found.filter(|_| is_wanted) else { return };
    let list = &mut known.temporaries;
    list.regenerate_at = Instant::NEVER;
    list.made.retain(|(ip, _)| addresses.contains(&IpAddr::V6(*ip)));
    let most = (now + TEMPORARY_PREFERRED.saturating_sub(desync), now + TEMPORARY_VALID);
    let lifetimes = (most.0.min(known.preferred_until), most.1.min(known.valid_until));
    if lifetimes.0 <= now + REGENERATE_BEFORE {
        return;
    }
    if !stack.core.cx.budget.admits(Limit::TemporaryAddresses, list.made.len()) {
        return;
    }
    let ip = slaac::address(prefix, identifier);
    if addresses.contains(&IpAddr::V6(ip)) {
        return;
    }
    list.made.push((ip, most));
    list.regenerate_at = before(lifetimes.0);
    // If the limit `addresses` refuses the address, the next call forgets it, because the port does
    // not have it.
    let _ = stack.add_address(id, tentative(ip, Origin::Temporary, lifetimes));
}

/// `ip` in its network of 64 bits, as an address that is still to be checked.
fn tentative(ip: Ipv6Addr, origin: Origin, (preferred, valid): (Instant, Instant)) -> Address {
    let cidr = Cidr { addr: IpAddr::V6(ip), prefix_len: PREFIX_LEN };
    Address {
        cidr,
        state: AddressState::Tentative,
        origin,
        preferred_until: preferred,
        valid_until: valid,
    }
}
