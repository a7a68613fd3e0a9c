//! Group memberships of UDP sockets, with source filters, and the sockets' options for sending.
//!
//! Called by: programs, `net`. A membership names a group and a port. As with FreeBSD's sockets,
//! and with Linux's IP_MULTICAST_ALL off, a socket gets packets only to the groups that it has
//! joined itself, not to those that other sockets have joined. RFC 1112 section 7.1, RFC 3376
//! sections 2 and 3.1, RFC 3678.

use core::fmt;
use core::net::IpAddr;

use base::Limit;
use inet::group::{Filter, Mode};
use inet::ip_input::is_martian_source;

use super::{Membership, MulticastOptions, output, reports};
use crate::handles::{PortId, UdpHandle};
use crate::socket::udp::Sender;
use crate::stack::Stack;

/// Why a membership was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupError {
    /// The socket is closed.
    Closed,
    /// There is no such port, or no port was named and the group's address does not determine one.
    NoPort,
    /// The address is no multicast address.
    NotAGroup,
    /// A source is not the address of a host, or is of another IP version than the group.
    NotASource,
    /// The socket has already joined the group on this port, or has already named the source.
    AlreadyMember,
    /// The socket has not joined the group on this port, or has not named the source.
    NotAMember,
    /// The membership has the other filter mode: a source cannot be joined while all sources are
    /// received, nor blocked while only joined ones are.
    OtherMode,
    /// The limit is reached.
    LimitReached(Limit),
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GroupError::Closed => "the socket is closed: bind a new one",
            GroupError::NoPort => {
                "the group does not determine a port: name one by its address or number"
            }
            GroupError::NotAGroup => {
                "this is no multicast address: groups are in 224.0.0.0/4 and ff00::/8"
            }
            GroupError::NotASource => {
                "a source must be the address of a host, of the group's version of IP"
            }
            GroupError::AlreadyMember => {
                "the socket is a member already: leave first, or set another source filter"
            }
            GroupError::NotAMember => "the socket is no member: join first",
            GroupError::OtherMode => {
                "the filter is of the other mode: leave and join again, or set the whole filter"
            }
            GroupError::LimitReached(limit) => {
                let name = limit.name();
                return write!(f, "the limit `{name}` is reached: leave a group or raise it");
            }
        })
    }
}

impl core::error::Error for GroupError {}

/// A change of one source of a membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceChange {
    /// Receive from this source as well (MCAST_JOIN_SOURCE_GROUP). Joins the group if the socket
    /// has not.
    Join,
    /// Receive no longer from this source (MCAST_LEAVE_SOURCE_GROUP). Leaves the group after the
    /// last source.
    Leave,
    /// Receive from all sources but this one and those blocked before (MCAST_BLOCK_SOURCE).
    Block,
    /// Receive from a blocked source again (MCAST_UNBLOCK_SOURCE).
    Unblock,
}

