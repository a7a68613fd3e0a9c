//! UDP: checks the header of a received datagram, and writes the header and checksum of a sent one.
//!
//! Called by: `stack`. RFC 768, RFC 8200 section 8.1, RFC 6935.

use core::net::SocketAddr;

use base::DropReason;
use wire::checksum::{Ladder, Sum};
use wire::{protocol, udp};

use crate::Ip;
use crate::flow::Addrs;

/// Check a datagram. `transport` is the IP payload, which begins with the UDP header. Returns the
/// header; the UDP payload is `transport[8..length]`. A checksum of zero means none. Over IPv4 that
/// is valid; over IPv6 the caller has to know whether the port accepts such datagrams (RFC 6935
/// section 5).
///
/// # Errors
/// [`DropReason::UdpShort`], [`DropReason::UdpChecksum`].
pub fn udp_input<A: Addrs>(
    ip: &Ip<A>,
    transport: &[u8],
    verify: bool,
    ladder: Ladder,
) -> Result<udp::Header, DropReason> {
    let header = udp::Header::parse(transport)?;
    let length = usize::from(header.length);
    let datagram = transport.get(..length).ok_or(DropReason::UdpShort)?;
    if !verify || header.checksum == [0, 0] {
        return Ok(header);
    }
    let sum = ladder.sum(datagram);
    let whole = if length == transport.len() {
        ip.with_pseudo_header(sum)
    } else {
        // The length of the pseudo-header is that of the datagram (RFC 8200 section 8.1).
        let pseudo = crate::ip_input::pseudo_sum(ip.src(), ip.dst(), ip.protocol);
        pseudo.plus(Sum::of_be16(header.length)).plus(sum)
    };
    if !whole.is_whole() {
        return Err(DropReason::UdpChecksum);
    }
    Ok(header)
}

/// The sum of the fields that all datagrams between two ends share: addresses, protocol and ports.
pub fn flow_sum(src: SocketAddr, dst: SocketAddr) -> Sum {
    crate::ip_input::pseudo_sum(src.ip(), dst.ip(), protocol::UDP)
        .plus(Sum::of_be16(src.port()))
        .plus(Sum::of_be16(dst.port()))
}

/// The header of a datagram of `payload_len` bytes whose checksum a device finishes. Its checksum
/// field contains the sum of the pseudo-header (VIRTIO 1.2 section 5.1.6.2).
#[inline(always)]
pub fn unfinished_header(
    (src_port, dst_port): (u16, u16),
    payload_len: usize,
    flow: Sum,
) -> [u8; udp::HEADER_LEN] {
    let length = (udp::HEADER_LEN + payload_len) as u16;
    let ports = Sum::of_be16(src_port).plus(Sum::of_be16(dst_port));
    let checksum = flow.minus(ports).plus(Sum::of_be16(length)).0.to_ne_bytes();
    let mut bytes = [0; udp::HEADER_LEN];
    udp::Header { src_port, dst_port, length, checksum }.emit(&mut bytes);
    bytes
}

/// The header of a datagram of `payload_len` bytes, at most 65,527. `flow` is [`flow_sum`],
/// `payload` the payload's sum. If `payload` is `None`, the checksum is zero (none), which IPv6
/// receivers refuse unless they have allowed it.
#[inline(always)]
pub fn header(
    (src_port, dst_port): (u16, u16),
    payload_len: usize,
    flow: Sum,
    payload: Option<Sum>,
) -> [u8; udp::HEADER_LEN] {
    let length = (udp::HEADER_LEN + payload_len) as u16;
    let checksum = payload.map_or([0, 0], |payload| {
        // The length is counted twice: it is in the pseudo-header and in the header.
        let lengths = Sum::of_be16(length).plus(Sum::of_be16(length));
        udp::checksum_field(flow.plus(lengths).plus(payload))
    });
    let mut bytes = [0; udp::HEADER_LEN];
    udp::Header { src_port, dst_port, length, checksum }.emit(&mut bytes);
    bytes
}
