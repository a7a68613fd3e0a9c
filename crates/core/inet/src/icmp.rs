//! ICMP and ICMPv6: parses the messages that a host handles, writes those that it sends.
//!
//! Called by: `stack/icmp.rs`, `stack/socket/ping.rs`, which have the routes, rate limits and
//! sockets. RFC 792, RFC 4443, RFC 1122 section 3.2.2, RFC 1191, RFC 8201, RFC 5927.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr};

use base::{DropReason, IpVersion};
use wire::checksum::Sum;
use wire::{icmp as v4, icmpv6 as v6, ipv4, ipv6, protocol};

use crate::Ip;
use crate::flow::Addrs;
use crate::frag::Problem;

const V4_ECHO_REQUEST: u8 = 8;
const V4_ECHO_REPLY: u8 = 0;
const V6_ECHO_REQUEST: u8 = 128;
const V6_ECHO_REPLY: u8 = 129;
/// Bytes of type, code, checksum and the four bytes that follow.
pub const HEADER_LEN: usize = 8;
/// Maximum size of an IPv4 packet with an ICMP error, in bytes, RFC 1812 section 4.3.2.3.
const V4_ERROR_MAX: usize = 576;
/// The maximum for IPv6, RFC 4443 section 2.4(c).
const V6_ERROR_MAX: usize = 1280;
/// Minimum path MTU for IPv4, to which a smaller reported MTU is raised. Every host accepts 576
/// bytes (RFC 791), and forged reports try to cause tiny segments (RFC 5927 section 7). The same as
/// in Linux.
const V4_MTU_FLOOR: usize = 552;
/// The plateaus of RFC 1191 section 7.1, for reports without an MTU.
const PLATEAUS: [usize; 8] = [32_000, 17_914, 8_166, 4_352, 2_002, 1_492, 1_006, V4_MTU_FLOOR];

/// Why a packet did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// There is no route to the destination's network.
    Net,
    /// The destination does not answer.
    Host,
    /// The destination does not support the protocol.
    Protocol,
    /// No socket is bound to the port.
    Port,
    /// The communication is administratively prohibited.
    Prohibited,
}

/// The error in the words of ping of iputils.
impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unreachable::Net => "Destination Net Unreachable",
            Unreachable::Host => "Destination Host Unreachable",
            Unreachable::Port => "Destination Port Unreachable",
            Unreachable::Protocol => "Destination Protocol Unreachable",
            Unreachable::Prohibited => "Packet filtered",
        })
    }
}

/// What an error reports about a packet that we sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The packet was not delivered.
    Unreachable(Unreachable),
    /// The packet was larger than the MTU of a link: that MTU in bytes, or 0 if the router does not
    /// report it.
    TooBig(usize),
    /// The packet's TTL expired, or fragments were missing: a transient error (RFC 1122 sections
    /// 3.2.2.4 and 4.2.3.9).
    Transient,
}

/// What a message means for a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// An echo request: send the reply.
    EchoRequest,
    /// A reply to a request of ours.
    EchoReply {
        /// Identifier.
        id: u16,
        /// Sequence number.
        seq: u16,
    },
    /// An error. The quoted packet follows the first [`HEADER_LEN`] bytes.
    Error(ErrorKind),
    /// A gateway names a better first hop for the destination of the quoted packet.
    Redirect {
        /// That first hop.
        gateway: IpAddr,
    },
}

/// The part of a packet that an error message quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted<'a> {
    /// Its source; must be an address of ours.
    pub src: IpAddr,
    /// Its destination.
    pub dst: IpAddr,
    /// Its transport protocol.
    pub protocol: u8,
    /// Length of the whole packet in bytes, from its IP header.
    pub total_len: usize,
    /// The quoted bytes from the transport header on: at least eight, unless the router quoted too
    /// little.
    pub transport: &'a [u8],
}

