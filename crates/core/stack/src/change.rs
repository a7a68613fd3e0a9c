//! Adds, removes, replaces and watches ports while the stack runs. When a device is gone, its
//! connections fail at once with the device's reason, not after a time-out.
//!
//! Called by: programs, `net`. Nothing here is on the packet path.

use core::net::IpAddr;
use std::sync::Arc;

use base::{Counter, DropReason, IpVersion, Mss, WallTime};
use bpf::Tap;
use device::Device;
use inet::{Route, RouteOrigin, Vrf};
use tcp::path;

use crate::config::PortConfig;
use crate::handles::{PortId, TcpHandle};
use crate::next_hop::{next_hop, scoped};
use crate::port::{self, ReplaceError};
use crate::stack::Stack;
use crate::taps::TapId;
use crate::{groups, neighbours, reroute, tx};

impl Stack {
    /// Add a port; the networks of its addresses become routes. Returns the port's number, which
    /// may have been that of a port that was removed.
    pub fn add_port(&mut self, device: Box<dyn Device>, config: PortConfig) -> PortId {
        let id = self.ports.add(device, &config);
        for &cidr in &config.addresses {
            self.add_route(Route::new(cidr, None, id.0).with_origin(RouteOrigin::Connected));
        }
        self.ports.share_broadcasts();
        groups::addresses_changed(self, id);
        id
    }

    /// Put a port into a VRF, or out of one ([`Vrf::NONE`]). The networks of its addresses, and the
    /// routes that it learnt, move to the VRF's table; routes that the program set stay where they
    /// are. Connections from its addresses fail with [`tcp::Error::NetworkDown`]. The port's
    /// packets, and those of sockets in the VRF ([`crate::IpSettings::vrf`]), are looked up there.
    /// `false`, and nothing changes, if there is no such port or no room for another table, or on
    /// another shard than the first.
    pub fn set_vrf(&mut self, id: PortId, vrf: Vrf) -> bool {
        let Some(old) = self.ports.get(id.0).map(|port| port.vrf) else { return false };
        if old == vrf {
            return true;
        }
        let is_moved = |r: &Route| {
            let is_of_port = r.origin != RouteOrigin::Static && !r.origin.is_of_daemon();
            r.port == id.0 && r.table == old.table() && is_of_port
        };
        let table = vrf.table();
        if self.is_follower() || !self.routes.has_room_for(table) {
            return false;
        }
        let moved: Vec<Route> = self.routes.iter().filter(|r| is_moved(r)).collect();
        self.routes.remove(is_moved);
        for route in moved {
            self.routes.add(Route { table, ..route });
        }
        self.moved_to_vrf(id, vrf);
        true
    }

    /// A port is in another VRF now: its addresses are no longer ours in the old one.
    pub(crate) fn moved_to_vrf(&mut self, id: PortId, vrf: Vrf) {
        self.ports.note_failure(id, Arc::from("its port was moved to another VRF"));
        let addresses = self.ports.get(id.0).map(|port| port.local.clone()).unwrap_or_default();
        let from_it = self.connections_from(id, |ip| addresses.is_ours(ip));
        self.ports.set_vrf(id.0, vrf);
        for handle in from_it {
            self.fail_connection_of(id, handle);
        }
        self.addresses_changed();
        tx::output(self);
    }

    /// Remove a port with its routes and neighbours, and take its device back; connections from its
    /// addresses fail with [`tcp::Error::NetworkDown`]. So do other connections that leave by it,
    /// if they have no route over another port.
    pub fn remove_port(&mut self, id: PortId) -> Option<Box<dyn Device>> {
        let addrs: Vec<IpAddr> =
            self.ports.get(id.0)?.addresses.iter().map(inet::Address::ip).collect();
        self.fail_connections_of_removed(id);
        self.forget_waiting(id);
        let device = self.ports.remove(id)?;
        self.ports.share_broadcasts();
        self.groups.forget_port(id.0);
        self.neighbour_mtus.forget_port(id.0);
        self.acd.forget_port(id.0);
        self.neighbours.forget_port(id.0);
        self.autoconf.forget_port(id);
        self.refused_routes.forget_port(id);
        self.frags.forget_port(id.0, &mut self.core.drops);
        self.set_punt(id, false);
        neighbours::act(self);
        self.addresses_changed();
        for addr in addrs {
            self.translations_gone(addr);
        }
        Some(device)
    }

