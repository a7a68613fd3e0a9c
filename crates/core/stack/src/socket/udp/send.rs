//! Sends UDP datagrams: one, or many in a call.
//!
//! Called by: programs. A socket remembers how its last datagram left (its **flow**: route,
//! neighbour, headers), for at most a second and until any of these changes; switch `flow-cache`. A
//! datagram that is larger than its path carries, or has no link address yet, is sent by
//! `send_unusual`. RFC 768, RFC 1122 section 4.1.3.5, RFC 8900 (fragmentation is fragile).

use core::net::{IpAddr, SocketAddr};
use core::ops::Range;

use base::{Counter, DropReason, Duration, Instant, Switch};
use inet::Sender;
use mbuf::Mbuf;
use wire::checksum::Sum;
use wire::{protocol, udp};

use super::{Flow, UdpError};
use crate::config::MtuDiscovery;
use crate::handles::UdpHandle;
use crate::next_hop::source;
use crate::port::{Port, Ports};
use crate::shared::Core;
use crate::stack::Stack;
use crate::{frag, groups, neighbours, pace, resolve};

/// How long a flow is used before it is looked up again: neighbours are verified while they are
/// used (RFC 4861 section 7.3), and routes and path MTUs expire.
pub(super) const FLOW_LIFE: Duration = Duration::from_secs(1);

/// Returns a buffer with a copy of `payload`, and its sum if `summing`.
#[inline(always)]
pub(super) fn copied(
    core: &mut Core,
    payload: &[u8],
    summing: bool,
) -> Option<(Mbuf, Option<Sum>)> {
    let (ladder, fused) = (core.cx.ladder, core.cx.switches.on(Switch::FusedSum));
    core.cx.pool.alloc_filled(payload.len(), payload.len(), |to| match (summing, fused) {
        (true, true) => Some(ladder.copy_sum(payload, to)),
        (true, false) => Some(ladder.copy_then_sum(payload, to)),
        (false, _) => {
            mbuf::copy(payload, to);
            None
        }
    })
}

impl Stack {
    /// Send a datagram with a payload of up to 65,507 bytes over IPv4 and 65,527 over IPv6. A
    /// datagram that is larger than the path is known to carry leaves in fragments, unless
    /// [`MtuDiscovery`] forbids it; routers may not fragment other datagrams.
    ///
    /// # Errors
    /// [`UdpError`]; [`DropReason::IpTooBig`] for more bytes, or for a broadcast that exceeds the
    /// MTU.
    #[inline]
    pub fn udp_send(
        &mut self,
        handle: UdpHandle,
        remote: SocketAddr,
        payload: &[u8],
        now: Instant,
    ) -> Result<(), UdpError> {
        self.core.set_now(now);
        self.udp_send_one(handle, None, remote, payload)
    }

    /// [`Stack::udp_send`] from the address `local`, for example the one that received the datagram
    /// that this one answers (Linux's IP_PKTINFO, RFC 1122 section 4.1.3.5).
    ///
    /// # Errors
    /// [`UdpError::NoAddress`] if the address is not ours, or the socket is bound to another.
    pub fn udp_send_from(
        &mut self,
        handle: UdpHandle,
        local: IpAddr,
        remote: SocketAddr,
        payload: &[u8],
        now: Instant,
    ) -> Result<(), UdpError> {
        self.core.set_now(now);
        let socket = self.udp.get(handle).ok_or(UdpError::Closed)?;
        let (bound, settings) = (socket.local.0, socket.ip);
        let bound = bound.filter(|&ip| !ip.is_multicast() && !self.is_broadcast_to(ip));
        let is_ours = settings.transparent || self.is_own_in(local, settings.vrf);
        if bound.is_some_and(|ip| ip != local) || !is_ours {
            return Err(UdpError::NoAddress);
        }
        self.udp_send_one(handle, Some(local), remote, payload)
    }

