//! Datagrams from any source address and port to hosts on a link or behind a route: one, many,
//! segments, or a buffer without a copy.
//!
//! Called by: programs. Everything but the source is as for a socket's datagrams (`../send.rs`,
//! `../segments.rs`, `../supers.rs`). RFC 768. Counters: those of UDP.

use core::net::SocketAddr;

use base::{DropReason, Instant, Owner, Switch};
use inet::ip_input::is_martian_source;
use mbuf::{Flags, Mbuf};
use wire::{protocol, udp};

use super::super::send::{
    FLOW_LIFE, NO_BUFFER, NO_PORT, by_flow, by_unusual_flow, count, in_steps, room,
};
use super::super::{Flow, UdpError, segments, supers};
use super::Pair;
use crate::config::{IpSettings, MtuDiscovery};
use crate::stack::Stack;
use crate::{neighbours, resolve};

/// All of them have checksums, and leave in fragments if they are large.
const WITHOUT_CHECKSUM: bool = false;

impl Stack {
    /// Send a datagram from any host's address and port, ours or not, to a host on a link or behind
    /// a route, with the TTL, type of service and mark of `ip`: otherwise as [`Stack::udp_send`].
    /// Its checksum is made, and it leaves in fragments if it is larger than the path carries.
    /// Nothing comes back to a socket: answers to a source that is not ours are received by
    /// [`Stack::foreign_receive`]. See [`crate::Foreign`] for an example.
    ///
    /// # Errors
    /// [`UdpError::NoAddress`] for a source that no host can have, or of another version of IP;
    /// [`DropReason::IpMartianDestination`] for a destination that is no host; others as
    /// [`Stack::udp_send`].
    pub fn udp_send_between(
        &mut self,
        from: SocketAddr,
        to: SocketAddr,
        ip: IpSettings,
        payload: &[u8],
        now: Instant,
    ) -> Result<(), UdpError> {
        self.core.set_now(now);
        self.with_pair(from, to, ip, |stack, flow| one(stack, flow, payload))
    }

    /// [`Stack::udp_send_between`] for datagrams in order, each with source and destination;
    /// returns how many were sent.
    ///
    /// # Errors
    /// Why the first could not be sent. If a later one cannot, the call ends before it.
    pub fn udp_send_many_between(
        &mut self,
        datagrams: &[(SocketAddr, SocketAddr, &[u8])],
        ip: IpSettings,
        now: Instant,
    ) -> Result<usize, UdpError> {
        self.core.set_now(now);
        for (count, &(from, to, payload)) in datagrams.iter().enumerate() {
            match self.with_pair(from, to, ip, |stack, flow| one(stack, flow, payload)) {
                Ok(()) => {}
                Err(error) if count == 0 => return Err(error),
                Err(_) => return Ok(count),
            }
        }
        Ok(datagrams.len())
    }

    /// [`Stack::udp_send_between`] for `payload` in datagrams of `segment_size` bytes, of which the
    /// last may be shorter, as [`Stack::udp_send_segments`]; returns how many bytes were sent.
    ///
    /// # Errors
    /// [`UdpError::InvalidSegments`], [`UdpError::TooBig`] if a datagram does not fit one packet;
    /// others as [`Stack::udp_send_between`], if nothing was sent.
    pub fn udp_send_segments_between(
        &mut self,
        (from, to): (SocketAddr, SocketAddr),
        ip: IpSettings,
        payload: &[u8],
        segment_size: usize,
        now: Instant,
    ) -> Result<usize, UdpError> {
        self.core.set_now(now);
        segments::check(payload.len(), segment_size)?;
        self.with_pair(from, to, ip, |stack, flow| many(stack, flow, payload, segment_size))
    }

