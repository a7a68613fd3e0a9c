//! Temporary addresses: random, used for a day, kept for another for what still uses them.
//!
//! Called by: `slaac.rs`. RFC 8981 section 3. Limit: `temporary_addresses`.

use core::net::{IpAddr, Ipv6Addr};

use base::{Duration, Instant, Limit};
use inet::Origin;
use inet::slaac::{
    self, DESYNC_MAX, REGENERATE_BEFORE, TEMPORARY_PREFERRED, TEMPORARY_VALID, TRIES_MAX,
};

use super::slaac::tentative;
use crate::{PortId, Stack};

/// The temporary addresses of a prefix.
pub(super) struct Temporaries {
    /// Each with the latest time until which it may be preferred, and valid.
    made: Vec<(Ipv6Addr, (Instant, Instant))>,
    /// When the next is to be made.
    regenerate_at: Instant,
    /// Identifiers in a row that turned out to be another host's.
    duplicates: u8,
}

impl Default for Temporaries {
    fn default() -> Temporaries {
        Temporaries { made: Vec::new(), regenerate_at: Instant::NEVER, duplicates: 0 }
    }
}

impl Temporaries {
    pub(super) fn regenerate_at(&self) -> Instant {
        self.regenerate_at
    }

    /// The latest time until which an address may be preferred, and valid.
    pub(super) fn most(&self, ip: Ipv6Addr) -> (Instant, Instant) {
        let found = self.made.iter().find(|(made, _)| *made == ip);
        found.map_or((Instant::ZERO, Instant::ZERO), |(_, most)| *most)
    }

    /// Lifetimes changed: `preferred_until` has them.
    pub(super) fn reschedule(&mut self, preferred_until: impl Fn(Ipv6Addr) -> Option<Instant>) {
        self.made.retain(|(ip, _)| preferred_until(*ip).is_some());
        let last = self.made.last().and_then(|(ip, _)| preferred_until(*ip));
        if let Some(until) = last {
            self.regenerate_at = before(until);
        }
    }

    /// An address passed.
    pub(super) fn passed(&mut self) {
        self.duplicates = 0;
    }

    /// An address is another host's. `true` if a further one may be tried.
    /// RFC 8981 3.4-d.
    pub(super) fn duplicate(&mut self, ip: Ipv6Addr) -> bool {
        self.made.retain(|(made, _)| *made != ip);
        self.duplicates += 1;
        self.regenerate_at = Instant::NEVER;
        self.duplicates < TRIES_MAX
    }
}

/// So long before an address is deprecated, the next is made.
fn before(until: Instant) -> Instant {
    match until {
        Instant::NEVER => Instant::NEVER,
        until => Instant::ZERO + until.since(Instant::ZERO).saturating_sub(REGENERATE_BEFORE),
    }
}

/// Make a temporary address of a prefix, if the port is to have them.
/// RFC 8981 3.4-b, 3.4-c, 3.5-a.
pub(super) fn make(stack: &mut Stack, id: PortId, prefix: Ipv6Addr) {
    let now = stack.core.cx.now;
    let desync = Duration::from_nanos(super::draw(stack) % DESYNC_MAX.as_nanos());
    let identifier = slaac::random(|_| super::draw(stack));
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
    // Of one that the limit `addresses` refuses nothing is kept for long: it is in no list.
    let _ = stack.add_address(id, tentative(ip, Origin::Temporary, lifetimes));
}
