//! UDP sockets: bound ports with bounded queues.
//!
//! Called by: `rx.rs` for what comes, programs for the rest. RFC 768, RFC 1122 section 4.1.

use std::collections::{BTreeMap, VecDeque};

use core::net::{IpAddr, SocketAddr};

use base::{Counter, DropReason, Instant, Limit, Mtu, Owner, Switch};
use inet::Ip;
use inet::flow::Addrs;
use inet::icmp::Unreachable;
use mbuf::{Flags as MbufFlags, Mbuf, Pool};
use slotmap::{SlotMap, new_key_type};
use tcp::Fate;
use wire::ipv4;

use crate::addresses::{self, NoSource};
use crate::event::Event;
use crate::snapshot::SocketRow;
use crate::{Core, IpSettings, Stack, frag, icmp, local, resolve};

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

/// Why a UDP call was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpError {
    /// The port is taken.
    AddressInUse,
    /// A limit is reached.
    LimitReached,
    /// The socket is closed.
    Closed,
    /// No address of ours has the destination's version.
    NoAddress,
    /// The device is full; poll and try again.
    WouldBlock,
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

struct Socket {
    local: (Option<IpAddr>, u16),
    /// The one that datagrams are taken from.
    peer: Option<SocketAddr>,
    owner: Owner,
    ip: IpSettings,
    queue: VecDeque<Datagram>,
    queued_bytes: usize,
    /// The last ICMP error about a datagram sent from here, and its destination.
    trouble: Option<(SocketAddr, Unreachable)>,
    /// The path MTU reported last, and until when it is used. It cannot be verified, so only this
    /// socket uses it.
    narrow: Option<(IpAddr, Mtu, Instant)>,
}

/// All UDP sockets of a shard.
#[derive(Default)]
pub(crate) struct UdpSockets {
    slots: SlotMap<UdpHandle, Socket>,
    /// By port first: it tells most apart.
    by_local: BTreeMap<(u16, Option<IpAddr>), UdpHandle>,
    /// What was looked up last, as long as no socket comes or goes.
    last: Option<(SocketAddr, UdpHandle)>,
}

impl UdpSockets {
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The socket that takes what is sent to this address: mostly the one that took the last.
    #[inline]
    fn bound(&mut self, to: SocketAddr) -> Option<UdpHandle> {
        match self.last {
            Some((addr, handle)) if addr == to => Some(handle),
            _ => self.look_up(to),
        }
    }

    #[inline(never)]
    fn look_up(&mut self, to: SocketAddr) -> Option<UdpHandle> {
        let exact = self.by_local.get(&(to.port(), Some(to.ip())));
        let found = exact.or_else(|| self.by_local.get(&(to.port(), None))).copied();
        self.last = found.map(|handle| (to, handle));
        found
    }

    /// A datagram from `local` did not reach `remote`: note it for the socket it may have come
    /// from. One that is connected to another peer did not send it.
    pub(crate) fn fail(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
        why: Unreachable,
    ) -> Option<UdpHandle> {
        let handle = self.bound(local)?;
        let socket = self.slots.get_mut(handle)?;
        if socket.peer.is_some_and(|peer| peer != remote) {
            return None;
        }
        socket.trouble = Some((remote, why));
        Some(handle)
    }

    /// A datagram from `local` was too large for the path to `remote`, which carries `mtu`: from
    /// here to `until` the socket that may have sent it sends no larger ones there. `false` if
    /// there is none.
    pub(crate) fn too_big(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
        mtu: Mtu,
        until: Instant,
    ) -> bool {
        let bound = self.bound(local);
        let Some(socket) = bound.and_then(|handle| self.slots.get_mut(handle)) else {
            return false;
        };
        if socket.peer.is_some_and(|peer| peer != remote) {
            return false;
        }
        socket.narrow = Some((remote.ip(), mtu, until));
        true
    }

    /// Queue a datagram; returns whether the socket's queue was empty before.
    #[inline(always)]
    pub(crate) fn deliver(
        &mut self,
        handle: UdpHandle,
        (from, to): (SocketAddr, SocketAddr),
        payload: Mbuf,
        core: &mut Core,
    ) -> Result<bool, DropReason> {
        let socket = self.slots.get_mut(handle).ok_or(DropReason::UdpNoSocket)?;
        if socket.peer.is_some_and(|peer| peer != from) {
            return Err(DropReason::UdpNotPeer);
        }
        // An empty datagram takes room as well: its buffer.
        let cost = payload.len() + 128;
        if socket.queued_bytes + cost > core.cx.budget.of(Limit::UdpQueueBytes) {
            core.cx.budget.admits(Limit::UdpQueueBytes, usize::MAX);
            return Err(DropReason::UdpQueueFull);
        }
        socket.queued_bytes += cost;
        socket.queue.push_back(Datagram { from, to, payload });
        core.cx.counters.add(Counter::UdpIn, 1);
        Ok(socket.queue.len() == 1)
    }