    /// Give a port another device of the same link kind, and take the old one back. Addresses,
    /// routes, neighbours, groups and taps stay; the groups are reported anew. Connections that
    /// have not failed go on, with smaller segments if the new device's MTU is smaller. In that
    /// case connections that are not open yet, whose MSS is being agreed, fail with
    /// [`tcp::Error::NetworkDown`]. All connections fail if the new device lacks an offload that
    /// the old one had.
    ///
    /// # Errors
    /// The reason why the port cannot have the device, and the device.
    pub fn replace_port(
        &mut self,
        id: PortId,
        device: Box<dyn Device>,
    ) -> Result<Box<dyn Device>, (ReplaceError, Box<dyn Device>)> {
        let limits = device.limits();
        let port = match self.suits(id, &*device) {
            Ok(port) => port,
            Err(why) => return Err((why, device)),
        };
        let fits = reroute::suffices(&limits.offloads, &port.limits.offloads);
        let narrower = limits.mtu.bytes() < port.limits.mtu.bytes();
        self.fail_gone_ports();
        if !fits {
            self.fail_connections(id, "its port's new device lacks an offload of the old one");
        }
        self.forget_waiting(id);
        let old = self.ports.replace(id, device, &mut self.core.cx.pool);
        if narrower {
            self.narrow_connections(id);
        } else {
            // Connections that an earlier device narrowed look up their path again.
            self.path_mtus.note_change();
        }
        groups::rejoin(self, id);
        // Connections whose frames the old device pushed back continue at once.
        tx::resume_blocked(self);
        tx::run(self);
        old
    }

    /// Fail the connections of ports whose device is gone. [`Stack::poll`] does this whenever it
    /// finds nothing else to do.
    pub fn fail_gone_ports(&mut self) {
        while let Some((id, why)) = self.ports.next_gone() {
            self.fail_connections(id, &why);
            self.forget_waiting(id);
        }
    }

    /// Discard frames whose departure time has not come: there is no device that could send them.
    /// Connections that go on retransmit their segments.
    #[cold]
    fn forget_waiting(&mut self, id: PortId) {
        let core = &mut self.core;
        let mut count = self.release.forget_port(id.0, &mut core.cx.pool);
        count += self.pace.forget_port(id.0, &mut core.cx.pool);
        if let Some(port) = self.ports.get_mut(id.0) {
            count += port.drop_held(&mut core.cx.pool);
        }
        (0..count).for_each(|_| core.drops.count(DropReason::TxNoPort));
    }

    /// The last reason that a port's device gave why its connections failed, or why no frame
    /// passes.
    pub fn port_failure(&self, id: PortId) -> Option<&str> {
        self.ports.failure(id)
    }

    /// Why a connection failed with [`tcp::Error::NetworkDown`]: a sentence with the reason and
    /// what to do.
    pub fn tcp_failure(&self, handle: TcpHandle) -> Option<&str> {
        let pcb = self.connections.get(handle)?;
        pcb.tcb.error.filter(|e| *e == tcp::Error::NetworkDown)?;
        self.ports.failure(PortId(pcb.port))
    }

    /// Why no frames pass a port now and what to do, as a sentence: the reason that the device
    /// gives, or that the device has taken none of the offered frames for more than five seconds.
    /// `None` if frames pass, as far as is known, or if there is no such port.
    pub fn port_trouble(&self, id: PortId) -> Option<String> {
        self.ports.get(id.0)?.trouble(self.core.cx.now)
    }

    /// Give a port a name for people to read. `false`, and nothing changes, if there is no such
    /// port or another port has the name.
    pub fn set_port_name(&mut self, id: PortId, name: &str) -> bool {
        let is_other = self.ports.iter().any(|port| port.id != id && *port.name == *name);
        let Some(port) = self.ports.get_mut(id.0).filter(|_| !is_other) else { return false };
        port.name = name.into();
        true
    }

    /// The name of a port: the one that the program set, or `port` with its number.
    pub fn port_name(&self, id: PortId) -> String {
        match self.ports.get(id.0).map(|port| &*port.name) {
            Some("") | None => format!("port{}", id.0),
            Some(name) => name.to_owned(),
        }
    }

    /// The numbers of all ports.
    pub fn port_ids(&self) -> Vec<PortId> {
        self.ports.iter().map(|port| port.id).collect()
    }

