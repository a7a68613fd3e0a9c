//! Sends datagrams that are larger than their path carries, in fragments.
//!
//! Called by: UDP and echo sockets; `icmp.rs` for echo replies; `neighbours.rs` for packets that
//! waited for a link address. All fragments of a datagram are made before the first is sent, and
//! leave back to back. RFC 791 section 3.2, RFC 8200 section 4.5, RFC 8900 (why programs should
//! send smaller datagrams).

use core::net::IpAddr;
use core::ops::DerefMut;

use base::{Counter, DropReason, Mtu};
use inet::frag::FragmentHeader;
use inet::neighbour::Key;
use mbuf::{Mbuf, Pool};
use tcp::Fate;
use wire::checksum::{Ladder, Sum};
use wire::{ipv4, ipv6, udp};

use crate::next_hop::mtu_of;
use crate::resolving::Egress;
use crate::stack::Stack;
use crate::{pace, resolve};

/// Bytes of transport header and data in the largest datagram to `dst`.
pub(crate) fn transport_max(dst: IpAddr) -> usize {
    // The payload length of IPv6 does not count the IP header.
    usize::from(u16::MAX) - if dst.is_ipv4() { ipv4::HEADER_LEN } else { 0 }
}

/// [`transport_max`] of packets with this egress. Its neighbour may be of another version (RFC
/// 8950).
#[inline(always)]
fn transport_max_of(egress: &Egress) -> usize {
    let template = &egress.template;
    let is_v4 = template.len() - template.link_len() == ipv4::HEADER_LEN;
    usize::from(u16::MAX) - if is_v4 { ipv4::HEADER_LEN } else { 0 }
}

/// Send a transport header and the data that follows it, in fragments if the packet has more than
/// `most` bytes. While the link address is unknown the whole datagram waits.
///
/// # Errors
/// The named reason why nothing was sent: for example [`DropReason::IpTooBig`] for more than
/// [`transport_max`] bytes, and for a broadcast in fragments, which nobody should send.
pub(crate) fn send(
    stack: &mut Stack,
    egress: &Egress,
    header: &[u8],
    data: &[u8],
    most: Mtu,
) -> Fate {
    send_made(stack, egress, &Payload { header, data, ladder: None, finish: &|_, _| {} }, most)
}

/// [`send`] a UDP datagram from port `ports.0` to port `ports.1`; `flow` is `inet::udp::flow_sum`.
/// If there is a `ladder`, the checksum is computed while the data is copied.
///
/// # Errors
/// Those of [`send`].
#[inline(always)]
pub(crate) fn send_udp(
    stack: &mut Stack,
    egress: &Egress,
    (ports, flow, ladder): ((u16, u16), Sum, Option<Ladder>),
    data: &[u8],
    most: Mtu,
) -> Fate {
    if udp::HEADER_LEN + data.len() > transport_max_of(egress) {
        return Err(DropReason::IpTooBig);
    }
    // The header is written when the sum of the data is known.
    let header = [0; udp::HEADER_LEN];
    let finish = |header: &mut [u8], data_sum: Sum| {
        let sum = ladder.map(|_| data_sum);
        header.copy_from_slice(&inet::udp::header(ports, data.len(), flow, sum));
    };
    send_made(stack, egress, &Payload { header: &header, data, ladder, finish: &finish }, most)
}

/// The part of a datagram after its IP header.
struct Payload<'a> {
    /// The transport header: eight bytes, all of them in the first fragment; or empty.
    header: &'a [u8],
    data: &'a [u8],
    /// Computes the sum of the data while it is copied, if there is a checksum to make.
    ladder: Option<Ladder>,
    /// Called with the copied header and the sum of the data.
    finish: &'a dyn Fn(&mut [u8], Sum),
}