/// Check a message: checksum, then type.
///
/// # Errors
/// [`DropReason::IcmpMalformed`] if it is short or its checksum is wrong,
/// [`DropReason::IcmpUnhandled`] for messages that a host does not handle: source quench (RFC
/// 6633), timestamps, information and address mask messages (RFC 6918), router messages, and
/// messages to a group address.
pub fn icmp_input<A: Addrs>(ip: &Ip<A>, message: &[u8]) -> Result<Message, DropReason> {
    let message = match (ip.src(), ip.dst()) {
        (IpAddr::V6(src), IpAddr::V6(dst)) => from_v6(&v6::Header::parse(message, src, dst)?),
        _ => from_v4(&v4::Header::parse(message)?),
    };
    // An echo request to a group gets no reply: RFC 1122 section 3.2.2.6 (Smurf attack).
    let to_group = match ip.dst() {
        IpAddr::V4(a) => a.is_multicast() || a.is_broadcast(),
        IpAddr::V6(a) => a.is_multicast(),
    };
    message.filter(|_| !to_group).ok_or(DropReason::IcmpUnhandled)
}

fn from_v4(header: &v4::Header) -> Option<Message> {
    Some(match *header {
        v4::Header::EchoRequest { .. } => Message::EchoRequest,
        v4::Header::EchoReply { id, seq } => Message::EchoReply { id, seq },
        v4::Header::FragmentationNeeded { mtu } => {
            Message::Error(ErrorKind::TooBig(usize::from(mtu)))
        }
        v4::Header::Unreachable { code } => Message::Error(match code {
            v4::unreachable::PROTOCOL => ErrorKind::Unreachable(Unreachable::Protocol),
            v4::unreachable::PORT => ErrorKind::Unreachable(Unreachable::Port),
            // RFC 1122 section 3.2.2.1: network unreachable, unknown, or unreachable for this TOS.
            v4::unreachable::NET | 6 | 11 => ErrorKind::Unreachable(Unreachable::Net),
            9 | 10 | v4::unreachable::ADMIN_PROHIBITED => {
                ErrorKind::Unreachable(Unreachable::Prohibited)
            }
            _ => ErrorKind::Unreachable(Unreachable::Host),
        }),
        v4::Header::TimeExceeded { .. } | v4::Header::ParameterProblem { .. } => {
            Message::Error(ErrorKind::Transient)
        }
        // RFC 1122 3.2.2.2-b: a redirect for a network is treated as one for the host.
        v4::Header::Redirect { gateway, .. } => Message::Redirect { gateway: gateway.into() },
        // RFC 9293 MUST-55.
        // RFC 1122 3.2.2-a, 3.2.2.9-a.
        v4::Header::Other { .. } => return None,
    })
}

fn from_v6(header: &v6::Header) -> Option<Message> {
    Some(match *header {
        v6::Header::EchoRequest { .. } => Message::EchoRequest,
        v6::Header::EchoReply { id, seq } => Message::EchoReply { id, seq },
        v6::Header::PacketTooBig { mtu } => Message::Error(ErrorKind::TooBig(mtu as usize)),
        v6::Header::Unreachable { code } => Message::Error(match code {
            v6::unreachable::PORT => ErrorKind::Unreachable(Unreachable::Port),
            v6::unreachable::NO_ROUTE => ErrorKind::Unreachable(Unreachable::Net),
            // 5 and 6: policy, reject route (RFC 4443 section 3.1).
            v6::unreachable::ADMIN_PROHIBITED | 5 | 6 => {
                ErrorKind::Unreachable(Unreachable::Prohibited)
            }
            _ => ErrorKind::Unreachable(Unreachable::Host),
        }),
        // Unrecognized next header: the host does not support the protocol (RFC 4443 section 3.4).
        v6::Header::ParameterProblem { code: 1, .. } => {
            Message::Error(ErrorKind::Unreachable(Unreachable::Protocol))
        }
        v6::Header::TimeExceeded { .. } | v6::Header::ParameterProblem { .. } => {
            Message::Error(ErrorKind::Transient)
        }
        v6::Header::Other { .. } => return None,
    })
}