impl Stack {
    /// Join a group on a port, so that the socket receives packets to it from all sources.
    /// RFC 1112 7.1-a.
    ///
    /// ```
    /// # mod wirespeed { pub use {base::*, wirespeed_stack::*}; }
    /// use wirespeed::pair::{PairConfig, pair};
    /// use wirespeed::Owner;
    ///
    /// let (mut end, _other) = pair(&PairConfig::new([1, 2]));
    /// let socket = end.stack.udp_bind("0.0.0.0:5300".parse()?, Owner::program())?;
    /// end.stack.udp_join(socket, end.port, "239.1.2.3".parse()?)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn udp_join(
        &mut self,
        handle: UdpHandle,
        port: PortId,
        group: IpAddr,
    ) -> Result<(), GroupError> {
        if self.udp_source_filter(handle, port, group).is_some() {
            return Err(GroupError::AlreadyMember);
        }
        self.udp_set_source_filter(handle, port, group, Filter::ANYTHING)
    }

    /// Leave a group on a port.
    /// RFC 1112 7.1-b.
    ///
    /// # Errors
    /// [`GroupError::NotAMember`], [`GroupError::Closed`].
    pub fn udp_leave(
        &mut self,
        handle: UdpHandle,
        port: PortId,
        group: IpAddr,
    ) -> Result<(), GroupError> {
        if self.udp_source_filter(handle, port, group).is_none() {
            return Err(GroupError::NotAMember);
        }
        self.udp_set_source_filter(handle, port, group, Filter::NOTHING)
    }

    /// Change one source of a membership, as in RFC 3678 section 3.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn udp_change_source(
        &mut self,
        handle: UdpHandle,
        port: PortId,
        group: IpAddr,
        source: IpAddr,
        change: SourceChange,
    ) -> Result<(), GroupError> {
        let joins = change == SourceChange::Join;
        let mut filter = match self.udp_source_filter(handle, port, group) {
            Some(filter) => filter.clone(),
            None if joins => Filter::NOTHING,
            None => return Err(GroupError::NotAMember),
        };
        let mode = match change {
            SourceChange::Join | SourceChange::Leave => Mode::Include,
            SourceChange::Block | SourceChange::Unblock => Mode::Exclude,
        };
        if filter.mode != mode {
            return Err(GroupError::OtherMode);
        }
        if joins || change == SourceChange::Block {
            if !filter.sources.insert(source) {
                return Err(GroupError::AlreadyMember);
            }
        } else if !filter.sources.remove(&source) {
            return Err(GroupError::NotAMember);
        }
        self.udp_set_source_filter(handle, port, group, filter)
    }

    /// Set the sources that a socket receives from in a group on a port. Joins or leaves the group
    /// if need be (RFC 3376 section 2, IPMulticastListen). The group may be of another IP version
    /// than the socket.
    /// RFC 3376 3.1-a, RFC 3810 4.1-a.
    ///
    /// # Errors
    /// [`GroupError`]; nothing has changed.
    pub fn udp_set_source_filter(
        &mut self,
        handle: UdpHandle,
        port: PortId,
        group: IpAddr,
        filter: Filter,
    ) -> Result<(), GroupError> {
        self.check_membership(handle, port, group, &filter)?;
        let Some(entry) = self.groups.sockets.entry(handle) else { return Err(GroupError::Closed) };
        let leaves = filter.is_nothing();
        entry.or_default().set(port.0, group, filter);
        let members = self.groups.members.entry((port.0, group)).or_default();
        members.retain(|&member| member != handle);
        if !leaves {
            members.push(handle);
        } else if members.is_empty() {
            self.groups.members.remove(&(port.0, group));
        }
        self.refresh_group(port.0, group);
        Ok(())
    }

    fn check_membership(
        &mut self,
        handle: UdpHandle,
        port: PortId,
        group: IpAddr,
        filter: &Filter,
    ) -> Result<(), GroupError> {
        if !self.udp.is_open(handle) {
            return Err(GroupError::Closed);
        }
        if !group.is_multicast() {
            return Err(GroupError::NotAGroup);
        }
        self.ports.get(port.0).ok_or(GroupError::NoPort)?;
        let is_source = |s: &IpAddr| s.is_ipv4() == group.is_ipv4() && !is_martian_source(*s);
        if !filter.sources.iter().all(is_source) {
            return Err(GroupError::NotASource);
        }
        let (budget, groups) = (&mut self.core.cx.budget, &self.groups);
        let sources = filter.sources.len();
        if sources > 0 && !budget.admits(Limit::SourcesPerGroup, sources - 1) {
            return Err(GroupError::LimitReached(Limit::SourcesPerGroup));
        }
        let socket = groups.sockets.get(handle);
        if filter.is_nothing() || socket.is_some_and(|s| s.filter(port.0, group).is_some()) {
            return Ok(());
        }
        if !budget.admits(Limit::MembershipsPerSocket, socket.map_or(0, |s| s.joined.len())) {
            return Err(GroupError::LimitReached(Limit::MembershipsPerSocket));
        }
        let host = groups.ports.get(&port.0).map(|on| on.host(group));
        let is_new = host.is_none_or(|host| host.filter(group).is_none());
        if is_new && !budget.admits(Limit::GroupsPerPort, host.map_or(0, |host| host.len())) {
            return Err(GroupError::LimitReached(Limit::GroupsPerPort));
        }
        Ok(())
    }

    /// Set what a port receives after a membership has changed, and report the effect to routers.
    fn refresh_group(&mut self, port: u16, group: IpAddr) {
        let most = self.core.cx.budget.of(Limit::SourcesPerGroup);
        self.groups.refresh(port, group, most, self.core.cx.now);
        self.rare_timers.note(self.groups.next_deadline());
        // The report is sent at once: the program may not poll before it waits for the first
        // datagram.
        if self.groups.next_deadline() <= self.core.cx.now {
            reports::expire(self);
            self.ports.flush(&mut self.core.cx);
        }
    }

    /// The sources that a socket receives from in a group on a port; `None` if it has not joined
    /// the group.
    pub fn udp_source_filter(
        &self,
        handle: UdpHandle,
        port: PortId,
        group: IpAddr,
    ) -> Option<&Filter> {
        self.groups.sockets.get(handle)?.filter(port.0, group)
    }

    /// How a socket sends to groups; the defaults if it is closed.
    pub fn udp_multicast_options(&self, handle: UdpHandle) -> MulticastOptions {
        self.groups.options(handle)
    }

    /// Set how a socket sends to groups.
    ///
    /// # Errors
    /// [`GroupError::Closed`], [`GroupError::NoPort`].
    pub fn udp_set_multicast_options(
        &mut self,
        handle: UdpHandle,
        options: MulticastOptions,
    ) -> Result<(), GroupError> {
        if !self.udp.is_open(handle) {
            return Err(GroupError::Closed);
        }
        if options.port.is_some_and(|port| self.ports.get(port.0).is_none()) {
            return Err(GroupError::NoPort);
        }
        let entry = self.groups.sockets.entry(handle).ok_or(GroupError::Closed)?;
        entry.or_default().options = options;
        Ok(())
    }

    /// The port on which a group is joined if none is named: that of the route to the group, or the
    /// only port. `None` if there are several ports.
    /// RFC 1112 7.1-c.
    pub fn group_port(&self, group: IpAddr) -> Option<PortId> {
        let remote = core::net::SocketAddr::new(group, 0);
        let whose = inet::Sender::Program;
        output::egress_port(self, MulticastOptions::default(), None, remote, whose).ok()
    }

    /// Leave all groups of a socket that is about to be closed.
    pub(crate) fn udp_leave_all(&mut self, handle: UdpHandle) {
        if let Some(Sender { ip: Some(group), port: udp_port, .. }) = self.udp.sender(handle)
            && let Some(bound) = self.groups.bound.get_mut(&(udp_port, group))
        {
            bound.retain(|&other| other != handle);
            if bound.is_empty() {
                self.groups.bound.remove(&(udp_port, group));
            }
        }
        let Some(socket) = self.groups.sockets.remove(handle) else { return };
        for Membership { port, group, .. } in socket.joined {
            if let Some(members) = self.groups.members.get_mut(&(port, group)) {
                members.retain(|&member| member != handle);
                if members.is_empty() {
                    self.groups.members.remove(&(port, group));
                }
            }
            self.refresh_group(port, group);
        }
    }
}
