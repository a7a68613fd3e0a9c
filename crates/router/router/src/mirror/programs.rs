//! Gives a port the addresses that programs gave its mirror, with the link address that they are
//! advertised with: a virtual router's, which keepalived or FRR's vrrpd moves to the master.
//!
//! Called by: `frames.rs`, with the stacks locked. The first process says which addresses there are
//! (`daemon/mirrors/programs.rs`). They are deprecated (RFC 6724 rule 3), so that what the router
//! sends of its own has its own addresses; nobody is asked whether they are free, because the
//! program moves them. An address that the port has otherwise stays when the program's goes.
//! Neighbours are told by a gratuitous ARP or an advertisement. RFC 9568 sections 6.4.2 and 8.2.
//! docs/decisions/0153-addresses-of-programs.md.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use base::{Cidr, Instant, MacAddr};
use stack::{Address, AddressState, Origin, PortId, Stack};

use super::{OfProgram, PROGRAMS_MAX};
use crate::daemon::report::{info, warning};

/// How a program has an address: the length of its prefix, and a link address.
type How = (u8, Option<MacAddr>);

/// The addresses of programs at one mirror.
#[derive(Default)]
pub(super) struct Programs {
    wanted: BTreeMap<IpAddr, How>,
    /// What the port has of them.
    has: BTreeMap<IpAddr, How>,
    port: Option<PortId>,
    is_new: bool,
}

impl Programs {
    /// The port is to have these, and no others.
    pub(super) fn set(&mut self, addresses: &[OfProgram]) {
        let how = |of: &OfProgram| (of.ip, (of.prefix_len, of.mac.map(MacAddr)));
        self.wanted = addresses.iter().take(PROGRAMS_MAX).map(how).collect();
        self.is_new = true;
    }

    /// Have the port be as was said; it may be another one of the same name.
    pub(super) fn follow(&mut self, name: &str, port: Option<PortId>, stacks: &mut [&mut Stack]) {
        if self.port != port {
            // They went with the port.
            self.has.clear();
            (self.port, self.is_new) = (port, true);
        }
        let (Some(id), Some(first)) = (port, stacks.first()) else { return };
        let count = self.has.len();
        self.has.retain(|ip, _| first.addresses(id).iter().any(|address| address.ip() == *ip));
        if !self.is_new && self.has.len() == count {
            return;
        }
        self.is_new = false;
        let before: BTreeSet<[u8; 6]> = macs(&self.has).chain(macs(&self.wanted)).collect();
        for (&ip, &how) in &self.wanted {
            if self.has.get(&ip) == Some(&how) {
                continue;
            }
            let (len, mac) = how;
            let with = mac.map(|mac| format!(", link address {mac}")).unwrap_or_default();
            match add(stacks, id, ip, how) {
                Ok(()) => {
                    info(&format!("port {name}: {ip}/{len} by a program{with}"));
                    self.has.insert(ip, how);
                }
                Err(why) => warning(&format!("port {name}: {ip}/{len} of a program{with}: {why}")),
            }
        }
        for (ip, _) in self.has.extract_if(.., |ip, _| !self.wanted.contains_key(ip)) {
            info(&format!("port {name}: {ip} of a program removed"));
            stacks.first_mut().into_iter().for_each(|stack| remove(stack, id, ip));
        }
        let now: BTreeSet<[u8; 6]> = macs(&self.has).collect();
        for stack in stacks.iter_mut() {
            before.difference(&now).for_each(|mac| _ = stack.remove_port_mac(id, MacAddr(*mac)));
            stack.flush();
        }
    }
}

/// The further link addresses of addresses.
fn macs(of: &BTreeMap<IpAddr, How>) -> impl Iterator<Item = [u8; 6]> {
    of.values().filter_map(|(_, mac)| mac.map(|mac| mac.0))
}

/// Add an address, or change it.
///
/// # Errors
/// Why the port cannot have it, and what to do.
fn add(
    stacks: &mut [&mut Stack],
    id: PortId,
    ip: IpAddr,
    (prefix_len, mac): How,
) -> Result<(), String> {
    for stack in stacks.iter_mut() {
        if let Some(mac) = mac {
            stack.add_port_mac(id, mac).map_err(|why| why.to_string())?;
        }
    }
    let Some(stack) = stacks.first_mut() else { return Ok(()) };
    let is_otherwise = |a: &Address| a.ip() == ip && a.origin != Origin::Program;
    if !stack.addresses(id).iter().any(is_otherwise) {
        let address = Address {
            state: AddressState::Deprecated,
            origin: Origin::Program,
            preferred_until: Instant::ZERO,
            ..Address::fixed(Cidr { addr: ip, prefix_len })
        };
        stack.add_address(id, address).map_err(|why| why.to_string())?;
    }
    stack.set_address_mac(id, ip, mac).map_err(|why| why.to_string())
}

fn remove(stack: &mut Stack, id: PortId, ip: IpAddr) {
    let origin = stack.addresses(id).iter().find(|a| a.ip() == ip).map(|a| a.origin);
    match origin {
        Some(Origin::Program) => _ = stack.remove_address(id, ip),
        // The port's own has its own link address again.
        Some(_) => drop(stack.set_address_mac(id, ip, None)),
        None => {}
    }
}

#[cfg(test)]
mod tests;
