//! Datagrams that are larger than their path carries, in fragments.
//!
//! Called by: UDP and echo sockets, `tx.rs` for echo replies, `resolve.rs` for what waited for a
//! link address. All fragments of a datagram are made before the first is sent, and leave back to
//! back. RFC 791 section 3.2, RFC 8200 section 4.5, RFC 8900 (why programs should send less).

use core::net::IpAddr;

use base::{Counter, DropReason, Mtu};
use inet::frag::FragmentHeader;
use mbuf::{Mbuf, Pool};
use tcp::Fate;
use wire::{ipv4, ipv6};

use crate::resolve::{self, Egress};
use crate::{Stack, tx};

/// Bytes of transport header and data in the largest datagram to `dst`.
pub(crate) fn transport_max(dst: IpAddr) -> usize {
    // IPv6 does not count its own header.
    usize::from(u16::MAX) - if dst.is_ipv4() { ipv4::HEADER_LEN } else { 0 }
}

/// Send a transport header and the data behind it, in fragments if the packet has more than `most`
/// bytes. While the link address is unknown the whole datagram waits.
///
/// # Errors
/// The named reason; [`DropReason::IpTooBig`] for more than [`transport_max`], and for a broadcast
/// in fragments, which nobody should send.
pub(crate) fn send(
    stack: &mut Stack,
    egress: &Egress,
    header: &[u8],
    data: &[u8],
    most: Mtu,
) -> Fate {
    let template = &egress.template;
    let (link_len, len) = (template.link_len(), header.len() + data.len());
    if !egress.is_complete || template.len() - link_len + len <= most.bytes() {
        let pool = &mut stack.core.cx.pool;
        let mut m = pool.alloc(len).ok_or(DropReason::MbufExhausted)?;
        m.append(header);
        m.append(data);
        return resolve::send(stack, egress, m);
    }
    let headers = FragmentHeader::new(template.headers(), link_len).ok_or(DropReason::IpTooBig)?;
    fragments(stack, egress.port, headers, (header, data), most)
}

/// Put a finished frame that waited for a link address into its port's burst.
pub(crate) fn put(stack: &mut Stack, port_id: u16, frame: Mbuf) {
    let Some((headers, most, at)) = too_large(stack, port_id, &frame) else {
        return tx::put(stack, port_id, frame);
    };
    let data = frame.as_slice().get(at..).unwrap_or_default();
    if let Err(reason) = fragments(stack, port_id, headers, (&[], data), most) {
        stack.core.drops.count(reason);
    }
    stack.core.cx.pool.free(frame);
}

/// The headers of the fragments of a frame that its path does not carry whole, the MTU of that,
/// and where the frame's data begins.
fn too_large(stack: &Stack, port_id: u16, frame: &Mbuf) -> Option<(FragmentHeader, Mtu, usize)> {
    let port = stack.ports.get(port_id)?;
    let link_len = port.limits.link.header_len();
    let bytes = frame.as_slice();
    let is_v6 = bytes.get(link_len)? >> 4 == 6;
    let at = link_len + if is_v6 { ipv6::HEADER_LEN } else { ipv4::HEADER_LEN };
    let headers = FragmentHeader::new(bytes.get(..at)?, link_len)?;
    let (src, dst, _) = headers.flow();
    let most = stack.path_mtus.mtu(dst, port.limits.mtu, stack.core.cx.now);
    // What is forwarded fits its port, and is not ours to cut for what we know of its path.
    let is_ours = || stack.has_address(src);
    (bytes.len() - link_len > most.bytes() && is_ours()).then_some((headers, most, at))
}

/// Send a datagram, whose bytes are in two pieces, in fragments of packets of at most `most` bytes.
#[cold]
fn fragments(
    stack: &mut Stack,
    port_id: u16,
    mut headers: FragmentHeader,
    (header, data): (&[u8], &[u8]),
    most: Mtu,
) -> Fate {
    let core = &mut stack.core;
    let (src, dst, protocol) = headers.flow();
    let port = stack.ports.get_mut(port_id).ok_or(DropReason::TxNoPort)?;
    let is_broadcast = dst.is_ipv4() && !dst.is_multicast() && port.local.is_group(dst);
    if is_broadcast || header.len() + data.len() > transport_max(dst) {
        return Err(DropReason::IpTooBig);
    }
    // RFC 8200 4.5-a, RFC 6864 4.3-a.
    headers.set_id(stack.ids.next(&core.secret, src, dst, protocol));
    let frames = cut(&mut core.cx.pool, &headers, (header, data), most)?;
    // Into a burst of their own, if this one is too full for all of them.
    if port.room() < frames.len() {
        port.flush(&mut core.cx);
    }
    if !port.has_room(&mut core.cx) {
        return Err(DropReason::TxFull);
    }
    core.cx.counters.add(Counter::DatagramsFragmented, 1);
    core.cx.counters.add(Counter::FragmentsOut, frames.len() as u64);
    for frame in frames {
        // What the device does not take now waits at the port: there was room for the first, so
        // that this datagram is all that waits.
        port.push_or_hold(frame, &mut core.cx);
    }
    Ok(())
}

/// All fragments, with their headers in front; data is copied once.
fn cut(
    pool: &mut Pool,
    headers: &FragmentHeader,
    (header, data): (&[u8], &[u8]),
    most: Mtu,
) -> Result<Vec<Mbuf>, DropReason> {
    let (len, each) = (header.len() + data.len(), headers.data_max(most));
    let mut frames = Vec::with_capacity(len.div_ceil(each.max(1)));
    let (mut begin, mut header, mut data) = (0, header, data);
    while begin < len {
        let n = each.min(len - begin);
        let mut m = pool.alloc(n).ok_or(DropReason::MbufExhausted)?;
        let (front, rest) = header.split_at(n.min(header.len()));
        let (behind, others) = data.split_at(n - front.len());
        m.append(front);
        m.put(behind.len(), |to| mbuf::copy(behind, to)).ok_or(DropReason::MbufExhausted)?;
        let into = m.prepend(headers.header_len()).ok_or(DropReason::IpTooBig)?;
        if !headers.write(into, begin, n, begin + n < len) {
            return Err(DropReason::IpTooBig);
        }
        frames.push(m);
        (header, data) = (rest, others);
        begin += n;
    }
    Ok(frames)
}
