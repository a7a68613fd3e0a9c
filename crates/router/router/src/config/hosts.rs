//! `[[neighbour]]` and `[[gap]]`, the sections about hosts: their keys, the errors in them, their
//! words in the log, and how each takes effect.
//!
//! Called by: `config.rs`, and `plan.rs` when one changes. docs/decisions/0068-gaps.md, 0074.

use core::net::IpAddr;
use std::collections::BTreeMap;

use base::{Duration, MacAddr, Mtu};

use super::file::{Once, Section};
use super::port::{self, Port};
use super::setting::{Change, Prefix, Stacks, cidr, first, prefix};
use crate::applied::ports::State;

/// The port and the address of a neighbour.
pub type NeighbourKey = (String, IpAddr);

/// Settings of a neighbour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Neighbour {
    /// Its link address; `None`: ARP or neighbour discovery finds it.
    pub mac: Option<MacAddr>,
    /// The largest packet to send to it; `None`: that of the port.
    pub mtu: Option<Mtu>,
}

/// `[[neighbour]]`.
pub(super) fn neighbours(
    file: &Section<'_>,
    ports: &BTreeMap<String, Port>,
) -> BTreeMap<NeighbourKey, Neighbour> {
    let (mut neighbours, mut once) = (BTreeMap::new(), Once::default());
    for section in file.many("neighbour", "[[neighbour]]") {
        section.needed("port", "\"lan\"");
        section.needed("address", "\"192.0.2.9\"");
        let port = port::named(&section, "port", ports);
        let addr: Option<IpAddr> = section.parsed("address", "192.0.2.9");
        let neighbour = Neighbour { mac: section.mac(), mtu: section.mtu() };
        if !section.has("mac") && !section.has("mtu") {
            let what = "nothing is said about the neighbour: add mac, mtu or both";
            section.log.note(section.at, what);
        }
        let (Some(port), Some(addr)) = (port, addr) else { continue };
        if ports.values().any(|port| port.addresses.contains_key(&addr)) {
            section.note("address", format!("{addr} is an address of ours: give a neighbour's"));
        }
        if neighbour.mac.is_some_and(MacAddr::is_group) {
            section.note("mac", "a neighbour cannot have a group address: give its own");
        }
        if addr.is_ipv6() && neighbour.mtu.is_some_and(|mtu| mtu < Mtu::MIN_V6) {
            let what = "every IPv6 link carries 1280 bytes (RFC 8200 section 5): raise mtu";
            section.note("mtu", what);
        }
        let key = (port, addr);
        if once.is_first(key.clone(), section.at("address"), "this neighbour", section.log) {
            neighbours.insert(key, neighbour);
        }
    }
    neighbours
}

/// The words of the log for a neighbour.
pub(crate) fn neighbour_words((port, ip): &NeighbourKey, now: Option<&Neighbour>) -> String {
    let mut words = format!("neighbour {ip} of port {port}:");
    let Some(Neighbour { mac, mtu }) = now else { return words + " removed" };
    words.extend(mac.map(|mac| format!(" at {mac}")));
    words.extend(mtu.map(|mtu| format!(" mtu {}", mtu.bytes())));
    words
}

/// Set link address and MTU of a neighbour in the stacks.
pub(crate) fn set_neighbour(
    (port, ip): &NeighbourKey,
    change: &Change<Neighbour>,
    state: &State,
    stacks: Stacks<'_, '_>,
) -> Result<(), String> {
    let id = state.port(port)?.id;
    let (was, now) = (change.was.unwrap_or_default(), change.now.unwrap_or_default());
    if now.mtu != was.mtu {
        let mut all = stacks.iter_mut().map(|stack| stack.set_neighbour_mtu(id, *ip, now.mtu));
        all.try_for_each(|set| set.map_err(|why| why.to_string()))?;
    }
    let stack = first(stacks);
    match now.mac {
        Some(mac) if now.mac != was.mac && !stack.add_neighbour(id, *ip, mac) => {
            Err("the table is full: raise limit neighbours".to_owned())
        }
        None if was.mac.is_some() => {
            stack.remove_neighbour(id, *ip);
            Ok(())
        }
        Some(_) | None => Ok(()),
    }
}

/// `[[gap]]`: the least time between two frames to each host of a network.
pub(super) fn gaps(file: &Section<'_>, shards: usize) -> BTreeMap<Prefix, Duration> {
    let (mut gaps, mut once) = (BTreeMap::new(), Once::default());
    for section in file.many("gap", "[[gap]]") {
        section.needed("to", "\"192.0.2.0/24\"");
        section.needed("microseconds", "60");
        let to = section.network("to", "192.0.2.0/24");
        let us = section.number("microseconds", 0..=1_000_000);
        let (Some(to), Some(us)) = (to, us) else { continue };
        if shards > 1 {
            let what = "each shard would keep a gap of its own: remove it, or write shards = 1";
            section.note("to", what);
        }
        if once.is_first(prefix(to), section.at("to"), "the gap of this network", section.log) {
            gaps.insert(prefix(to), Duration::from_micros(us));
        }
    }
    gaps
}

/// The words of the log for a gap.
pub(crate) fn gap_words(to: Prefix, now: Option<&Duration>) -> String {
    match now {
        Some(gap) => format!("gap to {}: {} us", cidr(to), gap.as_micros()),
        None => format!("gap to {}: removed", cidr(to)),
    }
}

/// Set the gap of datagrams to a network, or remove it.
pub(crate) fn set_gap(
    to: Prefix,
    change: &Change<Duration>,
    stacks: Stacks<'_, '_>,
) -> Result<(), String> {
    if stacks.len() > 1 && change.now.is_some() {
        return Err("each shard would keep a gap of its own: run one shard".to_owned());
    }
    first(stacks).set_burst_gap(cidr(to), change.now).map_err(|why| why.to_string())
}
