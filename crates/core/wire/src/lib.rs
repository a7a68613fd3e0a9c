//! Packet headers as native integers, and the Internet checksum.
//!
//! Called by: every layer that reads or writes a packet. This crate depends on no buffer,
//! connection, route or time, and imports only `base`. Nothing allocates, and nothing panics on any
//! input. RFC 768, 791, 792, 826, 3376, 3810, 4443, 4861, 7323, 8200, 9293; IEEE 802.3 and 802.1Q.
//!
//! # Contract
//!
//! - `Header::parse` is total: it checks every length before it uses it, and returns a
//!   [`base::DropReason`] otherwise. After `Ok`, slicing the same bytes by the returned lengths
//!   cannot fail: `[header_len..total_len]` of an IPv4 packet, `[header_len..]` of a TCP segment,
//!   `[8..length]` of a UDP datagram, `[40..40 + payload_len]` of an IPv6 packet.
//! - Bytes past those lengths are link padding: cut the slice before parsing the next header.
//! - `ipv4`, `icmp`, `icmpv6` and `igmp` verify their checksum in `parse`. `tcp` and `udp` do not,
//!   because the caller may have the sum already (from a device or a fused copy). The caller
//!   verifies with [`checksum::Ladder`], and must not trust any header field before.
//! - `ipv4::Header::parse` also walks options, so an accepted packet has none that must be refused.
//!   `tcp::Options::parse` is a separate call, because prediction needs only
//!   [`tcp::timestamps_only`].
//! - `Header::emit` writes the header to the start of a buffer and changes no byte after it. It
//!   returns `false`, with nothing written, if the buffer is too short or a field has no encoding.
//!   After `true` the same bytes parse to the same header.
//! - Checksum fields are `[u8; 2]` as in memory; every other field is a native integer. Big-endian
//!   integers never leave this crate.

pub mod arp;
pub mod checksum;
pub mod ether;
pub mod group;
pub mod icmp;
pub mod icmpv6;
pub mod igmp;
pub mod ipv4;
pub mod ipv6;
pub mod mld;
pub mod nd;
pub mod protocol;
pub mod tcp;
pub mod udp;
pub mod vlan;

mod bytes;
