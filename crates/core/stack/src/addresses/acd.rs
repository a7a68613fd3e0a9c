//! IPv4 address conflict detection and link-local addresses: a tentative address is probed before
//! it is used, and an address in use is defended.
//!
//! Called by: `poll.rs` when something is due; `arp.rs` with every ARP packet; programs that ask
//! for a link-local address. The times are in `inet/acd.rs`. RFC 5227, RFC 3927 section 2.
//! Counters: `address_conflicts`, `address_probes`; drop reason: `neighbour_conflict`. State is
//! bounded by the limit `addresses` of each port.

use core::net::{IpAddr, Ipv4Addr};

use base::{Cidr, Counter, DropReason, Instant, MacAddr};
use inet::acd::{MAX_CONFLICTS, RATE_LIMIT_INTERVAL, Step, link_local_candidate};
use inet::{Address, AddressState, Origin, nd};
use tcp::Fate;
use wire::arp;

use super::{AcdKey as Key, AddressError, LinkLocal};
use crate::handles::PortId;
use crate::port::Port;
use crate::resolve;
use crate::stack::Stack;

/// Do what is due: send probes and announcements, and try the next link-local candidate.
pub(crate) fn expire(stack: &mut Stack) {
    let now = stack.core.cx.now;
    let due: Vec<Key> =
        stack.acd.checks.iter().filter(|(_, c)| c.due() <= now).map(|(key, _)| *key).collect();
    for key in due {
        let random = stack.acd.draw(&stack.core.secret);
        let Some(check) = stack.acd.checks.get_mut(&key) else { continue };
        let step = check.step(now, random);
        if check.is_done() {
            stack.acd.checks.remove(&key);
        }
        match step {
            Some(Step::Probe) => {
                stack.core.cx.counters.add(Counter::AddressProbes, 1);
                send(stack, key, Ipv4Addr::UNSPECIFIED);
            }
            Some(Step::Use) => {
                won(stack, key);
                send(stack, key, key.1);
            }
            Some(Step::Announce) => send(stack, key, key.1),
            None => {}
        }
    }
    let mut searching: Vec<u16> = Vec::new();
    searching.extend(stack.acd.link_local.iter().filter(|(_, s)| s.next_at <= now).map(|(p, _)| p));
    for port in searching {
        try_next(stack, port);
    }
}

/// Broadcast a request for one of our addresses: a probe if the sender is 0.0.0.0, an announcement
/// if it is the address itself.
/// RFC 5227 2.1.1-b, 2.3-b.
fn send(stack: &mut Stack, (port_id, ip): Key, sender: Ipv4Addr) {
    let Some(port) = stack.ports.get(port_id) else { return };
    let (mac, target) = (port.mac_of(ip.into()), (MacAddr::default(), ip));
    let bytes = nd::arp_output(arp::Operation::Request, (mac, sender), target);
    if let Err(reason) = resolve::send_arp(stack, port_id, MacAddr::BROADCAST, &bytes) {
        stack.core.drops.count(reason);
    }
}

/// Nobody objected to a probed address: use it.
fn won(stack: &mut Stack, (port, ip): Key) {
    if let Some(search) = stack.acd.link_local.get_mut(&port).filter(|s| s.ip == Some(ip)) {
        search.conflicts = 0;
    }
    stack.set_address_state(PortId(port), ip.into(), AddressState::Preferred);
}

/// Process the sender's claim in an ARP packet that came by a port: does the sender have, or want,
/// an address that we are probing for?
///
/// # Errors
/// [`DropReason::NeighbourConflict`]: the sender does, so we do not take the address. RFC 5227
/// 2.1.1-d, 2.1.1-e.
pub(crate) fn heard(stack: &mut Stack, port_id: u16, packet: &[u8]) -> Fate {
    if stack.acd.checks.is_empty() {
        return Ok(());
    }
    let header = arp::Header::parse(packet)?;
    let is_own = |port: &Port| port.mac == header.sender_mac || port.macs.has(header.sender_mac);
    let own = stack.ports.get(port_id).is_some_and(is_own);
    let is_probe = header.sender_ip.is_unspecified() && header.operation == arp::Operation::Request;
    let wanted = if is_probe { header.target_ip } else { header.sender_ip };
    let check = stack.acd.checks.get(&(port_id, wanted)).filter(|check| check.is_probing());
    if own || check.is_none() {
        return Ok(());
    }
    lost(stack, (port_id, wanted));
    Err(DropReason::NeighbourConflict)
}

