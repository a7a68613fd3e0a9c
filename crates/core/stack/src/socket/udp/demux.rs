//! All UDP sockets of a shard, and the lookup of the socket that a datagram is for.
//!
//! Called by: the other files of this folder, `snapshot.rs`. As in 4.4BSD's `in_pcblookup`, a
//! socket that is connected to the sender is preferred to one without a peer, and a socket that is
//! bound to the address is preferred to one that receives on every address.

use std::collections::{BTreeMap, VecDeque};

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use base::DropReason;
use inet::{FlowKey, Selector};
use slotmap::SlotMap;

use super::{Datagram, Socket, UdpError};
use crate::handles::UdpHandle;

/// A local port and address that sockets are bound to. The port comes first, because most sockets
/// differ in it.
type Local = (u16, Option<IpAddr>);

/// The flow of the last datagram. The next datagram mostly belongs to the same flow.
struct Recent {
    key: FlowKey,
    /// The port by which the last datagram came; the datagram was for an address of that port.
    in_port: u16,
    /// [`crate::Stack::flow_epoch`] when the last datagram came.
    epoch: u64,
    handle: UdpHandle,
}

/// A socket's settings for the datagrams that it sends.
pub(crate) struct Sender {
    pub(crate) ip: Option<IpAddr>,
    pub(crate) port: u16,
    pub(crate) tos: u8,
    pub(crate) without_checksum: bool,
    pub(crate) owner: base::Owner,
    pub(crate) by: Selector,
    pub(crate) transparent: bool,
}

/// All UDP sockets of a shard.
pub(crate) struct UdpSockets {
    slots: SlotMap<UdpHandle, Socket>,
    /// Sockets that were bound without a peer, including those that were connected later.
    by_local: BTreeMap<Local, UdpHandle>,
    /// The connected sockets, by local port, local address and peer.
    by_pair: BTreeMap<(u16, Option<IpAddr>, SocketAddr), UdpHandle>,
    recent: Recent,
    /// The last socket that was found, with the local address for which it was found; only used
    /// while no socket is connected.
    last: Option<(SocketAddr, UdpHandle)>,
}

impl Recent {
    fn none() -> Recent {
        Recent { key: FlowKey::NONE, in_port: 0, epoch: 0, handle: UdpHandle::default() }
    }
}

impl Default for UdpSockets {
    fn default() -> UdpSockets {
        UdpSockets {
            slots: SlotMap::default(),
            by_local: BTreeMap::new(),
            by_pair: BTreeMap::new(),
            recent: Recent::none(),
            last: None,
        }
    }
}

impl UdpSockets {
    /// All sockets, in the order of their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (UdpHandle, &Socket)> {
        self.slots.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    #[inline(always)]
    pub(super) fn get(&self, handle: UdpHandle) -> Option<&Socket> {
        self.slots.get(handle)
    }

    #[inline(always)]
    pub(super) fn get_mut(&mut self, handle: UdpHandle) -> Option<&mut Socket> {
        self.slots.get_mut(handle)
    }

    /// Returns the socket that got the last datagram, if this one has the same flow and came by the
    /// same port, and no address has changed since: then this one is for an address of ours as
    /// well.
    #[inline(always)]
    pub(super) fn recent(&self, key: &FlowKey, in_port: u16, epoch: u64) -> Option<UdpHandle> {
        let recent = &self.recent;
        let same = recent.key == *key && recent.in_port == in_port && recent.epoch == epoch;
        same.then_some(recent.handle)
    }

    pub(super) fn note_recent(
        &mut self,
        key: FlowKey,
        in_port: u16,
        epoch: u64,
        handle: UdpHandle,
    ) {
        self.recent = Recent { key, in_port, epoch, handle };
    }

    /// Returns the socket that gets a datagram from `from` to `to`.
    ///
    /// # Errors
    /// [`DropReason::UdpNoSocket`]; [`DropReason::UdpNotPeer`] if there are only sockets with other
    /// peers.
    pub(super) fn find(
        &mut self,
        to: SocketAddr,
        from: SocketAddr,
    ) -> Result<UdpHandle, DropReason> {
        match self.last {
            Some((addr, handle)) if addr == to => return Ok(handle),
            _ => {}
        }
        let found = self.look_up(to, from)?;
        // Many senders and one socket are usual, so the result is kept. If there are connected
        // sockets, the result depends on the sender.
        self.last = self.by_pair.is_empty().then_some((to, found));
        Ok(found)
    }

