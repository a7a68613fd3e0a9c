//! UDP sockets: what a socket is, and how one is bound, connected and closed.
//!
//! Called by: programs; the other files of this folder for the rest. `demux.rs` finds the socket
//! of a datagram. RFC 768, RFC 1122 section 4.1, RFC 6056. Limits: `sockets`, `udp_queue_bytes`,
//! `udp_errors`.

mod demux;
pub(crate) mod errors;
pub(crate) mod input;
mod options;
mod receive;
mod segments;
mod send;
mod supers;

use std::collections::VecDeque;

use core::net::{IpAddr, SocketAddr};

use base::{DropReason, Limit, Mtu, Owner};
use mbuf::Mbuf;
use slotmap::new_key_type;

pub(crate) use demux::{Sender, UdpSockets};
pub use errors::UdpErrorReport;
pub use options::{MtuDiscovery, UdpOptions};
pub use receive::UdpReceived;
pub use segments::SEGMENTS_MAX;

use crate::addresses::NoSource;
use crate::{IpSettings, Stack};

new_key_type! {
    /// A UDP socket.
    pub struct UdpHandle;
}

/// A received datagram.
pub struct Datagram {
    /// Who sent it.
    pub from: SocketAddr,
    /// The address of ours that it was sent to.
    pub to: SocketAddr,
    /// Its payload.
    pub payload: Mbuf,
}

impl Datagram {
    /// What it takes of a socket's queue. An empty one takes room as well: its buffer.
    #[inline(always)]
    fn cost(&self) -> usize {
        self.payload.len() + 128
    }
}

/// Why a UDP call was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpError {
    /// The address is taken, or no ephemeral port is free.
    AddressInUse,
    /// A limit is reached.
    LimitReached,
    /// The socket is closed.
    Closed,
    /// No address of ours has the destination's version, or the source asked for is not ours or
    /// not the one that the socket is bound to.
    NoAddress,
    /// The device is full; poll and try again.
    WouldBlock,
    /// The destination is a broadcast address: call [`Stack::udp_set_broadcast`] first.
    Broadcast,
    /// The destination of a probe is a group, whose members have a path each: probe a host.
    Group,
    /// The packet would be larger than this MTU and may not be fragmented: see [`MtuDiscovery`].
    TooBig(Mtu),
    /// Segments of no bytes, more than [`SEGMENTS_MAX`], or more than 65,535 bytes in all.
    InvalidSegments,
    /// The datagram cannot be sent: the named reason.
    Unsendable(DropReason),
}

impl From<NoSource> for UdpError {
    fn from(why: NoSource) -> UdpError {
        match why {
            NoSource::Unreachable(reason) => UdpError::Unsendable(reason),
            NoSource::NoAddress => UdpError::NoAddress,
        }
    }
}

pub(crate) struct Socket {
    local: (Option<IpAddr>, u16),
    /// The one that datagrams are taken from.
    peer: Option<SocketAddr>,
    owner: Owner,
    ip: IpSettings,
    options: UdpOptions,
    /// It may send to broadcast addresses.
    may_broadcast: bool,
    queue: VecDeque<Datagram>,
    queued_bytes: usize,
    errors: errors::Errors,
    /// How the last datagram left.
    flow: Option<Box<send::Flow>>,
}

impl Socket {
    fn new(local: (Option<IpAddr>, u16), peer: Option<SocketAddr>, owner: Owner) -> Socket {
        Socket {
            local,
            peer,
            owner,
            ip: IpSettings::default(),
            options: UdpOptions::default(),
            may_broadcast: false,
            queue: VecDeque::new(),
            queued_bytes: 0,
            errors: errors::Errors::default(),
            flow: None,
        }
    }
}

impl Stack {
    /// Bind a UDP socket to an address of ours; an unspecified one means every address of ours,
    /// port 0 any ephemeral port that is free (RFC 6056): [`Stack::udp_local`] tells which. Several
    /// may be bound to the address of a group, which they are still to join. As on Linux, one may
    /// be bound to a broadcast address, and takes what was sent to that: what it sends is from an
    /// address of ours all the same.
    ///
    /// # Errors
    /// [`UdpError::NoAddress`], [`UdpError::AddressInUse`], [`UdpError::LimitReached`].
    pub fn udp_bind(&mut self, local: SocketAddr, owner: Owner) -> Result<UdpHandle, UdpError> {
        self.udp_check_local(local.ip())?;
        self.udp_bind_anywhere(local, owner)
    }

    /// Bind a UDP socket to an address that need not be ours, and send from it (Linux's
    /// IP_TRANSPARENT, [`IpSettings::transparent`]). What comes for it has to be for us still.
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

    /// May a socket without [`IpSettings::transparent`] be bound to this?
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
                let free = ports.find(|&port| !self.udp.is_port_used(ip, port));
                free.ok_or(UdpError::AddressInUse)?
            }
            port if group.is_none() && self.udp.is_bound(ip, port) => {
                return Err(UdpError::AddressInUse);
            }
            port => port,
        };
        let socket = Socket::new((ip, port), None, owner);
        let Some(group) = group else { return Ok(self.udp.insert(socket)) };
        // Each of its sockets gets a copy.
        let handle = self.udp.insert_apart(socket);
        self.groups.bind(handle, group, port);
        Ok(handle)
    }

    /// Bind a UDP socket that is connected to `peer` from the beginning. Its local address may be
    /// that of other sockets of the same user: those with other peers, and one without a peer,
    /// which then gets what the connected ones do not. As on Linux, `peer` may be a group: the
    /// socket sends to it and receives nothing, because no datagram is from a group. `local` may be
    /// one, too, that is still to be joined: what `peer` sends to it is received.
    ///
    /// # Errors
    /// [`UdpError::AddressInUse`] for the same two ends, or if another user has that address;
    /// [`UdpError::NoAddress`], [`UdpError::LimitReached`].
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
        if self.udp.is_paired(local, peer) || self.udp.is_anothers(local, owner.uid) {
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

    /// From now on take datagrams from `peer` alone; what waits from others is dropped and counted.
    ///
    /// # Errors
    /// [`UdpError::Closed`]; [`UdpError::AddressInUse`] if another socket has the same two ends.
    pub fn udp_connect(&mut self, handle: UdpHandle, peer: SocketAddr) -> Result<(), UdpError> {
        let others = self.udp.connect(handle, peer)?;
        for datagram in others {
            self.core.drops.count(DropReason::UdpNotPeer);
            self.core.cx.pool.free(datagram.payload);
        }
        Ok(())
    }

    /// Where a socket is bound: `None` for every address of ours, and the port.
    pub fn udp_local(&self, handle: UdpHandle) -> Option<(Option<IpAddr>, u16)> {
        self.udp.get(handle).map(|socket| socket.local)
    }

    /// The peer that a socket is connected to.
    pub fn udp_peer(&self, handle: UdpHandle) -> Option<SocketAddr> {
        self.udp.get(handle)?.peer
    }

    /// Close a UDP socket; what it had not read is gone.
    pub fn udp_close(&mut self, handle: UdpHandle) {
        self.udp_leave_all(handle);
        if let Some(socket) = self.udp.remove(handle) {
            let pool = &mut self.core.cx.pool;
            socket.queue.into_iter().for_each(|datagram| pool.free(datagram.payload));
        }
    }
}
