//! Binds, connects, configures and closes UDP sockets.
//!
//! Called by: programs. RFC 768, RFC 1122 section 4.1, RFC 6056, RFC 1191, RFC 8201, RFC 6936.
//! Limit: `sockets`.

use core::net::{IpAddr, SocketAddr};

use base::{DropReason, Limit, Mtu, Owner};

use wire::protocol::UDP;

use super::{Socket, UdpError, UdpOptions};
use crate::config::IpSettings;
use crate::handles::UdpHandle;
use crate::stack::Stack;

impl Stack {
    /// Bind a UDP socket to an address of ours. The unspecified address means every address of
    /// ours; port 0 means any free ephemeral port (RFC 6056), which [`Stack::udp_local`] returns.
    /// Several sockets may be bound to the address of a group, which they still have to join. As on
    /// Linux, a socket may be bound to a broadcast address, and receives datagrams to it; it still
    /// sends from an address of ours.
    ///
    /// # Errors
    /// [`UdpError::NoAddress`], [`UdpError::AddressInUse`], [`UdpError::LimitReached`].
    pub fn udp_bind(&mut self, local: SocketAddr, owner: Owner) -> Result<UdpHandle, UdpError> {
        self.udp_check_local(local.ip())?;
        self.udp_bind_anywhere(local, owner)
    }

    /// Bind a UDP socket to an address that need not be ours, and send from it (Linux's
    /// IP_TRANSPARENT, [`IpSettings::transparent`]). Datagrams that it receives still have to be
    /// for us.
    ///
    /// # Errors
    /// [`UdpError::AddressInUse`], [`UdpError::LimitReached`].
    pub fn udp_bind_transparent(
        &mut self,
        local: SocketAddr,
        owner: Owner,
    ) -> Result<UdpHandle, UdpError> {
        let handle = self.udp_bind_anywhere(local, owner)?;
        if let Some(socket) = self.udp.get_mut(handle) {
            socket.ip.transparent = true;
        }
        Ok(handle)
    }

    /// May a socket without [`IpSettings::transparent`] be bound to `ip`?
    fn udp_check_local(&self, ip: IpAddr) -> Result<(), UdpError> {
        let receives = ip.is_unspecified() || ip.is_multicast() || self.is_broadcast_to(ip);
        if receives || self.is_own(ip) { Ok(()) } else { Err(UdpError::NoAddress) }
    }

    fn udp_bind_anywhere(
        &mut self,
        local: SocketAddr,
        owner: Owner,
    ) -> Result<UdpHandle, UdpError> {
        self.udp_admit()?;
        let ip = (!local.ip().is_unspecified()).then_some(local.ip());
        let group = ip.filter(IpAddr::is_multicast);
        let port = match local.port() {
            0 => {
                let mut ports = self.ports_to_try();
                let free = ports.find(|&port| {
                    !self.udp.is_port_used(ip, port) && !self.is_translated(UDP, ip, port)
                });
                free.ok_or(UdpError::AddressInUse)?
            }
            port if group.is_none()
                && (self.udp.is_bound(ip, port) || self.is_translated(UDP, ip, port)) =>
            {
                return Err(UdpError::AddressInUse);
            }
            port => port,
        };
        let socket = Socket::new((ip, port), None, owner);
        let Some(group) = group else { return Ok(self.udp.insert(socket)) };
        // Each socket that is bound to a group gets a copy of a datagram.
        let handle = self.udp.insert_apart(socket);
        self.groups.bind(handle, group, port);
        Ok(handle)
    }

    /// Bind a UDP socket that is connected to `peer` from the beginning. Sockets of the same user
    /// may have the same local address: those with other peers, and one without a peer, which then
    /// gets the datagrams that the connected ones do not take. As on Linux, `peer` may be a group:
    /// the socket sends to the group and receives nothing, because no datagram has a group as its
    /// source. `local` may be a group, too, which still has to be joined: the socket receives
    /// datagrams from `peer` to that group.
    ///
    /// # Errors
    /// [`UdpError::AddressInUse`] if another socket has the same local address and peer, or if
    /// another user has the local address; [`UdpError::NoAddress`], [`UdpError::LimitReached`].
    pub fn udp_bind_connected(
        &mut self,
        local: SocketAddr,
        peer: SocketAddr,
        owner: Owner,
    ) -> Result<UdpHandle, UdpError> {
        if local.port() == 0 || local.ip().is_multicast() {
            let handle = self.udp_bind(local, owner)?;
            self.udp_connect(handle, peer)?;
            return Ok(handle);
        }
        self.udp_check_local(local.ip())?;
        self.udp_admit()?;
        let local = ((!local.ip().is_unspecified()).then_some(local.ip()), local.port());
        if self.udp.is_paired(local, peer)
            || self.udp.is_anothers(local, owner.uid)
            || self.is_translated(UDP, local.0, local.1)
        {
            return Err(UdpError::AddressInUse);
        }
        Ok(self.udp.insert(Socket::new(local, Some(peer), owner)))
    }

