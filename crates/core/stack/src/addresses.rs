//! Our addresses: which ones a host can have, why one is not added, and the state of conflict
//! detection.
//!
//! Called by: the files of this folder: `calls.rs` adds and removes them, `acd.rs` detects
//! conflicts of IPv4 addresses. RFC 4862 section 5.5.4, RFC 5227, RFC 3927.

mod acd;
mod calls;

use core::fmt;
use core::net::{IpAddr, Ipv4Addr};
use std::collections::BTreeMap;

use base::{Cidr, Instant, KeyedHash};
use inet::acd::{Check, Defence};
use inet::{Address, AddressState};

pub(crate) use acd::{expire, heard, in_use};

use crate::local::LocalAddrs;

/// Why an address was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressError {
    /// There is no such port.
    NoPort,
    /// No host can have the address: multicast, broadcast, loopback or in 0.0.0.0/8.
    NotAHost,
    /// The port has as many addresses as the limit `addresses` allows.
    LimitReached,
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AddressError::NoPort => "there is no such port: add one",
            AddressError::NotAHost => {
                "no host can have this address: give one that is not multicast, broadcast, \
                 loopback, unspecified or of 0.0.0.0/8"
            }
            AddressError::LimitReached => {
                "the port has as many addresses as the limit `addresses` allows: remove one, or \
                 raise the limit"
            }
        })
    }
}

impl core::error::Error for AddressError {}

/// Can a host have this address, in a network of its prefix length?
///
/// # Errors
/// [`AddressError::NotAHost`].
pub fn check_address(cidr: Cidr) -> Result<(), AddressError> {
    let network = LocalAddrs::new([cidr].into_iter());
    let is_host = !inet::ip_input::is_martian_source(cidr.addr) && !network.is_group(cidr.addr);
    is_host.then_some(()).ok_or(AddressError::NotAHost)
}

/// Do packets to this network ever leave a host? Packets to 0.0.0.0/8 and 127.0.0.0/8, `::` and
/// `::1` do not, whatever routes there are (RFC 1122 section 3.2.1.3, RFC 4291 section 2.5).
pub fn is_destination(network: Cidr) -> bool {
    match network.addr {
        IpAddr::V4(addr) => network.prefix_len < 8 || !matches!(addr.octets()[0], 0 | 127),
        IpAddr::V6(addr) => {
            network.prefix_len < 128 || !(addr.is_unspecified() || addr.is_loopback())
        }
    }
}

/// One of our addresses, with its port.
type AcdKey = (u16, Ipv4Addr);

/// State of address conflict detection.
#[derive(Default)]
pub(crate) struct Acd {
    checks: BTreeMap<AcdKey, Check>,
    defences: BTreeMap<AcdKey, Defence>,
    /// The search for a link-local address, by port.
    link_local: BTreeMap<u16, LinkLocal>,
    /// Random numbers drawn so far.
    drawn: u64,
}

/// The search for a link-local address on a port.
struct LinkLocal {
    /// The number of the candidate.
    attempt: u64,
    /// Conflicts since an address was last claimed.
    conflicts: u32,
    /// The candidate, or the address once no host objected.
    ip: Option<Ipv4Addr>,
    /// When the next candidate is tried; [`Instant::NEVER`] while there is one.
    next_at: Instant,
}

impl Acd {
    /// When `acd::expire` is due.
    pub(crate) fn next_deadline(&self) -> Instant {
        let checks = self.checks.values().map(Check::due);
        let searches = self.link_local.values().map(|search| search.next_at);
        checks.chain(searches).min().unwrap_or(Instant::NEVER)
    }

    pub(crate) fn forget_port(&mut self, port: u16) {
        self.checks.retain(|key, _| key.0 != port);
        self.defences.retain(|key, _| key.0 != port);
        self.link_local.remove(&port);
    }

    /// Note that an address of ours was added or changed. A tentative address is probed.
    fn added(&mut self, key: AcdKey, address: &Address, now: Instant, secret: &KeyedHash) {
        // If only the network or the lifetimes of an address changed that has just passed its
        // check, its announcements go on.
        self.checks.retain(|&k, check| k != key || address.is_usable() && !check.is_probing());
        if address.state == AddressState::Tentative {
            let random = self.draw(secret);
            self.checks.insert(key, Check::new(now, random));
        }
    }

    /// Note that an address is no longer ours.
    fn removed(&mut self, key: AcdKey) {
        self.checks.remove(&key);
        self.defences.remove(&key);
        if self.link_local.get(&key.0).is_some_and(|search| search.ip == Some(key.1)) {
            self.link_local.remove(&key.0);
        }
    }

    /// Note that nobody objected to an address.
    fn won(&mut self, (port, ip): AcdKey) {
        if let Some(search) = self.link_local.get_mut(&port).filter(|s| s.ip == Some(ip)) {
            search.conflicts = 0;
        }
    }

    fn draw(&mut self, secret: &KeyedHash) -> u64 {
        self.drawn += 1;
        secret.hash([0x6163_6421, self.drawn])
    }
}