    /// Send a probe of the path's MTU: it is sent as with [`MtuDiscovery::Probe`], whatever the
    /// socket's option is. `inet::dplpmtud` determines its size, and needs the result. RFC 8899
    /// 3-b.
    ///
    /// # Errors
    /// Those of [`Stack::udp_send`]; [`UdpError::Group`] for a group, [`UdpError::TooBig`] if the
    /// port sends no packet of this size, [`DropReason::IpNoNeighbour`] if the next hop's link
    /// address is not known yet.
    pub fn udp_send_probe(
        &mut self,
        handle: UdpHandle,
        remote: SocketAddr,
        payload: &[u8],
        now: Instant,
    ) -> Result<(), UdpError> {
        self.core.set_now(now);
        if remote.ip().is_multicast() {
            return Err(UdpError::Group);
        }
        self.udp_flow_to(handle, None, remote)?;
        send(self, handle, payload, Some(MtuDiscovery::Probe))
    }

    /// Send datagrams in order, each to its own destination; returns how many were sent (Linux's
    /// sendmmsg). A datagram to the same destination as the previous one costs less.
    ///
    /// # Errors
    /// The reason why the first datagram could not be sent. If a later one cannot be sent, the call
    /// ends before it.
    pub fn udp_send_many(
        &mut self,
        handle: UdpHandle,
        datagrams: &[(SocketAddr, &[u8])],
        now: Instant,
    ) -> Result<usize, UdpError> {
        self.core.set_now(now);
        for (count, &(remote, payload)) in datagrams.iter().enumerate() {
            match self.udp_send_one(handle, None, remote, payload) {
                Ok(()) => {}
                Err(error) if count == 0 => return Err(error),
                Err(_) => return Ok(count),
            }
        }
        Ok(datagrams.len())
    }

    /// Send a datagram, from `local` if that is given. [`groups::send`] sends it if the destination
    /// is a group.
    #[inline(always)]
    pub(super) fn udp_send_one(
        &mut self,
        handle: UdpHandle,
        local: Option<IpAddr>,
        remote: SocketAddr,
        payload: &[u8],
    ) -> Result<(), UdpError> {
        if remote.ip().is_multicast() {
            return groups::send(self, handle, local, remote, payload);
        }
        self.udp_flow_to(handle, local, remote)?;
        send(self, handle, payload, None)
    }

    /// Find how the socket's datagrams to `remote` leave. The result is the socket's flow from now
    /// on.
    #[inline(always)]
    pub(super) fn udp_flow_to(
        &mut self,
        handle: UdpHandle,
        from: Option<IpAddr>,
        remote: SocketAddr,
    ) -> Result<&Flow, UdpError> {
        let (epoch, now) = (self.flow_epoch(), self.core.cx.now);
        let socket = self.udp.get(handle).ok_or(UdpError::Closed)?;
        let asked = from.or(socket.local.0.filter(|ip| !ip.is_multicast()));
        let is_known = |flow: &Flow| {
            let same = flow.remote == remote && flow.asked == asked;
            same && flow.epoch == epoch && now < flow.until
        };
        let known = socket.flow.as_deref().is_some_and(is_known);
        if !known || !self.core.cx.switches.on(Switch::FlowCache) {
            self.udp_look_up_flow(handle, asked, remote)?;
        }
        let socket = self.udp.get(handle).ok_or(UdpError::Closed)?;
        socket.flow.as_deref().ok_or(UdpError::Closed)
    }

