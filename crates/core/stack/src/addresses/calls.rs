//! Adds, changes and removes our addresses while the stack runs. Connections from a removed address
//! fail.
//!
//! Called by: programs; `acd.rs` and `autoconf` with the results of their checks; `poll.rs` when a
//! lifetime ends. RFC 4862 section 5.5.4. Limit: `addresses`.

use core::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use base::{Cidr, Limit, LinkKind};
use inet::select::is_link_scoped;
use inet::{Address, AddressState, Route, RouteOrigin, Sender};
use tcp::usrreq;

use super::{AddressError, check_address};
use crate::connections::Pcb;
use crate::handles::{Event, PortId, TcpHandle};
use crate::next_hop::source;
use crate::port::Port;
use crate::socket::passive::handshake_progress;
use crate::stack::Stack;
use crate::{groups, reroute, tx};

impl Stack {
    /// Add an address to a port, or change the one that is there; its network becomes a route. A
    /// tentative address is not used before it is preferred. For up to two seconds for IPv6 (RFC
    /// 4862 section 5.4) and seven for IPv4 (RFC 5227), the stack asks whether another host has the
    /// address. Then the address is [`AddressState::Preferred`] or [`AddressState::Duplicated`]. On
    /// a port without link addresses there is nobody to ask.
    ///
    /// # Errors
    /// [`AddressError`].
    pub fn add_address(&mut self, id: PortId, mut address: Address) -> Result<(), AddressError> {
        let ip = address.ip();
        let port = self.ports.get_mut(id.0).ok_or(AddressError::NoPort)?;
        // On a port without link addresses there is no host that could object.
        let is_unasked =
            address.state == AddressState::Tentative && port.limits.link == LinkKind::Ip;
        if is_unasked {
            address.state = AddressState::Preferred;
        }
        check_address(address.cidr)?;
        if let Some(old) = port.addresses.iter_mut().find(|a| a.ip() == ip) {
            let (network, usable) = (old.cidr.network(), address.is_usable());
            *old = address;
            port.refresh_local();
            if network != address.cidr.network() || !usable {
                self.forget_network(id, network);
            }
        } else {
            let budget = &mut self.core.cx.budget;
            if !budget.admits(Limit::Addresses, port.addresses.len()) {
                return Err(AddressError::LimitReached);
            }
            port.addresses.push(address);
            port.refresh_local();
        }
        self.ports.share_broadcasts();
        let (now, secret) = (self.core.cx.now, self.core.secret);
        if address.state == AddressState::Tentative && ip.is_ipv6() {
            self.autoconf.begin_dad((id.0, ip), now, &secret);
        } else {
            self.autoconf.dad.forget((id.0, ip));
        }
        if let IpAddr::V4(ip) = ip {
            self.acd.added((id.0, ip), &address, now, &secret);
            if is_unasked {
                self.acd.won((id.0, ip));
                self.note_address_event(id);
            }
        }
        if address.is_usable() && address.implies_network() {
            let route = Route::new(address.cidr, None, id.0).with_origin(RouteOrigin::Connected);
            self.routes.add(self.placed(route));
        }
        groups::addresses_changed(self, id);
        self.addresses_changed();
        Ok(())
    }

    /// Remove an address of ours; connections from it fail with [`tcp::Error::NetworkDown`].
    /// `false` if the port does not have it.
    pub fn remove_address(&mut self, id: PortId, ip: IpAddr) -> bool {
        let Some(port) = self.ports.get_mut(id.0) else { return false };
        let Some(at) = port.addresses.iter().position(|a| a.ip() == ip) else { return false };
        let network = port.addresses.remove(at).cidr.network();
        self.autoconf.dad.forget((id.0, ip));
        port.refresh_local();
        let local = &port.local;
        port.macs.keep_of(|ip| local.is_ours(ip));
        self.ports.share_broadcasts();
        if let IpAddr::V4(ip) = ip {
            self.acd.removed((id.0, ip));
        }
        self.forget_network(id, network);
        groups::addresses_changed(self, id);
        self.fail_connections_from(id, ip);
        self.addresses_changed();
        tx::output(self);
        true
    }

    /// The addresses of a port.
    pub fn addresses(&self, id: PortId) -> &[Address] {
        self.ports.get(id.0).map_or(&[], |port| &port.addresses)
    }