    /// Take datagrams from `peer` alone; returns how many of others' waited, and are gone.
    pub(crate) fn connect(
        &mut self,
        handle: UdpHandle,
        peer: SocketAddr,
        pool: &mut Pool,
    ) -> Option<usize> {
        let socket = self.slots.get_mut(handle)?;
        socket.peer = Some(peer);
        let before = socket.queue.len();
        for datagram in core::mem::take(&mut socket.queue) {
            if datagram.from == peer {
                socket.queue.push_back(datagram);
            } else {
                socket.queued_bytes -= datagram.payload.len() + 128;
                pool.free(datagram.payload);
            }
        }
        Some(before - socket.queue.len())
    }

    /// All of them as they are shown, in the order of their places.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (UdpHandle, SocketRow)> {
        self.slots.iter().map(|(handle, socket)| {
            let row = SocketRow::Udp {
                local: socket.local,
                peer: socket.peer,
                uid: socket.owner.uid,
                waiting: socket.queue.len(),
                waiting_bytes: socket.queued_bytes,
            };
            (handle, row)
        })
    }

    /// The oldest datagram of a socket.
    pub(crate) fn front(&self, handle: UdpHandle) -> Option<&Datagram> {
        self.slots.get(handle)?.queue.front()
    }

    /// The port that a socket is bound to.
    pub(crate) fn local_port(&self, handle: UdpHandle) -> Option<u16> {
        self.slots.get(handle).map(|socket| socket.local.1)
    }

    /// What the IP header of a socket's datagrams says.
    pub(crate) fn ip_mut(&mut self, handle: UdpHandle) -> Option<&mut IpSettings> {
        self.slots.get_mut(handle).map(|socket| &mut socket.ip)
    }

    fn close(&mut self, handle: UdpHandle, pool: &mut Pool) {
        if let Some(socket) = self.slots.remove(handle) {
            self.by_local.remove(&(socket.local.1, socket.local.0));
            self.last = None;
            for datagram in socket.queue {
                pool.free(datagram.payload);
            }
        }
    }
}

/// A UDP datagram; `at` is where the IP header begins.
pub(crate) fn input<A: Addrs>(stack: &mut Stack, ip: &Ip<A>, mut m: Mbuf, at: usize) -> Fate {
    local::for_us_or_group(stack, ip, &m)?;
    let verify = stack.core.cx.switches.on(Switch::ChecksumRx) && !m.has(MbufFlags::CSUM_VERIFIED);
    let (begin, len) = (at + ip.transport_at as usize, ip.transport_len as usize);
    let bytes = m.as_slice().get(begin..begin + len).unwrap_or_default();
    let header = inet::udp::udp_input(ip, bytes, verify, stack.core.cx.ladder)?;
    let from = SocketAddr::new(ip.src(), header.src_port);
    let to = SocketAddr::new(ip.dst(), header.dst_port);
    let Some(handle) = stack.udp.bound(to) else {
        // Quotes the packet, so that it has to be whole still (RFC 1122 section 4.1.3.1).
        icmp::refuse(stack, ip, &m, at, Unreachable::Port);
        return Err(DropReason::UdpNoSocket);
    };
    let header_len = wire::udp::HEADER_LEN;
    m.keep(begin + header_len, usize::from(header.length) - header_len);
    if stack.udp.deliver(handle, (from, to), m, &mut stack.core)? {
        stack.ready.push_back(Event::Udp(handle));
    }
    Ok(())
}