impl Payload<'_> {
    fn len(&self) -> usize {
        self.header.len() + self.data.len()
    }

    /// Copy `n` bytes, beginning at `begin`, into a new buffer. Returns the sum of the data bytes
    /// among them, if sums are computed. The length of all but the last piece is a multiple of
    /// eight bytes.
    #[inline(always)]
    fn copy(&self, pool: &mut Pool, begin: usize, n: usize) -> Option<(Mbuf, Sum)> {
        let front = if begin == 0 { self.header } else { &[] };
        let from = begin.saturating_sub(self.header.len());
        let data = self.data.get(from..from + n.checked_sub(front.len())?)?;
        let (mut m, sum) = pool.alloc_filled(n, data.len(), |to| match self.ladder {
            Some(ladder) => ladder.copy_sum(data, to),
            None => {
                mbuf::copy(data, to);
                Sum::ZERO
            }
        })?;
        if let Some(front) = front.first_chunk::<{ udp::HEADER_LEN }>() {
            m.prepend(udp::HEADER_LEN)?.copy_from_slice(front);
        }
        Some((m, sum))
    }

    /// Call [`Payload::finish`] with the header, which begins `at` bytes into `m`.
    fn finish(&self, m: &mut Mbuf, at: usize, sum: Sum) {
        let headers = m.headers_mut(at + self.header.len());
        if let Some(header) = headers.and_then(|headers| headers.get_mut(at..)) {
            (self.finish)(header, sum);
        }
    }
}

#[inline(always)]
fn send_made(stack: &mut Stack, egress: &Egress, payload: &Payload<'_>, most: Mtu) -> Fate {
    let template = &egress.template;
    let (link_len, len) = (template.link_len(), payload.len());
    if !egress.is_complete || template.len() - link_len + len <= most.bytes() {
        let pool = &mut stack.core.cx.pool;
        let (mut m, sum) = payload.copy(pool, 0, len).ok_or(DropReason::MbufExhausted)?;
        payload.finish(&mut m, 0, sum);
        return resolve::send(stack, egress, m);
    }
    let headers = FragmentHeader::of(template).ok_or(DropReason::IpTooBig)?;
    fragments(stack, (egress.port, egress.is_broadcast), headers, payload, most)
}

/// Put a finished frame that waited for the link address of `neighbour` into its port's burst.
pub(crate) fn put(stack: &mut Stack, neighbour: Key, frame: Mbuf) {
    let port_id = neighbour.0;
    let Some((headers, most, at)) = too_large(stack, neighbour, &frame) else {
        return pace::put(stack, port_id, frame);
    };
    let data = frame.as_slice().get(at..).unwrap_or_default();
    let payload = Payload { header: &[], data, ladder: None, finish: &|_, _| {} };
    let dst = headers.dst();
    let is_broadcast = dst.is_ipv4()
        && !dst.is_multicast()
        && stack.ports.get(port_id).is_some_and(|port| port.local.is_group(dst));
    if let Err(reason) = fragments(stack, (port_id, is_broadcast), headers, &payload, most) {
        stack.core.drops.count(reason);
    }
    stack.core.cx.pool.free(frame);
}

/// For a frame of ours that is too large for its path: the headers of its fragments, the path's
/// MTU, and where the frame's data begins. `None` for other frames.
fn too_large(stack: &Stack, neighbour: Key, frame: &Mbuf) -> Option<(FragmentHeader, Mtu, usize)> {
    let port = stack.ports.get(neighbour.0)?;
    let link_len = port.limits.link.header_len();
    let bytes = frame.as_slice();
    let is_v6 = bytes.get(link_len)? >> 4 == 6;
    let at = link_len + if is_v6 { ipv6::HEADER_LEN } else { ipv4::HEADER_LEN };
    let headers = FragmentHeader::new(bytes.get(..at)?, link_len)?;
    let (src, dst) = (headers.src(), headers.dst());
    let link = mtu_of(stack, neighbour, src, dst);
    // Forwarded packets fit their port, alone or as a super-segment; a router does not cut them to
    // a path MTU that it knows. What does not fit was sent here, from an address of other hosts.
    let most = match stack.has_address(src) {
        true => stack.path_mtus.mtu(dst, link, stack.core.cx.now),
        false => link,
    };
    let is_large = bytes.len() - link_len > most.bytes() && frame.segment_size() == 0;
    is_large.then_some((headers, most, at))
}