/// Parse the packet that an error quotes, which may be cut off.
///
/// # Errors
/// [`DropReason::IcmpMalformed`] if its header is invalid, or if it is a fragment other than the
/// first, which has no ports.
pub fn quoted(packet: &[u8], version: IpVersion) -> Result<Quoted<'_>, DropReason> {
    let malformed = |_| DropReason::IcmpMalformed;
    match version {
        IpVersion::V4 => {
            let h = ipv4::Header::parse_quoted(packet).map_err(malformed)?;
            if h.fragment_offset != 0 {
                return Err(DropReason::IcmpMalformed);
            }
            let transport = packet.get(h.header_len..).unwrap_or_default();
            let (src, dst) = (IpAddr::V4(h.src), IpAddr::V4(h.dst));
            let total_len = usize::from(h.total_len);
            Ok(Quoted { src, dst, protocol: h.protocol, total_len, transport })
        }
        IpVersion::V6 => {
            let h = ipv6::Header::parse_quoted(packet).map_err(malformed)?;
            let (src, dst) = (IpAddr::V6(h.src), IpAddr::V6(h.dst));
            let total_len = ipv6::HEADER_LEN + usize::from(h.payload_len);
            let transport = packet.get(ipv6::HEADER_LEN..).unwrap_or_default();
            // We send no extension headers but fragment headers, so a packet with others was not
            // ours.
            if h.next_header != protocol::FRAGMENT {
                return Ok(Quoted { src, dst, protocol: h.next_header, total_len, transport });
            }
            let fragment = ipv6::Fragment::parse(transport).map_err(malformed)?;
            if fragment.fragment_offset != 0 {
                return Err(DropReason::IcmpMalformed);
            }
            let transport = transport.get(ipv6::Fragment::LEN..).unwrap_or_default();
            Ok(Quoted { src, dst, protocol: fragment.next_header, total_len, transport })
        }
    }
}

impl Quoted<'_> {
    /// Source and destination port.
    pub fn ports(&self) -> Option<(u16, u16)> {
        let &[a, b, c, d] = self.transport.first_chunk::<4>()?;
        Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
    }

    /// The second four bytes: TCP's sequence number, or an echo's identifier and sequence number.
    pub fn second_word(&self) -> Option<u32> {
        self.transport.get(4..8)?.first_chunk().map(|b| u32::from_be_bytes(*b))
    }

    /// The path MTU to use after a report about this packet. `None` if the report is not plausible:
    /// an MTU not smaller than the packet, or below the minimum of the IP version (68 or 1280
    /// bytes).
    pub fn path_mtu(&self, reported: usize) -> Option<usize> {
        let v4 = self.src.is_ipv4();
        let mtu = match reported {
            0 if v4 => PLATEAUS.iter().copied().find(|&mtu| mtu < self.total_len)?,
            reported if v4 && reported >= 68 => reported.max(V4_MTU_FLOOR),
            // RFC 8201 section 4: no IPv6 path has a smaller MTU.
            reported if !v4 && reported >= 1280 => reported,
            _ => return None,
        };
        (mtu < self.total_len).then_some(mtu)
    }
}

/// Turn an echo request into its reply: change the type, and update the checksum.
pub fn make_reply(message: &mut [u8], ipv4: bool) {
    let (request, reply) =
        if ipv4 { (V4_ECHO_REQUEST, V4_ECHO_REPLY) } else { (V6_ECHO_REQUEST, V6_ECHO_REPLY) };
    if let [kind, _code, a, b, ..] = message {
        *kind = reply;
        let old = Sum(u16::from_ne_bytes([request, 0]));
        let new = Sum(u16::from_ne_bytes([reply, 0]));
        [*a, *b] = Sum::updated([*a, *b], old, new);
    }
}

/// Write the header of an echo request into `message`, which holds the data already.
pub fn echo_request(message: &mut [u8], id: u16, seq: u16, src: IpAddr, dst: IpAddr) {
    match (src, dst) {
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            v6::Header::EchoRequest { id, seq }.emit(message, src, dst)
        }
        _ => v4::Header::EchoRequest { id, seq }.emit(message),
    };
}

