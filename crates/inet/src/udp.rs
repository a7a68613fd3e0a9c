//! UDP: checks the header of a received datagram, writes header and checksum of one to send.
//!
//! Called by: `stack`. RFC 768, RFC 8200 section 8.1.

use base::DropReason;
use mbuf::Mbuf;
use wire::checksum::{Ladder, Sum};
use wire::udp;

use crate::Ip;
use crate::flow::Addrs;

/// Check a datagram; `transport` is the IP payload, UDP header first. Returns the header; the UDP
/// payload is `transport[8..length]`.
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
    if header.checksum == [0, 0] {
        // No checksum: IPv4 allows it, IPv6 does not.
        return if ip.src().is_ipv4() { Ok(header) } else { Err(DropReason::UdpChecksum) };
    }
    let pseudo = crate::ip_input::pseudo_sum(ip.src(), ip.dst(), ip.protocol)
        .plus(Sum::of_be16(header.length));
    if verify && !pseudo.plus(ladder.sum(datagram)).is_whole() {
        return Err(DropReason::UdpChecksum);
    }
    Ok(header)
}

/// Put a UDP header in front of a payload; `pseudo` is the pseudo-header's sum without length.
/// Without a `ladder` the checksum is zero (none), which IPv6 receivers refuse.
///
/// # Errors
/// [`DropReason::IpTooBig`] if the datagram exceeds 65,535 bytes, or there is no room in front.
pub fn udp_output(
    m: &mut Mbuf,
    ports: (u16, u16),
    pseudo: Sum,
    ladder: Option<Ladder>,
) -> Result<(), DropReason> {
    let header = header_for(m.as_slice(), ports, pseudo, ladder)?;
    m.prepend(udp::HEADER_LEN).ok_or(DropReason::IpTooBig)?.copy_from_slice(&header);
    Ok(())
}

/// The UDP header of a payload that is elsewhere; arguments as of [`udp_output`].
///
/// # Errors
/// [`DropReason::IpTooBig`] past 65,535 bytes.
pub fn header_for(
    payload: &[u8],
    ports: (u16, u16),
    pseudo: Sum,
    ladder: Option<Ladder>,
) -> Result<[u8; udp::HEADER_LEN], DropReason> {
    header_for_sum(payload.len(), ports, ladder.map(|ladder| pseudo.plus(ladder.sum(payload))))
}

/// The UDP header of a payload of `len` bytes; `sum` is that of the payload and of the
/// pseudo-header without length, or `None` for no checksum.
///
/// # Errors
/// [`DropReason::IpTooBig`] past 65,535 bytes.
pub fn header_for_sum(
    len: usize,
    ports: (u16, u16),
    sum: Option<Sum>,
) -> Result<[u8; udp::HEADER_LEN], DropReason> {
    let length = u16::try_from(len + udp::HEADER_LEN).map_err(|_| DropReason::IpTooBig)?;
    let mut bytes = [0; udp::HEADER_LEN];
    let mut header = udp::Header { src_port: ports.0, dst_port: ports.1, length, checksum: [0, 0] };
    header.emit(&mut bytes);
    if let Some(sum) = sum {
        // Source, destination, length, and the length of the pseudo-header once more.
        let [src, dst, length] = [ports.0, ports.1, length].map(Sum::of_be16);
        header.checksum = udp::checksum_field(sum.plus(src).plus(dst).plus(length).plus(length));
        header.emit(&mut bytes);
    }
    Ok(bytes)
}
