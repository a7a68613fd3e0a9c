//! `[pair]`: the partner that has copies of this router's states, and the other way round. The
//! session is `pair.rs`.
//!
//! Called by: `config.rs`, and `plan.rs` when it changes. docs/router.md, docs/decisions/0151.

use core::net::{IpAddr, SocketAddr};
use std::collections::BTreeMap;

use statesync::Key;

use super::file::Section;
use super::port::Port;
use crate::machine::Machine;

/// The partner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The address of this router that datagrams come to and leave from.
    pub local: IpAddr,
    /// The partner's address.
    pub peer: IpAddr,
    /// The UDP port of both.
    pub port: u16,
    /// The key of both.
    pub key: Key,
}

impl Pair {
    /// This router's end.
    pub(crate) fn near(&self) -> SocketAddr {
        SocketAddr::new(self.local, self.port)
    }

    /// The partner's end.
    pub(crate) fn far(&self) -> SocketAddr {
        SocketAddr::new(self.peer, self.port)
    }
}

/// How a key is made; `path` is the file's.
fn recipe(path: &str) -> String {
    format!(
        "make one with `(umask 077; head -c 32 /dev/urandom | base64 > {path})` and copy it to \
         the partner"
    )
}

/// `[pair]`. The states are those of rules.
pub(super) fn read(
    file: &Section<'_>,
    ports: &BTreeMap<String, Port>,
    (has_rules, shards): (bool, usize),
    machine: &mut Machine,
) -> Option<Pair> {
    let section = file.one("pair", "[pair]")?;
    section.needed("local", "\"10.9.0.1\"");
    section.needed("peer", "\"10.9.0.2\"");
    section.needed("key", "\"/etc/wirespeed/pair.key\"");
    if !has_rules {
        let what = "a pair has the states of [filter] and [nat]: add one, or remove [pair]";
        section.log.note(section.at, what);
    }
    if shards > 1 {
        let what = "a pair has one shard: remove shards, or [pair]";
        section.log.note(section.at, what);
    }
    let local: Option<IpAddr> = section.parsed("local", "10.9.0.1");
    let peer: Option<IpAddr> = section.parsed("peer", "10.9.0.2");
    let port = section.number("port", 1..=usize::from(u16::MAX)).unwrap_or(statesync::PORT);
    let name = section.text("key");
    let key = name.and_then(|name| key(name, machine).map_err(|why| section.note("key", why)).ok());
    let (local, peer) = (local?, peer?);
    let is_host = |addr: IpAddr| !addr.is_unspecified() && !addr.is_multicast();
    if !is_host(peer) || local.is_ipv4() != peer.is_ipv4() || local == peer {
        section
            .note("peer", format!("the partner of {local} is another host of its version of IP"));
        return None;
    }
    let has_addresses = |port: &Port| port.addresses.contains_key(&local);
    if !ports.values().any(has_addresses) {
        let what = format!("{local} is no address of a port: write it under addresses of one");
        section.note("local", what);
    }
    Some(Pair { local, peer, port, key: key? })
}

/// The key in a file that nobody else may read.
fn key(name: &str, machine: &mut Machine) -> Result<Key, String> {
    let text = machine.secret(name).map_err(|why| format!("{why}; {}", recipe(name)))?;
    Key::of_text(&text).ok_or_else(|| {
        format!("{name} has no key, which is 32 bytes in hexadecimal or base64: {}", recipe(name))
    })
}

/// The words of the log for a change.
pub(crate) fn words(now: Option<&Pair>) -> String {
    match now {
        Some(pair) => format!("pair: with {} from {}", pair.far(), pair.local),
        None => "pair: removed".to_owned(),
    }
}

#[cfg(test)]
mod tests;