    /// Returns the port if it can have this device.
    ///
    /// # Errors
    /// The reason why the port cannot have the device.
    pub(crate) fn suits(
        &self,
        id: PortId,
        device: &dyn Device,
    ) -> Result<&port::Port, ReplaceError> {
        let port = self.ports.get(id.0).ok_or(ReplaceError::NoPort)?;
        if port.limits.link != device.limits().link {
            return Err(ReplaceError::OtherLink);
        }
        port::admits(device, port.moderation.setting()).map_err(ReplaceError::Mitigation)?;
        Ok(port)
    }

    /// A port is removed: remove its routes, and fail connections that depend on it or on its
    /// addresses.
    #[cold]
    fn fail_connections_of_removed(&mut self, id: PortId) {
        self.ports.note_failure(id, Arc::from("its port was removed from the stack"));
        let addresses = self.ports.get(id.0).map(|port| port.local.clone()).unwrap_or_default();
        for handle in self.connections_from(id, |ip| addresses.is_ours(ip)) {
            self.fail_connection_of(id, handle);
        }
        self.routes.forget_port(id.0);
        for handle in self.connections.of_port(id.0) {
            reroute::refresh(self, handle);
            if self.connections.get(handle).is_some_and(|pcb| pcb.port == id.0) {
                self.fail_connection(handle);
            }
            self.connections.mark_dirty(handle);
        }
        tx::output(self);
    }

    #[cold]
    fn fail_connections(&mut self, id: PortId, why: &str) {
        self.ports.note_failure(id, Arc::from(why));
        for handle in self.connections.of_port(id.0) {
            self.fail_connection(handle);
        }
        // Report the events of these connections, and remove orphans.
        tx::output(self);
    }

    /// A port's frames are smaller from now on: segments in flight that would no longer fit are
    /// sent again in parts, as on a path that turned out to be narrower.
    #[cold]
    fn narrow_connections(&mut self, id: PortId) {
        let why = "its port got a device with smaller frames during the handshake: try again";
        for handle in self.connections.of_port(id.0) {
            let Some(pcb) = self.connections.get_mut(handle) else { continue };
            if !pcb.tcb.state.is_synchronised() {
                self.ports.note_failure(id, Arc::from(why));
                self.fail_connection(handle);
                continue;
            }
            let remote = pcb.key.remote();
            let (owner, by) = (pcb.owner.clone(), pcb.by);
            let sender = inet::Sender::Socket { owner: &owner, by };
            let (src, version) = (pcb.key.local().ip(), IpVersion::of(&remote.ip()));
            let remote = scoped(remote, id.0);
            let hop = next_hop(self, Some(src), remote, sender).ok();
            let hop = hop.filter(|hop| hop.port == id.0);
            let link = hop.and_then(|hop| self.neighbour_mtus.of_hop(&self.ports, &hop));
            // Without a route the port's MTU counts.
            let link = link.or_else(|| Some(self.ports.get(id.0)?.limits.mtu));
            let Some((mtu, pcb)) = link.zip(self.connections.get_mut(handle)) else { continue };
            let mss = Mss::for_mtu(mtu, version);
            if path::link_carries(&mut pcb.tcb, mss, self.core.cx.now) {
                self.core.cx.counters.add(Counter::PathMtuLowered, 1);
            }
            self.connections.mark_dirty(handle);
        }
    }

    /// Begin to capture a port's packets. `wall` is the time of day at the time that the stack was
    /// last given. `None` if there is no such port.
    pub fn add_tap(&mut self, port: PortId, tap: Tap, wall: WallTime) -> Option<TapId> {
        let wall_ahead_ns = wall.0.wrapping_sub(self.now().as_nanos());
        let port = self.ports.get_mut(port.0)?;
        let id = TapId::of_number(self.next_tap);
        self.next_tap += 1;
        port.taps.add(id, tap, wall_ahead_ns);
        Some(id)
    }

    /// Returns a tap to read from it; `None` if it was removed, or its port was.
    pub fn tap(&mut self, id: TapId) -> Option<&mut Tap> {
        self.ports.iter_mut().find_map(|port| port.taps.get_mut(id))
    }

    /// Stop a capture; returns the tap with the packets that it holds.
    pub fn remove_tap(&mut self, id: TapId) -> Option<Tap> {
        self.ports.iter_mut().find_map(|port| port.taps.remove(id))
    }
}
