//! The calls by which programs open, configure, use and close echo sockets.
//!
//! Called by: programs (`wirespeed ping`). RFC 792, RFC 4443 section 4. Limit: `ping_sockets`.

use core::net::{IpAddr, SocketAddr};
use std::collections::VecDeque;

use base::{Counter, DropReason, Instant, IpVersion, Limit, Owner};
use inet::icmp;
use inet::{Selector, Sender, Vrf};
use wire::protocol;

use super::{Echo, Socket};
use crate::config::{IpSettings, MtuDiscovery};
use crate::handles::{PingHandle, PortId};
use crate::next_hop::{scoped, source};
use crate::socket::udp::UdpError;
use crate::stack::Stack;
use crate::{frag, neighbours, pace, resolve};

impl Stack {
    /// Open an echo socket.
    ///
    /// # Errors
    /// [`UdpError::LimitReached`].
    pub fn ping_open(&mut self, owner: Owner) -> Result<PingHandle, UdpError> {
        let used = self.pings.slots.len();
        if !self.core.cx.budget.admits(Limit::PingSockets, used) || used > usize::from(u16::MAX) {
            return Err(UdpError::LimitReached);
        }
        // The identifier is derived from the secret, so that a host that cannot see our requests
        // cannot guess it.
        let offset = self.core.secret.hash([0x6563_686f]) as u16;
        let id = loop {
            self.pings.next_id = self.pings.next_id.wrapping_add(1);
            let id = offset.wrapping_add(self.pings.next_id);
            if !self.pings.by_id.contains_key(&id) {
                break id;
            }
        };
        let (mtu_discovery, queue) = (MtuDiscovery::default(), VecDeque::new());
        let by = Selector::default();
        let socket = Socket { id, owner, by, mtu_discovery, queue, narrow: None, port: None };
        let handle = self.pings.slots.insert(socket);
        self.pings.by_id.insert(id, handle);
        Ok(handle)
    }

    /// Set what happens to requests that are larger than the path is known to carry.
    ///
    /// # Errors
    /// [`UdpError::Closed`].
    pub fn ping_set_mtu_discovery(
        &mut self,
        handle: PingHandle,
        discovery: MtuDiscovery,
    ) -> Result<(), UdpError> {
        self.pings.slots.get_mut(handle).ok_or(UdpError::Closed)?.mtu_discovery = discovery;
        Ok(())
    }

    /// Set the port on whose link the link-local destinations of a socket are. `None`: the routes
    /// decide (RFC 4007 section 6).
    ///
    /// # Errors
    /// [`UdpError::Closed`].
    pub fn ping_set_port(
        &mut self,
        handle: PingHandle,
        port: Option<PortId>,
    ) -> Result<(), UdpError> {
        self.pings.slots.get_mut(handle).ok_or(UdpError::Closed)?.port = port;
        Ok(())
    }

    /// Set the mark of a socket's packets, by which rules of policy routing select them
    /// ([`IpSettings::mark`]).
    ///
    /// # Errors
    /// [`UdpError::Closed`].
    pub fn ping_set_mark(&mut self, handle: PingHandle, mark: u32) -> Result<(), UdpError> {
        self.pings.slots.get_mut(handle).ok_or(UdpError::Closed)?.by.mark = mark;
        Ok(())
    }

    /// Put a socket into a VRF ([`IpSettings::vrf`]): its requests leave there, and only answers
    /// that come there are its own.
    ///
    /// # Errors
    /// [`UdpError::Closed`].
    pub fn ping_set_vrf(&mut self, handle: PingHandle, vrf: Vrf) -> Result<(), UdpError> {
        self.pings.slots.get_mut(handle).ok_or(UdpError::Closed)?.by.vrf = vrf;
        Ok(())
    }

    /// Send an echo request with sequence number `seq` and `payload`; returns the address of ours
    /// from which it was sent. A request that is larger than the path is known to carry leaves in
    /// fragments, unless [`Stack::ping_set_mtu_discovery`] forbids it.
    /// [`Event::Ping`](crate::Event) reports a result.
    ///
    /// # Errors
    /// [`UdpError`]: there is no route, the destination is a broadcast address, the packet would be
    /// larger than IP allows, or the device is full.
    pub fn ping_send(
        &mut self,
        handle: PingHandle,
        remote: IpAddr,
        seq: u16,
        payload: &[u8],
        now: Instant,
    ) -> Result<IpAddr, UdpError> {
        self.core.set_now(now);
        let socket = self.pings.slots.get(handle).ok_or(UdpError::Closed)?;
        let (id, owner) = (socket.id, socket.owner.clone());
        let settings = IpSettings::by(socket.by);
        let sender = Sender::Socket { owner: &owner, by: socket.by };
        let (narrow, discovery) = (socket.narrow, socket.mtu_discovery);
        let to = SocketAddr::new(remote, 0);
        let to = socket.port.map_or(to, |port| scoped(to, port.0));
        let local = source(self, to, sender)?;
        let protocol = match IpVersion::of(&remote) {
            IpVersion::V4 => protocol::ICMP,
            IpVersion::V6 => protocol::ICMPV6,
        };
        let ends = (SocketAddr::new(local, 0), to);
        let egress = resolve::route(self, ends.0, ends.1, protocol, &owner, settings)
            .map_err(UdpError::Unsendable);
        neighbours::act(self);
        let egress = egress?;
        // No host should answer such a request (RFC 1122 section 3.2.2.6), and all would have to
        // read it.
        if egress.is_broadcast {
            return Err(UdpError::Broadcast);
        }
        let now = self.core.cx.now;
        let path = self.path_mtus.mtu(remote, egress.mtu, now);
        let told = narrow.filter(|&(ip, _, until)| ip == remote && now < until);
        let mut most = told.map_or(path, |(_, mtu, _)| mtu.min(path));
        if discovery == MtuDiscovery::Probe {
            most = egress.mtu;
        }
        let headers_len = egress.template.len() - egress.template.link_len() + icmp::HEADER_LEN;
        if discovery != MtuDiscovery::Want && headers_len + payload.len() > most.bytes() {
            return Err(UdpError::TooBig(most));
        }
        if icmp::HEADER_LEN + payload.len() > frag::output::transport_max(remote) {
            return Err(UdpError::Unsendable(DropReason::IpTooBig));
        }
        pace::check_room(self, egress.port, remote)?;
        let core = &mut self.core;
        let exhausted = UdpError::Unsendable(DropReason::MbufExhausted);
        let mut m = core.cx.pool.copy_of(payload).ok_or(exhausted)?;
        m.prepend(icmp::HEADER_LEN).ok_or(exhausted)?;
        icmp::echo_request(m.as_mut_slice().ok_or(exhausted)?, id, seq, local, remote);
        let sent = frag::output::send(self, &egress, &[], m.as_slice(), most);
        self.core.cx.pool.free(m);
        sent.map_err(UdpError::Unsendable)?;
        self.core.cx.counters.add(Counter::IcmpEchoRequests, 1);
        Ok(local)
    }

    /// Take the oldest result of a socket's requests.
    pub fn ping_receive(&mut self, handle: PingHandle) -> Option<Echo> {
        self.pings.slots.get_mut(handle)?.queue.pop_front()
    }

    /// Close an echo socket; results that were not read are lost.
    pub fn ping_close(&mut self, handle: PingHandle) {
        if let Some(socket) = self.pings.slots.remove(handle) {
            self.pings.by_id.remove(&socket.id);
            for echo in socket.queue {
                echo.free(&mut self.core.cx.pool);
            }
        }
    }
}
