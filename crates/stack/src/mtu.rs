//! How large a packet may be: what a port receives is one number, what it sends to each neighbour
//! may be another, up to 65,535 bytes.
//!
//! Called by: `resolve::route` for every connection and datagram, `frag/output.rs` for what waited
//! for a link address, programs. What is learnt of the path behind the neighbour is in
//! `path_mtu.rs`. RFC 1122 section 3.3.2 (EMTU_R, EMTU_S), RFC 8200 section 5. Limit:
//! `neighbour_mtus`.

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use std::collections::BTreeMap;

use base::{Limit, Mtu};
use inet::neighbour::Key;
use inet::{NextHop, Sender};

use crate::{PortId, Stack, addresses};

/// Why the MTU of a neighbour was not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MtuError {
    /// There is no such port.
    NoPort,
    /// Less than every IPv6 link carries.
    BelowMinimum,
    /// There are as many as the limit `neighbour_mtus` allows.
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
    /// What was set for a neighbour.
    #[inline]
    pub(crate) fn get(&self, key: &Key) -> Option<Mtu> {
        if self.entries.is_empty() { None } else { self.entries.get(key).copied() }
    }

    pub(crate) fn forget_port(&mut self, port: u16) {
        self.entries.retain(|&(p, _), _| p != port);
    }
}

/// The largest packet that leaves by `hop`: the least of what the port, the route and the neighbour
/// take. `None` if the port is gone.
pub(crate) fn of_hop(stack: &Stack, hop: &NextHop) -> Option<Mtu> {
    let port = stack.ports.get(hop.port)?;
    let neighbour = stack.neighbour_mtus.get(&(hop.port, hop.neighbour));
    // A route from the network may name less than an IPv6 link can have.
    let least = if hop.neighbour.is_ipv4() { Mtu::MIN_V4 } else { Mtu::MIN_V6 };
    let route = hop.mtu.map_or(Mtu::MAX, |mtu| mtu.max(least));
    Some(port.limits.mtu.min(route).min(neighbour.unwrap_or(Mtu::MAX)))
}

/// [`of_hop`] for a packet whose neighbour is known, from `src` to `dst`.
pub(crate) fn of_neighbour(stack: &Stack, (port, neighbour): Key, src: IpAddr, dst: IpAddr) -> Mtu {
    let remote = SocketAddr::new(dst, 0);
    let hop = addresses::next_hop(stack, Some(src), remote, Sender::Program).ok();
    let mtu = match hop.filter(|hop| (hop.port, hop.neighbour) == (port, neighbour)) {
        Some(hop) => hop.mtu,
        // Its sender may have another route than the program has.
        None if stack.routes.has_policy() => stack.routes.mtu_over(dst, port, neighbour),
        None => None,
    };
    let hop = NextHop { port, neighbour, mtu };
    of_hop(stack, &hop).unwrap_or(Mtu::MIN_V4)
}

impl Stack {
    /// Set the largest packet to send to a neighbour: its own MTU, where hosts with several share a
    /// link; `None` for what the port takes. It bounds packets that the neighbour forwards, too,
    /// and needs no link address yet. Open connections follow. What the port receives, and offers
    /// to receive, does not change.
    ///
    /// # Errors
    /// [`MtuError`].
    pub fn set_neighbour_mtu(
        &mut self,
        port: PortId,
        ip: IpAddr,
        mtu: Option<Mtu>,
    ) -> Result<(), MtuError> {
        if self.ports.get(port.0).is_none() {
            return Err(MtuError::NoPort);
        }
        if ip.is_ipv6() && mtu.is_some_and(|mtu| mtu < Mtu::MIN_V6) {
            return Err(MtuError::BelowMinimum);
        }
        let key = (port.0, ip);
        let entries = &mut self.neighbour_mtus.entries;
        if let Some(mtu) = mtu {
            let budget = &mut self.core.cx.budget;
            if !entries.contains_key(&key) && !budget.admits(Limit::NeighbourMtus, entries.len()) {
                return Err(MtuError::LimitReached);
            }
            entries.insert(key, mtu);
        } else {
            entries.remove(&key);
        }
        self.path_mtus.note_change();
        Ok(())
    }

    /// The largest packet that is sent to a neighbour, as far as port and neighbour are concerned;
    /// `None` if there is no such port.
    pub fn neighbour_mtu(&self, port: PortId, ip: IpAddr) -> Option<Mtu> {
        of_hop(self, &NextHop { port: port.0, neighbour: ip, mtu: None })
    }

    /// The largest packet that is sent to `remote` now: the least of what the port, the route, the
    /// neighbour and the path take. `None` if nothing can be sent there.
    pub fn mtu_towards(&self, remote: SocketAddr) -> Option<Mtu> {
        let hop = addresses::next_hop(self, None, remote, Sender::Program).ok()?;
        let link = of_hop(self, &hop)?;
        Some(self.path_mtus.mtu(remote.ip(), link, self.core.cx.now))
    }
}
