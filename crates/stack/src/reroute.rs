//! Connections that follow their routes: if the route to the other end is over another port now,
//! segments leave there, from the address that they were from before.
//!
//! Called by: `resolve.rs`, before a connection whose route may have changed sends; `change.rs`,
//! when a port is removed. RFC 1122 sections 3.3.1.4 (another gateway where one failed) and 3.3.4.2
//! (the weak model: an address is the host's, whatever port a packet uses). RFC 4007 section 9:
//! link-local addresses stay on their link. Counter: `tcp_rerouted`.

use core::net::IpAddr;

use device::Offloads;
use inet::select::is_link_scoped;
use tcp::Todo;

use crate::connections::Pcb;
use crate::{PortId, Stack, TcpHandle};

/// Does a device finish all that one with other offloads would have finished? Segments that wait
/// for it are made already.
pub(crate) fn suffices(new: &Offloads, old: &Offloads) -> bool {
    (new.tx_checksum || !old.tx_checksum) && new.tso_max_bytes >= old.tso_max_bytes
}

/// May a connection from `local` go by the port `to` from now on? One that may not stays.
pub(crate) fn is_possible(stack: &Stack, local: IpAddr, from: u16, to: u16) -> bool {
    let offloads = |port| Some(&stack.ports.get(port)?.limits.offloads);
    let Some((new, old)) = offloads(to).zip(offloads(from)) else { return false };
    !is_link_scoped(local) && suffices(new, old)
}

/// It leaves by `to` from now on. Whoever calls it makes a template for that.
#[cold]
pub(crate) fn go(stack: &mut Stack, handle: TcpHandle, to: u16) {
    let Some(pcb) = stack.connections.get_mut(handle) else { return };
    let from = core::mem::replace(&mut pcb.port, to);
    pcb.is_resolved = false;
    if core::mem::take(&mut pcb.blocked) {
        pcb.tcb.todo.set(Todo::OUTPUT);
        if let Some(port) = stack.ports.get_mut(from) {
            port.blocked.retain(|&other| other != handle);
        }
    }
}

impl Stack {
    /// The connections from an address of a port, whatever port they go by.
    #[cold]
    pub(crate) fn connections_from(
        &self,
        id: PortId,
        is_it: impl Fn(IpAddr) -> bool,
    ) -> Vec<TcpHandle> {
        let elsewhere = |ip| self.ports.iter().any(|p| p.id != id && p.local.is_ours(ip));
        let is_from = |pcb: &Pcb| {
            let ip = pcb.key.local().ip();
            pcb.in_table && is_it(ip) && (pcb.port == id.0 || !is_link_scoped(ip) && !elsewhere(ip))
        };
        let all = self.connections.iter();
        all.filter(|(_, pcb)| is_from(pcb)).map(|(handle, _)| handle).collect()
    }
}
