//! Neighbours' link addresses. Entries are static so far: resolution by ARP and ND fills the same
//! table.
//!
//! Called by: `stack` when a connection gets its header template.

use core::net::IpAddr;
use std::collections::BTreeMap;

use base::{Budget, Limit, MacAddr};

/// Link addresses by port and IP address.
#[derive(Debug, Default)]
pub struct Neighbours {
    entries: BTreeMap<(u16, IpAddr), MacAddr>,
}

impl Neighbours {
    /// Set an entry; `false` when the table is at its limit.
    pub fn set(&mut self, port: u16, ip: IpAddr, mac: MacAddr, budget: &mut Budget) -> bool {
        let known = self.entries.contains_key(&(port, ip));
        if !known && !budget.admits(Limit::Neighbours, self.entries.len()) {
            return false;
        }
        self.entries.insert((port, ip), mac);
        true
    }

    /// The link address of a neighbour on a port.
    pub fn lookup(&self, port: u16, ip: IpAddr) -> Option<MacAddr> {
        self.entries.get(&(port, ip)).copied()
    }

    /// Every entry: port, address, link address.
    pub fn iter(&self) -> impl Iterator<Item = (u16, IpAddr, MacAddr)> {
        self.entries.iter().map(|(&(port, ip), &mac)| (port, ip, mac))
    }

    /// Forget everything about a port that is gone.
    pub fn forget_port(&mut self, port: u16) {
        self.entries.retain(|&(p, _), _| p != port);
    }
}
