//! VRFs: which one a port, a packet or an address of ours belongs to. A port is in one VRF, or in
//! none; its addresses are ours only for packets of that VRF, so two VRFs may have the same.
//!
//! Called by: everything that asks whether an address is ours, and `change.rs`, which moves ports.
//! A packet belongs to the VRF of the port that it came by, a packet of ours to that of its socket.
//! Routes may lead from one VRF to ports of another (leaks): the packet then leaves there, or is
//! ours there. docs/decisions/0149.

use core::net::IpAddr;

use inet::Vrf;

use crate::handles::PortId;
use crate::port::{LOOPBACK, Port};
use crate::stack::Stack;

/// The VRF of a packet from `src` to `dst` that came by port `in_port`, in which answers are
/// routed. A packet that we sent to ourselves is in the first VRF that has its destination, and its
/// source too if possible.
#[inline]
pub(crate) fn of_packet(stack: &Stack, in_port: u16, (src, dst): (IpAddr, IpAddr)) -> Vrf {
    if in_port == LOOPBACK {
        return of_looped(stack, src, dst);
    }
    stack.ports.vrf(in_port)
}

#[cold]
fn of_looped(stack: &Stack, src: IpAddr, dst: IpAddr) -> Vrf {
    let ours = || stack.ports.iter().filter(|port| port.local.is_ours(dst)).map(|port| port.vrf);
    let both = ours().find(|&vrf| stack.has_address_in(src, vrf));
    both.or_else(|| ours().next()).unwrap_or_default()
}

/// Does a socket of a VRF receive a packet to `dst` that came by port `in_port`? A packet that we
/// sent to ourselves belongs to each VRF that has its destination.
#[inline]
pub(crate) fn admits(stack: &Stack, in_port: u16, dst: IpAddr, vrf: Vrf) -> bool {
    match in_port {
        LOOPBACK => stack.is_own_in(dst, vrf),
        _ => stack.ports.vrf(in_port) == vrf,
    }
}

/// The port with an address of ours to which the routes of a VRF lead from another one: the next
/// hop's port is in the VRF of the address.
#[cold]
pub(crate) fn leaked(stack: &Stack, dst: IpAddr, hop_port: u16, from: Vrf) -> Option<PortId> {
    let to = stack.ports.vrf(hop_port);
    let has = |port: &Port| port.local.is_ours(dst) || port.local.is_anycast(dst);
    let has = |port: &&Port| port.vrf == to && has(port);
    stack.ports.iter().find(has).filter(|_| to != from).map(|port| port.id)
}

impl Stack {
    /// The VRF that a port belongs to; [`Vrf::NONE`] also if there is no such port.
    pub fn vrf(&self, id: PortId) -> Vrf {
        self.ports.vrf(id.0)
    }

    /// Give a VRF a name for people. Names of VRFs without ports are forgotten.
    pub fn name_vrf(&mut self, vrf: Vrf, name: &str) {
        let ports = &self.ports;
        self.vrf_names.retain(|known, _| ports.iter().any(|port| port.vrf == *known));
        if ports.iter().any(|port| port.vrf == vrf) && !vrf.is_none() {
            self.vrf_names.insert(vrf, name.into());
        }
    }

    /// The name of a VRF: the one that the program gave it, or `vrf` with its table; `None` for
    /// [`Vrf::NONE`].
    pub fn vrf_name(&self, vrf: Vrf) -> Option<String> {
        let name = || self.vrf_names.get(&vrf).map(|name| name.to_string());
        (!vrf.is_none()).then(|| name().unwrap_or_else(|| format!("vrf{}", vrf.table())))
    }

    /// Is `addr` an address of a port in this VRF?
    pub(crate) fn has_address_in(&self, addr: IpAddr, vrf: Vrf) -> bool {
        self.ports.iter().any(|port| port.vrf == vrf && port.local.is_ours(addr))
    }

    /// May a socket of this VRF have this address, and do its packets to it come back to us?
    pub(crate) fn is_own_in(&self, addr: IpAddr, vrf: Vrf) -> bool {
        addr.is_loopback() || self.has_address_in(addr, vrf)
    }
}