impl Stack {
    /// Bind a UDP socket; an unspecified address means every address of ours.
    ///
    /// # Errors
    /// [`UdpError::AddressInUse`], [`UdpError::LimitReached`].
    pub fn udp_bind(&mut self, local: SocketAddr, owner: Owner) -> Result<UdpHandle, UdpError> {
        let used = self.listeners.len() + self.udp.len();
        if !self.core.cx.budget.admits(Limit::Sockets, used) {
            return Err(UdpError::LimitReached);
        }
        let ip = (!local.ip().is_unspecified()).then_some(local.ip());
        let local = (ip, local.port());
        if self.udp.by_local.contains_key(&(local.1, local.0)) {
            return Err(UdpError::AddressInUse);
        }
        let (ip, queue, queued_bytes) = (IpSettings::default(), VecDeque::new(), 0);
        let (peer, trouble, narrow) = (None, None, None);
        let socket = Socket { local, peer, owner, ip, queue, queued_bytes, trouble, narrow };
        let handle = self.udp.slots.insert(socket);
        self.udp.by_local.insert((local.1, local.0), handle);
        self.udp.last = None;
        Ok(handle)
    }

    /// Take the oldest datagram.
    pub fn udp_receive(&mut self, handle: UdpHandle) -> Option<Datagram> {
        let socket = self.udp.slots.get_mut(handle)?;
        let datagram = socket.queue.pop_front()?;
        socket.queued_bytes -= datagram.payload.len() + 128;
        Some(datagram)
    }

    /// Send a datagram, up to 65,507 bytes over IPv4 and 65,527 over IPv6. One that is larger than
    /// the path is known to carry leaves in fragments; any other may not be fragmented by routers
    /// (RFC 8900 says why fragmentation is fragile).
    ///
    /// # Errors
    /// [`UdpError`]; [`DropReason::IpTooBig`] past that, or for a broadcast beyond the MTU.
    pub fn udp_send(
        &mut self,
        handle: UdpHandle,
        remote: SocketAddr,
        payload: &[u8],
        now: Instant,
    ) -> Result<(), UdpError> {
        self.core.set_now(now);
        let socket = self.udp.slots.get(handle).ok_or(UdpError::Closed)?;
        let (owner, settings) = (socket.owner.clone(), socket.ip);
        let (local_port, narrow) = (socket.local.1, socket.narrow);
        let local_ip = match socket.local.0 {
            Some(ip) => ip,
            None => addresses::source(self, remote, &owner)?,
        };
        let local = SocketAddr::new(local_ip, local_port);
        let egress = resolve::route(self, local, remote, ipv4::UDP, &owner, settings)
            .map_err(UdpError::Unsendable)?;
        let core = &mut self.core;
        let port =
            self.ports.get_mut(egress.port).ok_or(UdpError::Unsendable(DropReason::TxNoPort))?;
        let ip_len = egress.template.len() - egress.template.link_len();
        let path = self.path_mtus.mtu(remote.ip(), port.limits.mtu, core.cx.now);
        let told = narrow.filter(|&(ip, _, until)| ip == remote.ip() && core.cx.now < until);
        let most = told.map_or(path, |(_, mtu, _)| mtu.min(path));
        let len = wire::udp::HEADER_LEN + payload.len();
        if len > frag::output::transport_max(remote.ip()) {
            return Err(UdpError::Unsendable(DropReason::IpTooBig));
        }
        if !port.has_room(&mut core.cx) {
            return Err(UdpError::WouldBlock);
        }
        let pseudo = inet::ip_input::pseudo_sum(local_ip, remote.ip(), ipv4::UDP);
        let ladder = core.cx.switches.on(Switch::ChecksumTx).then_some(core.cx.ladder);
        let ports = (local_port, remote.port());
        let sent = if ip_len + len > most.bytes() {
            inet::udp::header_for(payload, ports, pseudo, ladder)
                .and_then(|header| frag::output::send(self, &egress, &header, payload, most))
        } else {
            let exhausted = UdpError::Unsendable(DropReason::MbufExhausted);
            let mut m = core.cx.pool.copy_of(payload).ok_or(exhausted)?;
            inet::udp::udp_output(&mut m, ports, pseudo, ladder)
                .and_then(|()| resolve::send(self, &egress, m))
        };
        sent.map_err(UdpError::Unsendable)?;
        self.core.cx.counters.add(Counter::UdpOut, 1);
        Ok(())
    }

    /// Take what the network said last about a datagram of this socket that did not arrive, and
    /// where that was sent to (RFC 1122 section 4.1.3.3). [`crate::Event::Udp`] reported it.
    /// Such a message can be forged: a hint, no proof.
    pub fn udp_take_error(&mut self, handle: UdpHandle) -> Option<(SocketAddr, Unreachable)> {
        self.udp.slots.get_mut(handle)?.trouble.take()
    }

    /// Close a UDP socket; what it had not read is gone.
    pub fn udp_close(&mut self, handle: UdpHandle) {
        self.udp.close(handle, &mut self.core.cx.pool);
    }
}
