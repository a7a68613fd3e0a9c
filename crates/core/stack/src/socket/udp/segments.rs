//! Sends many datagrams of one size in one call, as with Linux's UDP_SEGMENT. The first datagram is
//! made like any other; the following ones get its headers with another checksum (switch `stamp`).
//! A device that cuts super-datagrams gets all of them in one frame (`supers.rs`).
//!
//! Called by: programs. RFC 768. Counter: `udp_segments`.

use core::net::SocketAddr;

use base::{Counter, DropReason, Instant, Switch};
use wire::udp;

use super::send::{NO_BUFFER, NO_PORT, copied, count, in_steps, room};
use super::{Flow, SEGMENTS_MAX, UdpError, supers};
use crate::handles::UdpHandle;
use crate::port::Ports;
use crate::shared::Core;
use crate::stack::Stack;

/// The most bytes that one call sends, as in Linux.
const BYTES_MAX: usize = 65_535;

/// At least the bytes of link header, IPv6 header and UDP header.
const HEADERS_MAX: usize = 64;

impl Stack {
    /// Send `payload` to one destination in datagrams of `segment_size` bytes, of which the last
    /// may be shorter: at most `SEGMENTS_MAX` datagrams and 65,535 bytes. Returns how many bytes
    /// were sent, in whole datagrams; fewer than `payload` has if the device is full.
    ///
    /// # Errors
    /// [`UdpError::InvalidSegments`]; [`UdpError::TooBig`] if a datagram does not fit one packet,
    /// even if [`super::MtuDiscovery`] allows fragments; those of [`Stack::udp_send`], if nothing
    /// was sent.
    pub fn udp_send_segments(
        &mut self,
        handle: UdpHandle,
        remote: SocketAddr,
        payload: &[u8],
        segment_size: usize,
        now: Instant,
    ) -> Result<usize, UdpError> {
        self.core.set_now(now);
        check(payload.len(), segment_size)?;
        if remote.ip().is_multicast() {
            return self.udp_send_parts(handle, remote, payload, segment_size, 0);
        }
        self.udp_flow_to(handle, None, remote)?;
        let socket = self.udp.get(handle).ok_or(UdpError::Closed)?;
        let flow = socket.flow.as_deref().ok_or(UdpError::Closed)?;
        let limit = flow.limit(socket.options.mtu_discovery);
        if flow.packet_len(segment_size.min(payload.len())) > limit.bytes() {
            return Err(UdpError::TooBig(limit));
        }
        if let Some(most) = supers::segments_max(self, handle, segment_size) {
            return supers::send(self, handle, payload, segment_size, most);
        }
        let mut sent = 0;
        // Full segments share their headers, unless they wait for a link address or a gap.
        if flow.is_direct() && self.core.cx.switches.on(Switch::Stamp) {
            let whole = payload.len() - payload.len() % segment_size;
            match stamped(self, handle, &payload[..whole], segment_size) {
                Ok(bytes) if bytes < whole => return Ok(bytes),
                Ok(bytes) => sent = bytes,
                Err(error) => return Err(error),
            }
        }
        self.udp_send_parts(handle, remote, payload, segment_size, sent)
    }

    /// Send the bytes after the first `sent`, one datagram after the other. Returns how many bytes
    /// were sent, including the first `sent`.
    fn udp_send_parts(
        &mut self,
        handle: UdpHandle,
        remote: SocketAddr,
        payload: &[u8],
        segment_size: usize,
        sent: usize,
    ) -> Result<usize, UdpError> {
        in_steps(payload.len(), (sent, segment_size), |part| {
            self.udp_send_one(handle, None, remote, &payload[part])
        })
    }
}

/// May a call have so many bytes in segments of this size?
pub(super) fn check(len: usize, segment_size: usize) -> Result<(), UdpError> {
    let fits = len <= BYTES_MAX && segment_size > 0 && len.div_ceil(segment_size) <= SEGMENTS_MAX;
    if fits { Ok(()) } else { Err(UdpError::InvalidSegments) }
}

/// Send a payload whose length is a multiple of `segment_size`; returns for how many bytes there
/// was room.
#[inline(never)]
fn stamped(
    stack: &mut Stack,
    handle: UdpHandle,
    payload: &[u8],
    segment_size: usize,
) -> Result<usize, UdpError> {
    let Stack { udp, ports, core, .. } = stack;
    let socket = udp.get(handle).ok_or(UdpError::Closed)?;
    let flow = socket.flow.as_deref().ok_or(UdpError::Closed)?;
    stamped_by(flow, socket.options.no_checksum, (ports, core), payload, segment_size)
}

/// [`stamped`] by a flow.
#[inline(always)]
pub(super) fn stamped_by(
    flow: &Flow,
    without: bool,
    (ports, core): (&mut Ports, &mut Core),
    payload: &[u8],
    segment_size: usize,
) -> Result<usize, UdpError> {
    let summing = !without && core.cx.switches.on(Switch::ChecksumTx);
    let template = &flow.egress.template;
    let headers_len = template.len() + udp::HEADER_LEN;
    // The headers are at the end of the array.
    let (mut headers, mut sent, mut made) = ([0; HEADERS_MAX], 0, 0);
    let mut outcome = Ok(());
    for segment in payload.chunks_exact(segment_size) {
        outcome = room(ports.get_mut(flow.egress.port), core);
        if outcome.is_err() {
            break;
        }
        let Some((mut m, sum)) = copied(core, segment, summing) else {
            outcome = Err(NO_BUFFER);
            break;
        };
        let header = flow.header(segment_size, sum);
        let too_big = UdpError::Unsendable(DropReason::IpTooBig);
        if made == 0 {
            m.prepend(udp::HEADER_LEN).ok_or(too_big)?.copy_from_slice(&header);
            template.prepend(&mut m).map_err(UdpError::Unsendable)?;
            let front = m.as_slice().get(..headers_len).ok_or(too_big)?;
            let at = HEADERS_MAX.checked_sub(headers_len).ok_or(too_big)?;
            headers[at..].copy_from_slice(front);
        } else {
            // The array is larger than the headers, so that the copy has a fixed size.
            let front = m.prepend(HEADERS_MAX).ok_or(too_big)?;
            let front: &mut [u8; HEADERS_MAX] = front.first_chunk_mut().ok_or(too_big)?;
            *front = headers;
            front[HEADERS_MAX - udp::HEADER_LEN..].copy_from_slice(&header);
            m.trim_front(HEADERS_MAX - headers_len);
        }
        ports.get_mut(flow.egress.port).ok_or(NO_PORT)?.push(m);
        made += 1;
        sent += segment_size;
    }
    count(core, made, without);
    core.cx.counters.add(Counter::UdpSegments, made.saturating_sub(1));
    match outcome {
        Err(error) if made == 0 => Err(error),
        _ => Ok(sent),
    }
}