    #[inline(never)]
    fn udp_look_up_flow(
        &mut self,
        handle: UdpHandle,
        asked: Option<IpAddr>,
        remote: SocketAddr,
    ) -> Result<(), UdpError> {
        let socket = self.udp.get_mut(handle).ok_or(UdpError::Closed)?;
        socket.flow = None;
        let (owner, settings, local_port) = (socket.owner.clone(), socket.ip, socket.local.1);
        // The epoch is read before the solicitation, because an answer to that counts as a change.
        let epoch = self.flow_epoch();
        // A socket that is bound to a broadcast address or a group sends from an address of ours.
        let ip = match asked.filter(|&ip| !self.is_broadcast_to(ip)) {
            Some(ip) if settings.transparent || self.is_own_in(ip, settings.vrf) => ip,
            Some(_) => return Err(UdpError::NoAddress),
            None => {
                let sender = Sender::Socket { owner: &owner, by: settings.selector() };
                source(self, remote, sender)?
            }
        };
        if ip.is_ipv4() != remote.is_ipv4() {
            return Err(UdpError::NoAddress);
        }
        let local = SocketAddr::new(ip, local_port);
        let egress = resolve::route(self, local, remote, protocol::UDP, &owner, settings)
            .map_err(UdpError::Unsendable);
        neighbours::act(self);
        let egress = egress?;
        let has_gap = self.pace.gap(remote.ip()).is_some();
        let (now, link) = (self.core.cx.now, egress.mtu);
        let path = self.path_mtus.mtu(remote.ip(), link, now);
        let socket = self.udp.get_mut(handle).ok_or(UdpError::Closed)?;
        if egress.is_broadcast && !socket.may_broadcast {
            return Err(UdpError::Broadcast);
        }
        let (most, expires) = match socket.errors.path_mtu(remote.ip(), now) {
            Some((mtu, expires)) => (mtu.min(path), expires),
            None => (path, Instant::NEVER),
        };
        let known_until = self.path_mtus.known(remote.ip(), now).map_or(expires, |(_, at)| at);
        let until = (now + FLOW_LIFE).min(expires).min(known_until);
        let sum = inet::udp::flow_sum(local, remote);
        let flow =
            Flow { remote, asked, local_port, epoch, until, egress, has_gap, most, link, sum };
        socket.flow = Some(Box::new(flow));
        Ok(())
    }
}

pub(super) const NO_PORT: UdpError = UdpError::Unsendable(DropReason::TxNoPort);
pub(super) const NO_BUFFER: UdpError = UdpError::Unsendable(DropReason::MbufExhausted);

/// Is there room in the port that a flow leaves by?
#[inline(always)]
pub(super) fn room(port: Option<&mut Port>, core: &mut Core) -> Result<(), UdpError> {
    let port = port.ok_or(NO_PORT)?;
    if port.gone {
        return Err(UdpError::Unsendable(DropReason::DeviceLinkDown));
    }
    if port.has_room(&mut core.cx) { Ok(()) } else { Err(UdpError::WouldBlock) }
}

/// Send a datagram by its socket's flow. `discovery` replaces the socket's setting.
/// RFC 6935 5-b.
#[inline(always)]
pub(super) fn send(
    stack: &mut Stack,
    handle: UdpHandle,
    payload: &[u8],
    discovery: Option<MtuDiscovery>,
) -> Result<(), UdpError> {
    let Stack { udp, ports, core, .. } = stack;
    let socket = udp.get(handle).ok_or(UdpError::Closed)?;
    let flow = socket.flow.as_deref().ok_or(UdpError::Closed)?;
    if !flow.takes(payload.len()) {
        return send_unusual(stack, handle, payload, discovery);
    }
    by_flow(flow, socket.options.no_checksum, (ports, core), payload)
}

/// Send a datagram by a flow that [`Flow::takes`] it.
#[inline(always)]
pub(super) fn by_flow(
    flow: &Flow,
    without_checksum: bool,
    (ports, core): (&mut Ports, &mut Core),
    payload: &[u8],
) -> Result<(), UdpError> {
    room(ports.get_mut(flow.egress.port), core)?;
    let summing = !without_checksum && core.cx.switches.on(Switch::ChecksumTx);
    let (mut m, sum) = copied(core, payload, summing).ok_or(NO_BUFFER)?;
    let header = flow.header(payload.len(), sum);
    let too_big = UdpError::Unsendable(DropReason::IpTooBig);
    m.prepend(udp::HEADER_LEN).ok_or(too_big)?.copy_from_slice(&header);
    flow.egress.template.prepend(&mut m).map_err(UdpError::Unsendable)?;
    ports.get_mut(flow.egress.port).ok_or(NO_PORT)?.push(m);
    count(core, 1, without_checksum);
    Ok(())
}

