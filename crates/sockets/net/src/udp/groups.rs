//! Multicast: the groups that a UDP socket joins, and how it sends to groups. The names are those
//! of `tokio` and `std`, or of `socket2` if those have none.
//!
//! Called by: programs. An interface is named as in those libraries: over IPv4 by an address of
//! ours on it, over IPv6 by its scope identifier ([`PortId::scope_id`], which is the port's number
//! plus one); `0.0.0.0` and 0 stand for the port of the route, or the only port. A socket gets the
//! datagrams of groups that it has joined itself, and no others.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::io;

use stack::{GroupError, MulticastOptions, PortId, SourceChange, SourceFilter, Stack};

use super::UdpSocket;
use crate::error;

/// The port that an address of ours, or the unspecified one, stands for.
fn port_v4(stack: &Stack, group: IpAddr, interface: Ipv4Addr) -> Result<PortId, GroupError> {
    let found = match interface.is_unspecified() {
        true => stack.group_port(group),
        false => stack.port_of(interface.into()),
    };
    found.ok_or(GroupError::NoPort)
}

fn port_v6(stack: &Stack, group: IpAddr, scope_id: u32) -> Result<PortId, GroupError> {
    PortId::of_scope(scope_id).or_else(|| stack.group_port(group)).ok_or(GroupError::NoPort)
}

impl UdpSocket {
    /// Receive a group on the port that has the address `interface`.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if it is no group; [`io::ErrorKind::AddrInUse`] if it is
    /// joined already; [`io::ErrorKind::AddrNotAvailable`] without such a port; a limit.
    pub fn join_multicast_v4(&self, group: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.with_port_v4(group, interface, |stack, socket, port| {
            stack.udp_join(socket, port, group.into())
        })
    }

