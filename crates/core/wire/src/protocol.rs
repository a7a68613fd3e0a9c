//! Protocol numbers: the protocol field of an IPv4 header, or the next header field of IPv6.
//!
//! Called by: every layer that reads or writes such a number. IANA, Assigned Internet Protocol
//! Numbers.

/// Hop-by-hop options of IPv6, RFC 8200 section 4.3.
pub const HOP_BY_HOP: u8 = 0;
/// ICMP, RFC 792.
pub const ICMP: u8 = 1;
/// IGMP, RFC 1112.
pub const IGMP: u8 = 2;
/// TCP, RFC 9293.
pub const TCP: u8 = 6;
/// UDP, RFC 768.
pub const UDP: u8 = 17;
/// The routing header of IPv6, RFC 8200 section 4.4.
pub const ROUTING: u8 = 43;
/// The fragment header of IPv6, RFC 8200 section 4.5.
pub const FRAGMENT: u8 = 44;
/// ICMPv6, RFC 4443.
pub const ICMPV6: u8 = 58;
/// No header follows, RFC 8200 section 4.7.
pub const NO_NEXT: u8 = 59;
/// Destination options of IPv6, RFC 8200 section 4.6.
pub const DESTINATION_OPTIONS: u8 = 60;