    /// [`Stack::udp_send_segments_between`] without a copy where that is possible: the headers are
    /// written in front of `payload`, a buffer of [`Stack::tcp_alloc`](crate::Stack::tcp_alloc) or
    /// of [`Stack::pool`]. Several datagrams are copied if the device does not cut them. With a
    /// `segment_size` of 0 it is one datagram of any length. The buffer is the stack's, also after
    /// an error.
    ///
    /// # Errors
    /// As [`Stack::udp_send_segments_between`].
    pub fn udp_send_mbuf_between(
        &mut self,
        (from, to): (SocketAddr, SocketAddr),
        ip: IpSettings,
        payload: Mbuf,
        segment_size: usize,
        now: Instant,
    ) -> Result<usize, UdpError> {
        self.core.set_now(now);
        let len = payload.len();
        let is_one = segment_size == 0 || len <= segment_size;
        let fits = if is_one { Ok(()) } else { segments::check(len, segment_size) };
        let mut payload = Some(payload);
        let sent = fits.and_then(|()| {
            self.with_pair(from, to, ip, |stack, flow| match is_one {
                true => one_mbuf(stack, flow, &mut payload).map(|()| len),
                false => many_mbuf(stack, flow, &mut payload, segment_size),
            })
        });
        if let Some(payload) = payload {
            self.core.cx.pool.free(payload);
        }
        sent
    }

    /// Call `send` with the flow between two ends, which is looked up if it is not remembered.
    #[inline(always)]
    fn with_pair<T>(
        &mut self,
        from: SocketAddr,
        to: SocketAddr,
        ip: IpSettings,
        send: impl FnOnce(&mut Stack, &Flow) -> Result<T, UdpError>,
    ) -> Result<T, UdpError> {
        let state = (self.flow_epoch(), self.core.cx.now);
        // The flow is taken out of its slot for the call, so that the stack is free.
        let known = match self.core.cx.switches.on(Switch::FlowCache) {
            true => self.between.take((from, to), ip, state),
            false => None,
        };
        let pair = match known {
            Some(pair) => pair,
            None => Box::new(look_up(self, from, to, ip)?),
        };
        let sent = send(self, &pair.flow);
        self.between.put(pair);
        sent
    }
}

/// Find how datagrams from `from` leave for `to`.
#[inline(never)]
fn look_up(
    stack: &mut Stack,
    from: SocketAddr,
    to: SocketAddr,
    ip: IpSettings,
) -> Result<Pair, UdpError> {
    if from.is_ipv4() != to.is_ipv4() || !is_host(stack, from) {
        return Err(UdpError::NoAddress);
    }
    if !is_host(stack, to) {
        return Err(UdpError::Unsendable(DropReason::IpMartianDestination));
    }
    // Read before the solicitation: an answer to it counts as a change.
    let epoch = stack.flow_epoch();
    let egress = resolve::route(stack, from, to, protocol::UDP, &Owner::program(), ip)
        .map_err(UdpError::Unsendable);
    neighbours::act(stack);
    let egress = egress?;
    let (now, link) = (stack.core.cx.now, egress.mtu);
    let most = stack.path_mtus.mtu(to.ip(), link, now);
    let until = stack.path_mtus.known(to.ip(), now).map_or(Instant::NEVER, |(_, at)| at);
    let flow = Flow {
        remote: to,
        asked: Some(from.ip()),
        local_port: from.port(),
        epoch,
        until: until.min(now + FLOW_LIFE),
        has_gap: stack.pace.gap(to.ip()).is_some(),
        most,
        link,
        sum: inet::udp::flow_sum(from, to),
        egress,
    };
    Ok(Pair { from, ip, flow })
}

/// Can a host have this address: is it neither a group nor a broadcast address of a port?
fn is_host(stack: &Stack, addr: SocketAddr) -> bool {
    !is_martian_source(addr.ip()) && !stack.is_broadcast_to(addr.ip())
}

#[inline(always)]
fn one(stack: &mut Stack, flow: &Flow, payload: &[u8]) -> Result<(), UdpError> {
    if !flow.takes(payload.len()) {
        return by_unusual_flow(stack, flow, (MtuDiscovery::Want, WITHOUT_CHECKSUM), payload);
    }
    by_flow(flow, WITHOUT_CHECKSUM, (&mut stack.ports, &mut stack.core), payload)
}