/// Send the bytes from `sent` to `len`, with a call for each `step` bytes, until a call has no
/// room. Returns how many bytes were sent, including the first `sent`. If `len` is 0, one empty
/// datagram is sent.
///
/// # Errors
/// The error of the first call, if nothing was sent.
#[inline]
pub(super) fn in_steps(
    len: usize,
    (mut sent, step): (usize, usize),
    mut send: impl FnMut(Range<usize>) -> Result<(), UdpError>,
) -> Result<usize, UdpError> {
    let mut is_more = sent < len || len == 0;
    while is_more {
        let end = len.min(sent + step);
        match send(sent..end) {
            Ok(()) => sent = end,
            Err(error) if sent == 0 => return Err(error),
            Err(_) => break,
        }
        is_more = sent < len;
    }
    Ok(sent)
}

/// Count the datagrams that were sent.
#[inline(always)]
pub(super) fn count(core: &mut Core, datagrams: u64, without_checksum: bool) {
    core.cx.counters.add(Counter::UdpOut, datagrams);
    if without_checksum {
        core.cx.counters.add(Counter::UdpZeroChecksumOut, datagrams);
    }
}

/// [`by_unusual_flow`] for the flow of a socket.
#[inline(never)]
fn send_unusual(
    stack: &mut Stack,
    handle: UdpHandle,
    payload: &[u8],
    discovery: Option<MtuDiscovery>,
) -> Result<(), UdpError> {
    let socket = stack.udp.get(handle).ok_or(UdpError::Closed)?;
    let flow = socket.flow.as_deref().ok_or(UdpError::Closed)?.clone();
    let (discovery, without) =
        (discovery.unwrap_or(socket.options.mtu_discovery), socket.options.no_checksum);
    by_unusual_flow(stack, &flow, (discovery, without), payload)
}

/// Send a datagram that is larger than its path, whose next hop has no link address yet, or that
/// leaves a gap after the one before.
#[inline(never)]
pub(super) fn by_unusual_flow(
    stack: &mut Stack,
    flow: &Flow,
    (discovery, without_checksum): (MtuDiscovery, bool),
    payload: &[u8],
) -> Result<(), UdpError> {
    let (len, most, remote) = (flow.packet_len(payload.len()), flow.most, flow.remote);
    if udp::HEADER_LEN + payload.len() > frag::output::transport_max(remote.ip()) {
        return Err(UdpError::Unsendable(DropReason::IpTooBig));
    }
    let limit = flow.limit(discovery);
    let is_large = len > most.bytes();
    let is_whole = match discovery {
        MtuDiscovery::Want => !is_large,
        _ if len > limit.bytes() => return Err(UdpError::TooBig(limit)),
        // When it left, a datagram that waits for a link address would be fragmented to the path's
        // size.
        _ if is_large && !flow.egress.is_complete => {
            return Err(UdpError::Unsendable(DropReason::IpNoNeighbour));
        }
        _ => true,
    };
    let (ports, egress) = ((flow.local_port, remote.port()), &flow.egress);
    let port = stack.ports.get(egress.port).ok_or(NO_PORT)?;
    if port.gone {
        return Err(UdpError::Unsendable(DropReason::DeviceLinkDown));
    }
    pace::check_room(stack, egress.port, remote.ip())?;
    let summing = !without_checksum && stack.core.cx.switches.on(Switch::ChecksumTx);
    let ladder = summing.then_some(stack.core.cx.ladder);
    let most = if is_whole { limit } else { most };
    frag::output::send_udp(stack, egress, (ports, flow.sum, ladder), payload, most)
        .map_err(UdpError::Unsendable)?;
    count(&mut stack.core, 1, without_checksum);
    Ok(())
}
