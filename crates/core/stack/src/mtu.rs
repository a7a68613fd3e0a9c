//! How large a packet may be. A port has one limit for packets that it receives, and may have
//! another limit for each neighbour that it sends to, up to 65,535 bytes. Also the learnt MTUs of
//! paths, by destination.
//!
//! Called by: `resolve::route` for every connection and datagram, `frag/output.rs` for packets that
//! waited for a link address; `reroute.rs`, which learns. RFC 1122 section 3.3.2 (EMTU_R, EMTU_S),
//! RFC 8200 section 5, RFC 1191 sections 5 and 6.3. Limits: `neighbour_mtus`, `path_mtus`.

use core::fmt;
use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use base::{Budget, Duration, Instant, Limit, Mtu};
use inet::NextHop;
use inet::neighbour::Key;
use tcp::path;

use crate::port::Ports;

/// Why the MTU of a neighbour was not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MtuError {
    /// There is no such port.
    NoPort,
    /// Less than every IPv6 link carries.
    BelowMinimum,
    /// As many neighbours have an MTU as the limit `neighbour_mtus` allows.
    LimitReached,
}

impl fmt::Display for MtuError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MtuError::NoPort => "there is no such port: add one",
            MtuError::BelowMinimum => {
                "every IPv6 link carries 1280 bytes (RFC 8200 section 5): set 1280 or more"
            }
            MtuError::LimitReached => {
                "as many neighbours have an MTU as the limit `neighbour_mtus` allows: unset one, \
                 or raise the limit"
            }
        })
    }
}

impl core::error::Error for MtuError {}

/// The MTUs that were set, by neighbour. They stay when the neighbour's link address is forgotten.
#[derive(Default)]
pub(crate) struct NeighbourMtus {
    entries: BTreeMap<Key, Mtu>,
}

impl NeighbourMtus {
    /// The MTU that was set for a neighbour.
    #[inline]
    pub(crate) fn get(&self, key: &Key) -> Option<Mtu> {
        if self.entries.is_empty() { None } else { self.entries.get(key).copied() }
    }

    /// The largest packet that leaves by `hop`: the minimum of what the port, the route and the
    /// neighbour carry. `None` if the port was removed.
    pub(crate) fn of_hop(&self, ports: &Ports, hop: &NextHop) -> Option<Mtu> {
        let port = ports.get(hop.port)?;
        let neighbour = self.get(&(hop.port, hop.neighbour));
        let route = hop.mtu.unwrap_or(Mtu::MAX);
        Some(port.limits.mtu.min(route).min(neighbour.unwrap_or(Mtu::MAX)))
    }

    /// Set or remove the MTU of a neighbour.
    ///
    /// # Errors
    /// [`MtuError::LimitReached`].
    pub(crate) fn set(
        &mut self,
        key: Key,
        mtu: Option<Mtu>,
        budget: &mut Budget,
    ) -> Result<(), MtuError> {
        let Some(mtu) = mtu else {
            self.entries.remove(&key);
            return Ok(());
        };
        let used = self.entries.len();
        if !self.entries.contains_key(&key) && !budget.admits(Limit::NeighbourMtus, used) {
            return Err(MtuError::LimitReached);
        }
        self.entries.insert(key, mtu);
        Ok(())
    }

    pub(crate) fn forget_port(&mut self, port: u16) {
        self.entries.retain(|&(p, _), _| p != port);
    }
}

/// How long a learnt MTU is used. Paths change, so afterwards a larger one may be tried. RFC 1191
/// section 6.3 and RFC 8201 section 4 advise 10 minutes.
const LIFE: Duration = path::LIFE;

#[derive(Clone, Copy)]
struct Known {
    mtu: Mtu,
    expires: Instant,
}

/// The paths whose MTU was learnt.
#[derive(Default)]
pub(crate) struct PathMtus {
    // Remote hosts choose the keys. No choice of keys slows down a tree.
    entries: BTreeMap<IpAddr, Known>,
    /// The destinations in the order in which their entries expire.
    order: BTreeSet<(Instant, IpAddr)>,
    changes: u64,
}

impl PathMtus {
    /// A count that grows with every change. A result that was looked up before a change has to be
    /// looked up again.
    #[inline(always)]
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Note that addresses or routes changed, so that paths may have changed.
    pub(crate) fn note_change(&mut self) {
        self.changes += 1;
    }

    /// The number of destinations.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        debug_assert_eq!(self.entries.len(), self.order.len());
        self.entries.len()
    }

    /// The largest packet to send to `dst` over a link whose MTU is `link`.
    pub(crate) fn mtu(&self, dst: IpAddr, link: Mtu, now: Instant) -> Mtu {
        self.known(dst, now).map_or(link, |(mtu, _)| mtu.min(link))
    }

    /// The known MTU of the path to `dst`, and when that knowledge expires.
    pub(crate) fn known(&self, dst: IpAddr, now: Instant) -> Option<(Mtu, Instant)> {
        let entry = self.entries.get(&dst).filter(|entry| entry.expires > now)?;
        Some((entry.mtu, entry.expires))
    }

    /// Record that the path to `dst` carries at most `mtu` bytes, as far as is known. At the limit
    /// the oldest entry is removed; if its path is used, its MTU is learnt again.
    pub(crate) fn learn(&mut self, dst: IpAddr, mtu: Mtu, now: Instant, budget: &mut Budget) {
        self.forget_old(now);
        if let Some(known) = self.entries.remove(&dst) {
            self.order.remove(&(known.expires, dst));
        } else if !budget.admits(Limit::PathMtus, self.entries.len()) {
            let Some((_, oldest)) = self.order.pop_first() else { return };
            self.entries.remove(&oldest);
        }
        let expires = now + LIFE;
        self.entries.insert(dst, Known { mtu, expires });
        self.order.insert((expires, dst));
        self.changes += 1;
    }

    fn forget_old(&mut self, now: Instant) {
        while let Some(&(expires, dst)) = self.order.first()
            && expires <= now
        {
            self.order.pop_first();
            self.entries.remove(&dst);
        }
    }
}