/// Another host uses `ip`, an address of ours in use: defend the address once. After a second
/// conflict within a short time give it up, unless the user or a program has set it.
/// RFC 5227 2.4-a, 2.4-b, 2.4-c.
pub(crate) fn in_use(stack: &mut Stack, port_id: u16, ip: Ipv4Addr) {
    let key = (port_id, ip);
    let Some(port) = stack.ports.get(port_id) else { return };
    let Some(address) = port.addresses.iter().find(|a| a.ip() == ip) else { return };
    let is_kept = matches!(address.origin, Origin::Static | Origin::Program);
    stack.core.cx.counters.add(Counter::AddressConflicts, 1);
    let now = stack.core.cx.now;
    if stack.acd.defences.entry(key).or_default().conflict(now) {
        send(stack, key, ip);
    } else if !is_kept {
        stack.acd.defences.remove(&key);
        lost(stack, key);
    }
}

/// An address belongs to another host: give it up. The search for a link-local address goes on with
/// the next candidate.
fn lost(stack: &mut Stack, key: Key) {
    let (port, ip) = (PortId(key.0), IpAddr::V4(key.1));
    stack.core.cx.counters.add(Counter::AddressConflicts, 1);
    stack.acd.checks.remove(&key);
    let now = stack.core.cx.now;
    let Some(search) = stack.acd.link_local.get_mut(&key.0).filter(|s| s.ip == Some(key.1)) else {
        return stack.set_address_state(port, ip, AddressState::Duplicated);
    };
    search.ip = None;
    search.conflicts = search.conflicts.saturating_add(1);
    // RFC 3927 2.2.1-b: after ten conflicts, new candidates are tried at a limited rate.
    let is_slow = search.conflicts >= MAX_CONFLICTS;
    search.next_at = if is_slow { now + RATE_LIMIT_INTERVAL } else { now };
    stack.remove_address(port, ip);
    stack.note_address_event(port);
    stack.addresses_changed();
}

/// Probe the next link-local candidate.
/// RFC 3927 2.2.1-a.
fn try_next(stack: &mut Stack, port_id: u16) {
    let Some(port) = stack.ports.get(port_id) else { return };
    let [a, b, c, d, e, f] = port.mac.0;
    let mac = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
    let Some(search) = stack.acd.link_local.get_mut(&port_id) else { return };
    search.attempt += 1;
    // RFC 3927 2.1-b.
    let ip = link_local_candidate(stack.core.secret.hash([0x6c69_6e6b, mac, search.attempt]));
    (search.ip, search.next_at) = (Some(ip), Instant::NEVER);
    let address = Address {
        state: AddressState::Tentative,
        origin: Origin::LinkLocal,
        ..Address::fixed(Cidr { addr: ip.into(), prefix_len: 16 })
    };
    if stack.add_address(PortId(port_id), address).is_err() {
        // There is no room for the address: the search ends. It begins anew when a program asks for
        // an address again.
        stack.acd.link_local.remove(&port_id);
    }
}

impl Stack {
    /// Find an IPv4 link-local address for a port (RFC 3927): candidates drawn from 169.254.0.0/16
    /// are probed until one is free. If another host turns out to use that one, the search goes on.
    /// Without conflicts the address is ours within seven seconds; [`Event::Address`](crate::Event)
    /// reports it.
    ///
    /// # Errors
    /// [`AddressError`].
    pub fn add_link_local_v4(&mut self, id: PortId) -> Result<(), AddressError> {
        self.ports.get(id.0).ok_or(AddressError::NoPort)?;
        if self.acd.link_local.contains_key(&id.0) {
            return Ok(());
        }
        let search = LinkLocal { attempt: 0, conflicts: 0, ip: None, next_at: Instant::NEVER };
        self.acd.link_local.insert(id.0, search);
        try_next(self, id.0);
        match self.acd.link_local.contains_key(&id.0) {
            true => Ok(()),
            false => Err(AddressError::LimitReached),
        }
    }

    /// End what [`Stack::add_link_local_v4`] began; the address, if there is one, is removed.
    pub fn remove_link_local_v4(&mut self, id: PortId) {
        if let Some(ip) = self.acd.link_local.remove(&id.0).and_then(|search| search.ip) {
            self.remove_address(id, ip.into());
        }
    }
}