    /// Receive a group on the port with this scope identifier.
    ///
    /// # Errors
    /// As [`UdpSocket::join_multicast_v4`].
    pub fn join_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.with_port_v6(*group, interface, |stack, socket, port| {
            stack.udp_join(socket, port, (*group).into())
        })
    }

    /// Receive a group no more.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrNotAvailable`] if it is not joined.
    pub fn leave_multicast_v4(&self, group: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.with_port_v4(group, interface, |stack, socket, port| {
            stack.udp_leave(socket, port, group.into())
        })
    }

    /// Receive a group no more.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrNotAvailable`] if it is not joined.
    pub fn leave_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.with_port_v6(*group, interface, |stack, socket, port| {
            stack.udp_leave(socket, port, (*group).into())
        })
    }

    /// Receive datagrams of `source` to a group (source-specific multicast, RFC 4607).
    ///
    /// # Errors
    /// As [`UdpSocket::join_multicast_v4`]; [`io::ErrorKind::InvalidInput`] if all sources are
    /// joined.
    pub fn join_ssm_v4(
        &self,
        source: Ipv4Addr,
        group: Ipv4Addr,
        interface: Ipv4Addr,
    ) -> io::Result<()> {
        self.with_port_v4(group, interface, |stack, socket, port| {
            let (group, source) = (group.into(), source.into());
            stack.udp_change_source(socket, port, group, source, SourceChange::Join)
        })
    }

    /// Take back [`UdpSocket::join_ssm_v4`].
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrNotAvailable`] if it is not joined.
    pub fn leave_ssm_v4(
        &self,
        source: Ipv4Addr,
        group: Ipv4Addr,
        interface: Ipv4Addr,
    ) -> io::Result<()> {
        self.with_port_v4(group, interface, |stack, socket, port| {
            let (group, source) = (group.into(), source.into());
            stack.udp_change_source(socket, port, group, source, SourceChange::Leave)
        })
    }

    /// Change one source of a group on a port: RFC 3678's joins and blocks, of either version.
    ///
    /// # Errors
    /// As [`UdpSocket::join_ssm_v4`].
    pub fn change_multicast_source(
        &self,
        port: PortId,
        group: IpAddr,
        source: IpAddr,
        change: SourceChange,
    ) -> io::Result<()> {
        let mut call = self.net.shared().call()?;
        let changed = call.stack.udp_change_source(self.handle, port, group, source, change);
        changed.map_err(error::group)
    }

    /// Receive these sources of a group on a port from now on; joins or leaves the group if
    /// necessary.
    ///
    /// # Errors
    /// As [`UdpSocket::join_multicast_v4`].
    pub fn set_source_filter(
        &self,
        port: PortId,
        group: IpAddr,
        filter: SourceFilter,
    ) -> io::Result<()> {
        let mut call = self.net.shared().call()?;
        let set = call.stack.udp_set_source_filter(self.handle, port, group, filter);
        set.map_err(error::group)
    }

    /// TTL of datagrams to groups (IP_MULTICAST_TTL); 1 at first, with 0 they stay on this host.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] above 255.
    pub fn set_multicast_ttl_v4(&self, ttl: u32) -> io::Result<()> {
        let hops = u8::try_from(ttl).map_err(|_| error::ttl_too_large())?;
        self.set_multicast(|options| options.hops = hops)
    }

    /// See [`UdpSocket::set_multicast_ttl_v4`].
    ///
    /// # Errors
    /// The driver is gone.
    pub fn multicast_ttl_v4(&self) -> io::Result<u32> {
        Ok(self.multicast()?.hops.into())
    }

    /// Hop limit of datagrams to groups (IPV6_MULTICAST_HOPS): the same as
    /// [`UdpSocket::set_multicast_ttl_v4`].
    ///
    /// # Errors
    /// As there.
    pub fn set_multicast_hops_v6(&self, hops: u32) -> io::Result<()> {
        self.set_multicast_ttl_v4(hops)
    }

    /// Whether sockets of this stack that have joined a group get the datagrams that this one sends
    /// to it, this socket included (IP_MULTICAST_LOOP of the sender); on at first.
    ///
    /// # Errors
    /// The driver is gone.
    pub fn set_multicast_loop_v4(&self, on: bool) -> io::Result<()> {
        self.set_multicast(|options| options.loops = on)
    }

    /// See [`UdpSocket::set_multicast_loop_v4`].
    ///
    /// # Errors
    /// The driver is gone.
    pub fn multicast_loop_v4(&self) -> io::Result<bool> {
        Ok(self.multicast()?.loops)
    }

    /// The same as [`UdpSocket::set_multicast_loop_v4`]: a socket has one setting.
    ///
    /// # Errors
    /// The driver is gone.
    pub fn set_multicast_loop_v6(&self, on: bool) -> io::Result<()> {
        self.set_multicast_loop_v4(on)
    }

    /// See [`UdpSocket::set_multicast_loop_v4`].
    ///
    /// # Errors
    /// The driver is gone.
    pub fn multicast_loop_v6(&self) -> io::Result<bool> {
        self.multicast_loop_v4()
    }

    /// Send to groups by the port that has this address (IP_MULTICAST_IF); unspecified: by the
    /// routes again.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrNotAvailable`] without such a port.
    pub fn set_multicast_if_v4(&self, interface: Ipv4Addr) -> io::Result<()> {
        let port = match interface.is_unspecified() {
            true => None,
            false => Some(self.net.shared().call()?.stack.port_of(interface.into())),
        };
        let port = port.map(|found| found.ok_or_else(error::no_address)).transpose()?;
        self.set_multicast(|options| options.port = port)
    }

    /// Send to groups by the port with this scope identifier (IPV6_MULTICAST_IF); 0: by the
    /// routes again.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrNotAvailable`] without such a port.
    pub fn set_multicast_if_v6(&self, interface: u32) -> io::Result<()> {
        self.set_multicast(|options| options.port = PortId::of_scope(interface))
    }

    fn multicast(&self) -> io::Result<MulticastOptions> {
        Ok(self.net.shared().call()?.stack.udp_multicast_options(self.handle))
    }

    fn set_multicast(&self, change: impl FnOnce(&mut MulticastOptions)) -> io::Result<()> {
        let mut call = self.net.shared().call()?;
        let mut options = call.stack.udp_multicast_options(self.handle);
        change(&mut options);
        call.stack.udp_set_multicast_options(self.handle, options).map_err(error::group)
    }

    fn with_port_v4(
        &self,
        group: Ipv4Addr,
        interface: Ipv4Addr,
        change: impl FnOnce(&mut Stack, stack::UdpHandle, PortId) -> Result<(), GroupError>,
    ) -> io::Result<()> {
        let mut call = self.net.shared().call()?;
        let port = port_v4(&call.stack, group.into(), interface).map_err(error::group)?;
        change(&mut call.stack, self.handle, port).map_err(error::group)
    }

    fn with_port_v6(
        &self,
        group: Ipv6Addr,
        scope_id: u32,
        change: impl FnOnce(&mut Stack, stack::UdpHandle, PortId) -> Result<(), GroupError>,
    ) -> io::Result<()> {
        let mut call = self.net.shared().call()?;
        let port = port_v6(&call.stack, group.into(), scope_id).map_err(error::group)?;
        change(&mut call.stack, self.handle, port).map_err(error::group)
    }
}
