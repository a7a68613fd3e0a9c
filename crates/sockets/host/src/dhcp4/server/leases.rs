//! The addresses that a DHCPv4 server has offered and given, one for each client.
//!
//! Called by: `server.rs`. The table is bounded by `dhcp_leases`. An entry that is no longer in use
//! stays as long as there is room, so that a client gets its address again (RFC 2131 section
//! 4.3.1). Time is looked at when a message comes: the table needs no timer.

use core::net::Ipv4Addr;
use std::collections::BTreeMap;

use base::{Instant, MacAddr};

use super::config::Guest;

/// What an address is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// A client was offered it.
    Offered,
    /// A client has it.
    Given,
    /// A client gave it back.
    Returned,
    /// A client found another host that has it.
    Declined,
}

/// An address in the table.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The client; `None`: a declined address is no client's.
    guest: Option<Guest>,
    pub(super) hardware: MacAddr,
    pub(super) used: Use,
    /// When it may be given to another client.
    pub(super) until: Instant,
}

impl Entry {
    /// Is it not to be given to another client?
    pub(super) fn is_held(&self, now: Instant) -> bool {
        self.used != Use::Returned && self.until > now
    }
}

/// The table.
#[derive(Clone, Debug, Default)]
pub(super) struct Leases {
    entries: BTreeMap<Ipv4Addr, Entry>,
    addresses: BTreeMap<Guest, Ipv4Addr>,
}

impl Leases {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Ipv4Addr, &Entry)> {
        self.entries.iter().map(|(&address, entry)| (address, entry))
    }

    /// The address of a client, and what is known about it.
    pub(super) fn of(&self, guest: &Guest) -> Option<(Ipv4Addr, &Entry)> {
        let &address = self.addresses.get(guest)?;
        Some((address, self.entries.get(&address)?))
    }

    /// Is the address nobody's but perhaps this client's?
    pub(super) fn is_free_for(&self, address: Ipv4Addr, guest: &Guest, now: Instant) -> bool {
        self.entries.get(&address).is_none_or(|entry| {
            !entry.is_held(now) || entry.guest.as_ref().is_some_and(|other| other == guest)
        })
    }

    /// Has the table no entry for the address?
    pub(super) fn is_unknown(&self, address: Ipv4Addr) -> bool {
        !self.entries.contains_key(&address)
    }

    /// The address among `eligible` that was not used for the longest time; if all are in use, the
    /// one whose offer is the oldest.
    pub(super) fn reusable(
        &self,
        now: Instant,
        eligible: impl Fn(Ipv4Addr) -> bool,
    ) -> Option<Ipv4Addr> {
        let may = |&(address, entry): &(Ipv4Addr, &Entry)| {
            eligible(address) && (!entry.is_held(now) || entry.used == Use::Offered)
        };
        let found = self.iter().filter(may);
        let oldest = found.min_by_key(|(_, entry)| (entry.is_held(now), entry.until));
        oldest.map(|(address, _)| address)
    }

    /// Forget an address.
    pub(super) fn forget(&mut self, address: Ipv4Addr) {
        if let Some(Entry { guest: Some(guest), .. }) = self.entries.remove(&address) {
            self.addresses.remove(&guest);
        }
    }

    /// Enter an address for a client, in the place of what was known about both.
    pub(super) fn enter(
        &mut self,
        address: Ipv4Addr,
        guest: Guest,
        hardware: MacAddr,
        used: Use,
        until: Instant,
    ) {
        self.forget(address);
        if let Some(old) = self.addresses.insert(guest.clone(), address) {
            self.entries.remove(&old);
        }
        self.entries.insert(address, Entry { guest: Some(guest), hardware, used, until });
    }

    /// A client gave its address back.
    pub(super) fn give_back(&mut self, address: Ipv4Addr, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&address) {
            (entry.used, entry.until) = (Use::Returned, now);
        }
    }

    /// Another host has the address: no client gets it before `until`.
    pub(super) fn decline(&mut self, address: Ipv4Addr, until: Instant) {
        let Some(entry) = self.entries.get_mut(&address) else { return };
        (entry.used, entry.until) = (Use::Declined, until);
        if let Some(guest) = entry.guest.take() {
            self.addresses.remove(&guest);
        }
    }
}