    /// The source address of packets to `remote` whose socket is not bound to an address; `None` if
    /// nothing can be sent there. For `inet::select::order_destinations`.
    pub fn source_for(&self, remote: SocketAddr) -> Option<IpAddr> {
        source(self, remote, Sender::Program).ok()
    }

    /// Remove the route of a network if the port has no usable address left in it.
    fn forget_network(&mut self, id: PortId, network: Cidr) {
        let Some(port) = self.ports.get(id.0) else { return };
        let mut usable = port.addresses.iter().filter(|a| a.is_usable() && a.implies_network());
        if !usable.any(|a| a.cidr.network() == network) {
            let of_it = |r: &Route| r.origin == RouteOrigin::Connected && r.port == id.0;
            let table = port.vrf.table();
            self.routes.remove_exact(network, table, of_it);
        }
    }

    /// Note that addresses changed: connections look up their paths again, and the next deadline is
    /// computed again.
    pub(crate) fn addresses_changed(&mut self) {
        self.path_mtus.note_change();
        self.look_ahead();
    }

    /// Report a change of a port's addresses. There is one event until the user has taken it.
    pub(crate) fn note_address_event(&mut self, id: PortId) {
        let event = Event::Address(id);
        if self.ready.back() != Some(&event) {
            self.ready.push_back(event);
        }
    }

    /// Set the state of an address that the stack itself has decided.
    pub(crate) fn set_address_state(&mut self, id: PortId, ip: IpAddr, state: AddressState) {
        let found = self.addresses(id).iter().find(|a| a.ip() == ip).copied();
        let Some(address) = found else { return };
        // The address exists, so replacing it cannot fail.
        let _ = self.add_address(id, Address { state, ..address });
        if state == AddressState::Duplicated {
            self.fail_connections_from(id, ip);
        }
        self.note_address_event(id);
        self.addresses_changed();
    }

    /// The connections from an address of a port, including those that leave by another port.
    #[cold]
    pub(crate) fn connections_from(
        &self,
        id: PortId,
        is_it: impl Fn(IpAddr) -> bool,
    ) -> Vec<TcpHandle> {
        let vrf = self.ports.vrf(id.0);
        let has = |p: &Port, ip| p.id != id && p.vrf == vrf && p.local.is_ours(ip);
        let elsewhere = |ip| self.ports.iter().any(|p| has(p, ip));
        let is_from = |pcb: &Pcb| {
            let ip = pcb.key.local().ip();
            let is_of_vrf = pcb.by.vrf == vrf || pcb.port == id.0;
            let is_it = is_of_vrf && is_it(ip);
            pcb.in_table && is_it && (pcb.port == id.0 || !is_link_scoped(ip) && !elsewhere(ip))
        };
        let all = self.connections.iter();
        all.filter(|(_, pcb)| is_from(pcb)).map(|(handle, _)| handle).collect()
    }

    /// Fail a connection whose network is gone; its user gets the reason.
    pub(crate) fn fail_connection(&mut self, handle: TcpHandle) {
        let Some(pcb) = self.connections.get_mut(handle) else { return };
        pcb.blocked = false;
        usrreq::lose_network(&mut pcb.tcb, &mut self.core.cx);
        self.connections.mark_dirty(handle);
        handshake_progress(self, handle);
    }

    /// Fail a connection from an address of port `id`, even if it leaves by another port. The
    /// reason is noted at `id`.
    pub(crate) fn fail_connection_of(&mut self, id: PortId, handle: TcpHandle) {
        if let Some(pcb) = self.connections.get_mut(handle)
            && pcb.port != id.0
        {
            reroute::go(self, handle, id.0);
        }
        self.fail_connection(handle);
    }

    /// An address is no longer ours, so its connections cannot send any more: fail them. End the
    /// flows that were translated to the address.
    #[cold]
    pub(crate) fn fail_connections_from(&mut self, id: PortId, ip: IpAddr) {
        self.ports.note_failure(id, Arc::from("its address was removed, or is no longer valid"));
        for handle in self.connections_from(id, |from| from == ip) {
            self.fail_connection_of(id, handle);
        }
        if let Some(firewall) = &mut self.firewall {
            firewall.address_gone(ip, self.core.cx.now);
        }
    }

    /// A port with this address was removed: end the flows that were translated to the address,
    /// unless another port has it too.
    #[cold]
    pub(crate) fn translations_gone(&mut self, ip: IpAddr) {
        if !self.has_address(ip)
            && let Some(firewall) = &mut self.firewall
        {
            firewall.address_gone(ip, self.core.cx.now);
        }
    }
}
