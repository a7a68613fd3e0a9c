//! Super-datagrams: many datagrams of one size in one frame with a segment size. The device cuts it
//! (Linux's USO), or hands it uncut to another host on this machine.
//!
//! Called by: `segments.rs` to send, `input.rs` for received ones. Each datagram that is received
//! gets a buffer of its own, so that a reader who keeps one does not keep the others. RFC 768,
//! VIRTIO 1.2 section 5.1.6. Counter: `udp_segments`.

use core::net::SocketAddr;

use base::{Counter, DropReason, Switch};
use mbuf::{Flags, Mbuf};
use tcp::Fate;
use wire::udp;

use super::send::{NO_BUFFER, NO_PORT, copied, count, in_steps, room};
use super::{Datagram, Flow, SEGMENTS_MAX, UdpError, receive};
use crate::handles::UdpHandle;
use crate::port::Ports;
use crate::shared::Core;
use crate::stack::Stack;

/// The largest value of an IP packet's length field.
const PACKET_MAX: usize = 65_535;

/// How many datagrams of `segment_size` bytes go into one frame of the socket's flow. `None` if the
/// flow's device takes no super-datagrams, or if the socket sends without checksums, which a device
/// that cuts would add.
pub(super) fn segments_max(stack: &Stack, handle: UdpHandle, segment_size: usize) -> Option<usize> {
    let socket = stack.udp.get(handle)?;
    let flow = socket.flow.as_deref()?;
    segments_max_of(stack, flow, socket.options.no_checksum, segment_size)
}

/// [`segments_max`] of a flow.
pub(super) fn segments_max_of(
    stack: &Stack,
    flow: &Flow,
    without_checksum: bool,
    segment_size: usize,
) -> Option<usize> {
    let limits = &stack.ports.get(flow.egress.port)?.limits;
    let offloads = limits.offloads;
    let switches = stack.core.cx.switches;
    let makes_checksums = !without_checksum && switches.on(Switch::ChecksumTx);
    if offloads.uso_max_bytes == 0 || !offloads.tx_checksum || !makes_checksums {
        return None;
    }
    let frame_max = offloads.uso_max_bytes.min(PACKET_MAX + limits.link.header_len());
    let headers = limits.link.header_len() + flow.packet_len(0);
    let most = (frame_max.saturating_sub(headers) / segment_size).min(SEGMENTS_MAX);
    (most > 1 && flow.is_direct() && switches.on(Switch::Stamp)).then_some(most)
}

/// Send `payload` in frames of at most `most` datagrams each; returns for how many bytes there was
/// room.
#[inline(never)]
pub(super) fn send(
    stack: &mut Stack,
    handle: UdpHandle,
    payload: &[u8],
    segment_size: usize,
    most: usize,
) -> Result<usize, UdpError> {
    in_steps(payload.len(), (0, most * segment_size), |part| {
        frame(stack, handle, &payload[part], segment_size)
    })
}

fn frame(
    stack: &mut Stack,
    handle: UdpHandle,
    payload: &[u8],
    segment_size: usize,
) -> Result<(), UdpError> {
    let Stack { udp, ports, core, .. } = stack;
    let socket = udp.get(handle).ok_or(UdpError::Closed)?;
    let flow = socket.flow.as_deref().ok_or(UdpError::Closed)?;
    room(ports.get_mut(flow.egress.port), core)?;
    let (m, _) = copied(core, payload, false).ok_or(NO_BUFFER)?;
    unfinished(flow, (ports, core), m, segment_size)
}

/// Send the datagrams in `m`, of `segment_size` bytes each, as one frame whose checksum the device
/// finishes; the caller has asked for room.
#[inline(always)]
pub(super) fn unfinished(
    flow: &Flow,
    (ports, core): (&mut Ports, &mut Core),
    mut m: Mbuf,
    segment_size: usize,
) -> Result<(), UdpError> {
    let len = m.len();
    let too_big = UdpError::Unsendable(DropReason::IpTooBig);
    let header = flow.unfinished_header(len);
    m.prepend(udp::HEADER_LEN).ok_or(too_big)?.copy_from_slice(&header);
    m.set(Flags::CSUM_PARTIAL);
    m.set_csum(0);
    let segments = len.div_ceil(segment_size.max(1)).max(1) as u64;
    if segments > 1 {
        // The payload is less than a frame's maximum, so the size fits the field.
        m.set_segment_size(u16::try_from(segment_size).map_err(|_| too_big)?);
    }
    flow.egress.template.prepend(&mut m).map_err(UdpError::Unsendable)?;
    ports.get_mut(flow.egress.port).ok_or(NO_PORT)?.push(m);
    count(core, segments, false);
    core.cx.counters.add(Counter::UdpSegments, segments - 1);
    Ok(())
}

/// Put the datagrams in the payload of a received super-datagram into their socket's queue.
#[inline(never)]
pub(super) fn deliver(
    stack: &mut Stack,
    handle: UdpHandle,
    (from, to): (SocketAddr, SocketAddr),
    m: Mbuf,
) -> Fate {
    for segment in m.as_slice().chunks(usize::from(m.segment_size()).max(1)) {
        let taken = match stack.core.cx.pool.copy_of(segment) {
            Some(payload) => receive::deliver(stack, handle, Datagram { from, to, payload }, false),
            None => Err(DropReason::MbufExhausted),
        };
        if let Err(reason) = taken {
            stack.core.drops.count(reason);
        }
    }
    stack.core.cx.pool.free(m);
    Ok(())
}