/// The header of an echo reply whose `data_len` bytes of data have this sum.
pub fn echo_reply(
    (id, seq): (u16, u16),
    (src, dst): (IpAddr, IpAddr),
    data_len: usize,
    data: Sum,
) -> [u8; HEADER_LEN] {
    let kind = if src.is_ipv4() { V4_ECHO_REPLY } else { V6_ECHO_REPLY };
    let mut header = echo_header(kind, (id, seq));
    let pseudo = match src.is_ipv4() {
        true => Sum::ZERO,
        false => crate::ip_input::pseudo_sum(src, dst, protocol::ICMPV6)
            .plus(Sum::of_be16((HEADER_LEN + data_len) as u16)),
    };
    let sum = pseudo.plus(Sum::from_u64s([u64::from_ne_bytes(header)])).plus(data);
    header[2..4].copy_from_slice(&sum.field());
    header
}

/// The header of an echo request as an error quotes it, without its checksum, which depends on data
/// that is gone. Hosts find the socket by the identifier.
pub fn quoted_echo_request(id_and_seq: (u16, u16), ipv4: bool) -> [u8; HEADER_LEN] {
    echo_header(if ipv4 { V4_ECHO_REQUEST } else { V6_ECHO_REQUEST }, id_and_seq)
}

fn echo_header(kind: u8, (id, seq): (u16, u16)) -> [u8; HEADER_LEN] {
    let ([a, b], [c, d]) = (id.to_be_bytes(), seq.to_be_bytes());
    [kind, 0, 0, 0, a, b, c, d]
}

/// The beginning of a packet that is gone, for an error to quote: an IP header, and `transport`
/// behind it, the first bytes of `len` that the packet had there. Addresses of two versions give an
/// empty quotation.
pub fn quote(
    (src, dst): (IpAddr, IpAddr),
    (protocol, transport): (u8, &[u8]),
    len: usize,
) -> Vec<u8> {
    let len = len.max(transport.len());
    let mut packet = Vec::new();
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            packet.resize(ipv4::HEADER_LEN, 0);
            let header = ipv4::Header {
                header_len: ipv4::HEADER_LEN,
                tos: 0,
                total_len: (ipv4::HEADER_LEN + len).min(usize::from(u16::MAX)) as u16,
                id: 0,
                dont_fragment: true,
                more_fragments: false,
                fragment_offset: 0,
                ttl: 1,
                protocol,
                src,
                dst,
            };
            header.emit(&mut packet);
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            packet.resize(ipv6::HEADER_LEN, 0);
            let header = ipv6::Header {
                traffic_class: 0,
                flow_label: 0,
                payload_len: len.min(usize::from(u16::MAX)) as u16,
                next_header: protocol,
                hop_limit: 1,
                src,
                dst,
            };
            header.emit(&mut packet);
        }
        _ => return packet,
    }
    packet.extend_from_slice(transport);
    packet
}

/// How many bytes of an undelivered packet an error quotes.
/// RFC 4443 2.4-c.
pub fn quote_len(version: IpVersion, packet_len: usize) -> usize {
    let most = match version {
        IpVersion::V4 => V4_ERROR_MAX - ipv4::HEADER_LEN - HEADER_LEN,
        IpVersion::V6 => V6_ERROR_MAX - ipv6::HEADER_LEN - HEADER_LEN,
    };
    packet_len.min(most)
}

/// An error that a host or a router sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// The packet was not delivered.
    Unreachable(Unreachable),
    /// The other fragments of the packet's datagram did not arrive in time.
    ReassemblyTime,
    /// A field of the packet is wrong.
    Problem(Problem),
    /// From a router: the packet had no hop left.
    HopLimit,
    /// From a router: the packet's source is on another link than its destination (RFC 4443 section
    /// 3.1). IPv6 only.
    BeyondScope,
    /// From a router: the packet is larger than the next link's MTU, which is given in bytes, and
    /// may not be fragmented.
    TooBig(usize),
    /// From a router: this neighbour of the packet's source is a better first hop for its
    /// destination. IPv4 only: IPv6 has a message of its own for this.
    Redirect(Ipv4Addr),
}