fn many(
    stack: &mut Stack,
    flow: &Flow,
    payload: &[u8],
    segment_size: usize,
) -> Result<usize, UdpError> {
    if flow.packet_len(segment_size.min(payload.len())) > flow.most().bytes() {
        return Err(UdpError::TooBig(flow.most()));
    }
    let most = supers::segments_max_of(stack, flow, WITHOUT_CHECKSUM, segment_size);
    let Stack { ports, core, .. } = stack;
    if let Some(most) = most {
        return in_steps(payload.len(), (0, most * segment_size), |part| {
            room(ports.get_mut(flow.egress.port), core)?;
            let m = core.cx.pool.copy_of(&payload[part]).ok_or(NO_BUFFER)?;
            supers::unfinished(flow, (ports, core), m, segment_size)
        });
    }
    let mut sent = 0;
    // Full segments share their headers, unless they wait for a link address or a gap.
    if flow.is_direct() && core.cx.switches.on(Switch::Stamp) {
        let whole = payload.len() - payload.len() % segment_size;
        let full = &payload[..whole];
        sent = segments::stamped_by(flow, WITHOUT_CHECKSUM, (ports, core), full, segment_size)?;
        if sent < whole {
            return Ok(sent);
        }
    }
    in_steps(payload.len(), (sent, segment_size), |part| one(stack, flow, &payload[part]))
}

/// [`one`] of a buffer, which is taken if headers can be written in front of its data.
fn one_mbuf(stack: &mut Stack, flow: &Flow, from: &mut Option<Mbuf>) -> Result<(), UdpError> {
    let Some(mut m) = from.take_if(|m| flow.takes(m.len()) && has_headroom(flow, m)) else {
        let payload = from.as_ref().map_or(&[][..], |m| m.as_slice());
        return one(stack, flow, payload);
    };
    let Stack { ports, core, .. } = stack;
    let port = ports.get_mut(flow.egress.port);
    let finishes = port.as_ref().is_some_and(|port| port.limits.offloads.tx_checksum);
    if let Err(error) = room(port, core) {
        *from = Some(m);
        return Err(error);
    }
    forget_metadata(&mut m);
    let summing = core.cx.switches.on(Switch::ChecksumTx);
    if finishes && summing {
        let len = m.len();
        return supers::unfinished(flow, (ports, core), m, len);
    }
    let sum = summing.then(|| core.cx.ladder.sum(m.as_slice()));
    let header = flow.header(m.len(), sum);
    let too_big = UdpError::Unsendable(DropReason::IpTooBig);
    m.prepend(udp::HEADER_LEN).ok_or(too_big)?.copy_from_slice(&header);
    flow.egress.template.prepend(&mut m).map_err(UdpError::Unsendable)?;
    ports.get_mut(flow.egress.port).ok_or(NO_PORT)?.push(m);
    count(core, 1, WITHOUT_CHECKSUM);
    Ok(())
}

/// [`many`] of a buffer, which is taken if the device cuts it as a whole.
fn many_mbuf(
    stack: &mut Stack,
    flow: &Flow,
    from: &mut Option<Mbuf>,
    segment_size: usize,
) -> Result<usize, UdpError> {
    let most = supers::segments_max_of(stack, flow, WITHOUT_CHECKSUM, segment_size).unwrap_or(0);
    let fits = flow.packet_len(segment_size) <= flow.most().bytes();
    let is_whole = |m: &mut Mbuf| fits && m.len() <= most * segment_size && has_headroom(flow, m);
    let Some(mut m) = from.take_if(is_whole) else {
        let payload = from.as_ref().map_or(&[][..], |m| m.as_slice());
        return many(stack, flow, payload, segment_size);
    };
    let Stack { ports, core, .. } = stack;
    if let Err(error) = room(ports.get_mut(flow.egress.port), core) {
        *from = Some(m);
        return Err(error);
    }
    forget_metadata(&mut m);
    let len = m.len();
    supers::unfinished(flow, (ports, core), m, segment_size).map(|()| len)
}

/// May the headers be written in front of the data?
fn has_headroom(flow: &Flow, m: &Mbuf) -> bool {
    m.is_exclusive() && m.headroom() >= flow.egress.template.len() + udp::HEADER_LEN
}

/// A buffer that was received has the metadata of its frame.
fn forget_metadata(m: &mut Mbuf) {
    m.clear(Flags::CSUM_VERIFIED | Flags::CSUM_PARTIAL | Flags::SUMMED | Flags::LINK_GROUP);
    m.clear(Flags::PUSH | Flags::VLAN | Flags::PACED);
    m.set_segment_size(0);
}
