//! Multicast: joining groups with a UDP socket, and the options for sending to groups. The names
//! are those of `tokio` and `std`, or of `socket2` where these two have none.
//!
//! Called by: programs. As in those libraries, an interface is named over IPv4 by one of our
//! addresses on it, over IPv6 by its scope identifier ([`PortId::scope_id`], which is the port's
//! number plus one). `0.0.0.0` and 0 stand for the port of the route to the group, or for the only
//! port. A socket gets the datagrams of groups that it has joined itself, and no others.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::io;

use stack::{GroupError, MulticastOptions, PortId, SourceChange, SourceFilter, Stack};

use super::UdpSocket;
use crate::error;

/// The port that has the address `interface`. If `interface` is unspecified: the port of the route
/// to the group, or the only port.
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
    /// Receive the datagrams to a group on the port that has the address `interface`.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if `group` is not a multicast address;
    /// [`io::ErrorKind::AddrInUse`] if the socket has joined it already;
    /// [`io::ErrorKind::AddrNotAvailable`] if there is no such port; a limit was hit.
    pub fn join_multicast_v4(&self, group: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.with_port_v4(group, interface, |stack, socket, port| {
            stack.udp_join(socket, port, group.into())
        })
    }

    /// Receive the datagrams to a group on the port with the scope identifier `interface`.
    ///
    /// # Errors
    /// As [`UdpSocket::join_multicast_v4`].
    pub fn join_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.with_port_v6(*group, interface, |stack, socket, port| {
            stack.udp_join(socket, port, (*group).into())
        })
    }

    /// Leave a group: undoes [`UdpSocket::join_multicast_v4`].
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrNotAvailable`] if the socket has not joined the group.
    pub fn leave_multicast_v4(&self, group: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.with_port_v4(group, interface, |stack, socket, port| {
            stack.udp_leave(socket, port, group.into())
        })
    }

    /// Leave a group: undoes [`UdpSocket::join_multicast_v6`].
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrNotAvailable`] if the socket has not joined the group.
    pub fn leave_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.with_port_v6(*group, interface, |stack, socket, port| {
            stack.udp_leave(socket, port, (*group).into())
        })
    }

    /// Receive the datagrams that `source` sends to a group (source-specific multicast, RFC 4607).
    ///
    /// # Errors
    /// As [`UdpSocket::join_multicast_v4`]; [`io::ErrorKind::InvalidInput`] if the socket has
    /// joined the group for all sources.
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

    /// Undo [`UdpSocket::join_ssm_v4`].
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrNotAvailable`] if the socket has not joined this source.
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

    /// Join, leave, block or unblock one source of a group on a port, as RFC 3678 defines it for
    /// IPv4 and IPv6.
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

    /// Receive the sources that `filter` admits from now on. The socket joins or leaves the group
    /// if that is necessary.
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

    /// Set the TTL of datagrams to groups (IP_MULTICAST_TTL). It is 1 at first; with 0 the
    /// datagrams stay on this host.
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

    /// Set the hop limit of datagrams to groups (IPV6_MULTICAST_HOPS): the same setting as
    /// [`UdpSocket::set_multicast_ttl_v4`].
    ///
    /// # Errors
    /// As [`UdpSocket::set_multicast_ttl_v4`].
    pub fn set_multicast_hops_v6(&self, hops: u32) -> io::Result<()> {
        self.set_multicast_ttl_v4(hops)
    }

    /// Set whether the datagrams that this socket sends to a group also go to sockets of this stack
    /// that have joined the group, this one included (IP_MULTICAST_LOOP of the sender). On at
    /// first.
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

    /// The same setting as [`UdpSocket::set_multicast_loop_v4`].
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

    /// Send to groups by the port that has the address `interface` (IP_MULTICAST_IF). With the
    /// unspecified address the routes choose the port, as at first.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrNotAvailable`] if there is no such port.
    pub fn set_multicast_if_v4(&self, interface: Ipv4Addr) -> io::Result<()> {
        let port = match interface.is_unspecified() {
            true => None,
            false => Some(self.net.shared().call()?.stack.port_of(interface.into())),
        };
        let port = port.map(|found| found.ok_or_else(error::no_address)).transpose()?;
        self.set_multicast(|options| options.port = port)
    }

    /// Send to groups by the port with the scope identifier `interface` (IPV6_MULTICAST_IF). With 0
    /// the routes choose the port, as at first.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrNotAvailable`] if there is no such port.
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