/// Write the header of a report. The quotation is in `message` already.
pub fn report(message: &mut [u8], what: Report, src: IpAddr, dst: IpAddr) {
    /// Fragment reassembly time exceeded, in both versions.
    const IN_REASSEMBLY: u8 = 1;
    /// Hop limit exceeded in transit.
    const IN_TRANSIT: u8 = 0;
    const FOR_HOST: u8 = 1;
    match (what, src, dst) {
        (Report::Unreachable(why), ..) => error(message, why, src, dst),
        (Report::HopLimit, IpAddr::V6(src), IpAddr::V6(dst)) => {
            v6::Header::TimeExceeded { code: IN_TRANSIT }.emit(message, src, dst);
        }
        (Report::HopLimit, ..) => {
            v4::Header::TimeExceeded { code: IN_TRANSIT }.emit(message);
        }
        (Report::BeyondScope, IpAddr::V6(src), IpAddr::V6(dst)) => {
            v6::Header::Unreachable { code: v6::unreachable::BEYOND_SCOPE }.emit(message, src, dst);
        }
        (Report::BeyondScope, ..) => error(message, Unreachable::Host, src, dst),
        (Report::TooBig(mtu), IpAddr::V6(src), IpAddr::V6(dst)) => {
            v6::Header::PacketTooBig { mtu: mtu as u32 }.emit(message, src, dst);
        }
        (Report::TooBig(mtu), ..) => {
            let mtu = mtu.min(usize::from(u16::MAX)) as u16;
            v4::Header::FragmentationNeeded { mtu }.emit(message);
        }
        // The redirect is for the host: redirects for networks must not be sent (RFC 1812 section
        // 5.2.7.2).
        (Report::Redirect(gateway), ..) => {
            v4::Header::Redirect { code: FOR_HOST, gateway }.emit(message);
        }
        (Report::ReassemblyTime, IpAddr::V6(src), IpAddr::V6(dst)) => {
            v6::Header::TimeExceeded { code: IN_REASSEMBLY }.emit(message, src, dst);
        }
        (Report::ReassemblyTime, ..) => {
            v4::Header::TimeExceeded { code: IN_REASSEMBLY }.emit(message);
        }
        (Report::Problem(Problem { code, pointer }), IpAddr::V6(src), IpAddr::V6(dst)) => {
            v6::Header::ParameterProblem { code, pointer }.emit(message, src, dst);
        }
        (Report::Problem(Problem { code, pointer }), ..) => {
            v4::Header::ParameterProblem { code, pointer: pointer as u8 }.emit(message);
        }
    }
}

/// Write the header of an error into `message`, which holds the quoted packet already.
pub fn error(message: &mut [u8], why: Unreachable, src: IpAddr, dst: IpAddr) {
    match (src, dst) {
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let header = match why {
                Unreachable::Port => v6::Header::Unreachable { code: v6::unreachable::PORT },
                Unreachable::Protocol => {
                    let packet = message.get(HEADER_LEN..).unwrap_or_default();
                    let pointer = ipv6::last_header(packet).map_or(6, |(.., named_at)| named_at);
                    v6::Header::ParameterProblem { code: 1, pointer: pointer as u32 }
                }
                Unreachable::Net => v6::Header::Unreachable { code: v6::unreachable::NO_ROUTE },
                Unreachable::Prohibited => {
                    v6::Header::Unreachable { code: v6::unreachable::ADMIN_PROHIBITED }
                }
                Unreachable::Host => v6::Header::Unreachable { code: v6::unreachable::ADDRESS },
            };
            header.emit(message, src, dst)
        }
        _ => {
            let code = match why {
                Unreachable::Port => v4::unreachable::PORT,
                Unreachable::Protocol => v4::unreachable::PROTOCOL,
                Unreachable::Net => v4::unreachable::NET,
                Unreachable::Prohibited => v4::unreachable::ADMIN_PROHIBITED,
                Unreachable::Host => v4::unreachable::HOST,
            };
            v4::Header::Unreachable { code }.emit(message)
        }
    };
}