    fn look_up(&self, to: SocketAddr, from: SocketAddr) -> Result<UdpHandle, DropReason> {
        let locals = [(to.port(), Some(to.ip())), (to.port(), None)];
        if !self.by_pair.is_empty() {
            for (port, ip) in locals {
                if let Some(&handle) = self.by_pair.get(&(port, ip, from)) {
                    return Ok(handle);
                }
            }
        }
        let mut reason = DropReason::UdpNoSocket;
        for local in locals {
            let Some(&handle) = self.by_local.get(&local) else { continue };
            match self.slots.get(handle).and_then(|socket| socket.peer) {
                None => return Ok(handle),
                // If `from` were the socket's peer, the socket would have been found above.
                Some(_) => reason = DropReason::UdpNotPeer,
            }
        }
        Err(reason)
    }

    /// Is there a socket that may have sent a datagram from `local` to `remote`?
    pub(crate) fn sender_of(
        &self,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Option<(base::Owner, Selector)> {
        let socket = self.get(self.look_up(local, remote).ok()?)?;
        Some((socket.owner.clone(), socket.ip.selector()))
    }

    /// Is any socket bound to this port?
    pub(crate) fn has_port(&self, port: u16) -> bool {
        let alone = self.by_local.range((port, None)..).next().map(|(&(port, _), _)| port);
        let paired = self.by_pair.keys().any(|&(other, ..)| other == port);
        alone == Some(port) || paired
    }

    /// The sockets that are bound to this port and to no address.
    pub(crate) fn unbound_at(&self, port: u16) -> impl Iterator<Item = UdpHandle> {
        let alone = self.by_local.get(&(port, None)).copied();
        // A socket that was connected after it was bound is among the pairs.
        self.pairs((port, None)).chain(
            alone.filter(|&handle| {
                self.slots.get(handle).is_some_and(|socket| socket.peer.is_none())
            }),
        )
    }

    /// Does a socket receive datagrams from this sender?
    pub(crate) fn takes_from(&self, handle: UdpHandle, from: SocketAddr) -> bool {
        self.slots.get(handle).is_some_and(|socket| socket.peer.is_none_or(|peer| peer == from))
    }

    /// Is this handle that of an open socket?
    pub(crate) fn is_open(&self, handle: UdpHandle) -> bool {
        self.slots.contains_key(handle)
    }

    /// The settings of a socket for the datagrams that it sends: its address, their traffic class,
    /// whether they have a checksum.
    pub(crate) fn sender(&self, handle: UdpHandle) -> Option<Sender> {
        let socket = self.slots.get(handle)?;
        let (ip, port) = socket.local;
        let without_checksum = socket.options.no_checksum;
        let (owner, by) = (socket.owner.clone(), socket.ip.selector());
        let (tos, transparent) = (socket.ip.tos, socket.ip.transparent);
        Some(Sender { ip, port, tos, without_checksum, owner, by, transparent })
    }

    /// Is a socket bound to exactly this address and port?
    pub(crate) fn is_bound(&self, ip: Option<IpAddr>, port: u16) -> bool {
        self.by_local.contains_key(&(port, ip)) || self.pairs((port, ip)).next().is_some()
    }

    /// Would a socket with this address conflict with another socket at the port?
    pub(super) fn is_port_used(&self, ip: Option<IpAddr>, port: u16) -> bool {
        if ip.is_some() {
            return self.is_bound(ip, port) || self.is_bound(None, port);
        }
        let alone = self.by_local.range((port, None)..).next();
        let first = (port, None, LOWEST);
        let paired = self.by_pair.range(first..).next();
        alone.is_some_and(|(&(p, _), _)| p == port) || paired.is_some_and(|(&(p, ..), _)| p == port)
    }

    /// Is there a socket with this local address and this peer?
    pub(super) fn is_paired(&self, (ip, port): (Option<IpAddr>, u16), peer: SocketAddr) -> bool {
        self.by_pair.contains_key(&(port, ip, peer))
    }

    /// Does a socket of ours receive datagrams only from this peer, or wait for those of a DHCP
    /// server?
    pub(crate) fn waits_for(&self, local: SocketAddr, peer: SocketAddr) -> bool {
        const DHCP_CLIENTS: [u16; 2] = [68, 546];
        let (ip, port) = (Some(local.ip()), local.port());
        self.is_paired((ip, port), peer)
            || self.is_paired((None, port), peer)
            || DHCP_CLIENTS.contains(&port)
                && [ip, None].iter().any(|&ip| self.by_local.contains_key(&(port, ip)))
    }

    /// Does another user have a socket at this address? Connected sockets at the same address would
    /// take its datagrams.
    pub(super) fn is_anothers(&self, (ip, port): (Option<IpAddr>, u16), uid: u32) -> bool {
        let others = |handle: &UdpHandle| {
            self.slots.get(*handle).is_some_and(|socket| socket.owner.uid != uid)
        };
        [ip, None].into_iter().any(|ip| {
            self.by_local.get(&(port, ip)).is_some_and(others)
                || self.pairs((port, ip)).any(|handle| others(&handle))
        })
    }

    /// The connected sockets at this local address.
    fn pairs(&self, (port, ip): Local) -> impl Iterator<Item = UdpHandle> {
        let behind = self.by_pair.range((port, ip, LOWEST)..);
        behind.take_while(move |&(&(p, i, _), _)| p == port && i == ip).map(|(_, &handle)| handle)
    }

    fn forget_found(&mut self) {
        self.recent = Recent::none();
        self.last = None;
    }

    pub(super) fn insert(&mut self, socket: Socket) -> UdpHandle {
        let ((ip, port), peer) = (socket.local, socket.peer);
        let handle = self.slots.insert(socket);
        match peer {
            Some(peer) => self.by_pair.insert((port, ip, peer), handle),
            None => self.by_local.insert((port, ip), handle),
        };
        self.forget_found();
        handle
    }

    /// Add a socket that is bound to a group. It is found only by its group's address, which it may
    /// share with others.
    pub(super) fn insert_apart(&mut self, socket: Socket) -> UdpHandle {
        self.slots.insert(socket)
    }

    pub(super) fn remove(&mut self, handle: UdpHandle) -> Option<Socket> {
        let socket = self.slots.remove(handle)?;
        let (ip, port) = socket.local;
        if self.by_local.get(&(port, ip)) == Some(&handle) {
            self.by_local.remove(&(port, ip));
        }
        if let Some(peer) = socket.peer {
            self.by_pair.remove(&(port, ip, peer));
        }
        self.forget_found();
        Some(socket)
    }

    /// From now on the socket receives datagrams only from `peer`. Returns the waiting datagrams
    /// from others.
    pub(super) fn connect(
        &mut self,
        handle: UdpHandle,
        peer: SocketAddr,
    ) -> Result<VecDeque<Datagram>, UdpError> {
        let socket = self.slots.get_mut(handle).ok_or(UdpError::Closed)?;
        let (ip, port) = socket.local;
        match self.by_pair.get(&(port, ip, peer)) {
            Some(&same) if same == handle => return Ok(VecDeque::new()),
            Some(_) => return Err(UdpError::AddressInUse),
            None => {}
        }
        if let Some(before) = socket.peer.replace(peer) {
            self.by_pair.remove(&(port, ip, before));
        }
        self.by_pair.insert((port, ip, peer), handle);
        let waiting = core::mem::take(&mut socket.queue);
        let (kept, others): (VecDeque<_>, VecDeque<_>) =
            waiting.into_iter().partition(|datagram| datagram.from == peer);
        socket.queued_bytes = kept.iter().map(Datagram::cost).sum();
        socket.queue = kept;
        self.forget_found();
        Ok(others)
    }
}

/// The lowest socket address: no other sorts before it.
const LOWEST: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