/// Send a datagram in fragments, each a packet of at most `most` bytes: all of them, or none.
#[inline(never)]
fn fragments(
    stack: &mut Stack,
    (port_id, is_broadcast): (u16, bool),
    mut headers: FragmentHeader,
    payload: &Payload<'_>,
    most: Mtu,
) -> Fate {
    let (core, dst, len) = (&mut stack.core, headers.dst(), payload.len());
    if is_broadcast || len > transport_max(dst) {
        return Err(DropReason::IpTooBig);
    }
    // RFC 8200 4.5-a, RFC 6864 4.3-a: the identification differs from that of recent datagrams.
    headers.set_id(stack.ids.next(&core.secret, headers.flow()));
    let port = stack.ports.get_mut(port_id).ok_or(DropReason::TxNoPort)?;
    let count = len.div_ceil(headers.data_max(most));
    if stack.pace.is_on() || !port.takes(count) {
        return made_before(stack, (port_id, dst), &headers, payload, most);
    }
    let before = port.pending();
    if let Err(reason) = cut(&mut core.cx.pool, &headers, payload, most, port.uncounted()) {
        core.cx.pool.free_all(port.take_back(before));
        return Err(reason);
    }
    port.count_bytes(len + count * headers.header_len());
    count_fragments(&mut core.cx, count);
    Ok(())
}

/// [`fragments`] for those that do not fit into the current burst, or that leave with a gap between
/// them.
#[cold]
#[inline(never)]
fn made_before(
    stack: &mut Stack,
    (port_id, dst): (u16, IpAddr),
    headers: &FragmentHeader,
    payload: &Payload<'_>,
    most: Mtu,
) -> Fate {
    let mut frames = core::mem::take(&mut stack.fragments_out);
    let outcome = cut(&mut stack.core.cx.pool, headers, payload, most, &mut frames)
        .and_then(|()| leave(stack, port_id, dst, &mut frames));
    // Only fragments that could not be sent are left in `frames`.
    stack.core.cx.pool.free_all(frames.drain(..));
    stack.fragments_out = frames;
    outcome
}

/// Give the fragments of a datagram to the port.
fn leave(stack: &mut Stack, port_id: u16, dst: IpAddr, frames: &mut Vec<Mbuf>) -> Fate {
    let core = &mut stack.core;
    let port = stack.ports.get_mut(port_id).ok_or(DropReason::TxNoPort)?;
    let count = frames.len();
    if let Some(gap) = stack.pace.gap(dst) {
        pace::enqueue(stack, (port_id, dst, gap), frames.drain(..))?;
        count_fragments(&mut stack.core.cx, count);
        return Ok(());
    }
    // If the current burst has no room for all of them, they get a burst of their own.
    if port.room() < count {
        port.flush(&mut core.cx);
    }
    if !port.has_room(&mut core.cx) {
        return Err(DropReason::TxFull);
    }
    count_fragments(&mut core.cx, count);
    for frame in frames.drain(..) {
        // Frames that the device does not accept now wait at the port. There was room for the first
        // one, so only frames of this datagram wait.
        port.push_or_hold(frame, &mut core.cx);
    }
    Ok(())
}

fn count_fragments(cx: &mut tcp::Cx, count: usize) {
    cx.counters.add(Counter::DatagramsFragmented, 1);
    cx.counters.add(Counter::FragmentsOut, count as u64);
}

/// Append all fragments of a datagram to `frames`, with their headers. The data is copied once.
#[inline(always)]
fn cut<F: Extend<Mbuf> + DerefMut<Target = [Mbuf]>>(
    pool: &mut Pool,
    headers: &FragmentHeader,
    payload: &Payload<'_>,
    most: Mtu,
    frames: &mut F,
) -> Fate {
    let (len, each) = (payload.len(), headers.data_max(most));
    let (first, mut begin, mut sum) = (frames.len(), 0, Sum::ZERO);
    while begin < len {
        let n = each.min(len - begin);
        let (mut m, part) = payload.copy(pool, begin, n).ok_or(DropReason::MbufExhausted)?;
        sum = sum.plus(part);
        let into = m.prepend(headers.header_len()).ok_or(DropReason::IpTooBig)?;
        if !headers.write(into, begin, n, begin + n < len) {
            return Err(DropReason::IpTooBig);
        }
        frames.extend(Some(m));
        begin += n;
    }
    if let Some(first) = frames.get_mut(first) {
        payload.finish(first, headers.header_len(), sum);
    }
    Ok(())
}