    fn udp_admit(&mut self) -> Result<(), UdpError> {
        let used = self.listeners.len() + self.udp.len();
        match self.core.cx.budget.admits(Limit::Sockets, used) {
            true => Ok(()),
            false => Err(UdpError::LimitReached),
        }
    }

    /// From now on receive datagrams only from `peer`. Waiting datagrams from others are dropped
    /// and counted.
    ///
    /// # Errors
    /// [`UdpError::Closed`]; [`UdpError::AddressInUse`] if another socket has the same local
    /// address and peer.
    pub fn udp_connect(&mut self, handle: UdpHandle, peer: SocketAddr) -> Result<(), UdpError> {
        let others = self.udp.connect(handle, peer)?;
        for datagram in others {
            self.core.drops.count(DropReason::UdpNotPeer);
            self.core.cx.pool.free(datagram.payload);
        }
        Ok(())
    }

    /// The local address that a socket is bound to (`None` for every address of ours), and its
    /// port.
    pub fn udp_local(&self, handle: UdpHandle) -> Option<(Option<IpAddr>, u16)> {
        self.udp.get(handle).map(|socket| socket.local)
    }

    /// The peer that a socket is connected to.
    pub fn udp_peer(&self, handle: UdpHandle) -> Option<SocketAddr> {
        self.udp.get(handle)?.peer
    }

    /// Close a UDP socket; datagrams that were not read are lost.
    pub fn udp_close(&mut self, handle: UdpHandle) {
        self.udp_leave_all(handle);
        if let Some(socket) = self.udp.remove(handle) {
            let pool = &mut self.core.cx.pool;
            socket.queue.into_iter().for_each(|datagram| pool.free(datagram.payload));
        }
    }

    /// The settings for the IP header of a UDP socket's packets, to read and to change.
    pub fn udp_ip_mut(&mut self, handle: UdpHandle) -> Option<&mut IpSettings> {
        let socket = self.udp.get_mut(handle)?;
        socket.flow = None;
        Some(&mut socket.ip)
    }

    /// The options of a socket.
    pub fn udp_options(&self, handle: UdpHandle) -> Option<UdpOptions> {
        self.udp.get(handle).map(|socket| socket.options)
    }

    /// Set the options of a socket; if the error queue is turned off, its contents are lost.
    ///
    /// # Errors
    /// [`UdpError::Closed`].
    pub fn udp_set_options(
        &mut self,
        handle: UdpHandle,
        options: UdpOptions,
    ) -> Result<(), UdpError> {
        let socket = self.udp.get_mut(handle).ok_or(UdpError::Closed)?;
        socket.options = options;
        if !options.error_queue {
            socket.errors.forget_queue();
        }
        Ok(())
    }

    /// Allow or forbid a socket to send to broadcast addresses. As in BSD (SO_BROADCAST) this is
    /// forbidden by default, so that a program that gets such an address by mistake does not reach
    /// every host. Multicast is no broadcast, and receiving needs no permission.
    ///
    /// # Errors
    /// [`UdpError::Closed`].
    pub fn udp_set_broadcast(&mut self, handle: UdpHandle, on: bool) -> Result<(), UdpError> {
        let socket = self.udp.get_mut(handle).ok_or(UdpError::Closed)?;
        socket.may_broadcast = on;
        socket.flow = None;
        Ok(())
    }

    /// The size of the largest packet, IP header included, that leaves this socket for `remote` in
    /// one piece: the port's MTU, or less if the path is known to carry less (Linux's IP_MTU).
    ///
    /// # Errors
    /// [`UdpError`]: there is no route, or no address of ours to send from.
    pub fn udp_path_mtu(&mut self, handle: UdpHandle, remote: SocketAddr) -> Result<Mtu, UdpError> {
        Ok(self.udp_flow_to(handle, None, remote)?.most())
    }
}
