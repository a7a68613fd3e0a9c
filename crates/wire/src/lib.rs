//! The wire: packet headers in native integers, and the Internet checksum.
//!
//! Called by: every layer that reads or writes a packet. It knows no buffer, no connection, no
//! route and no time. Imports `base` only. Nothing allocates, and nothing panics on any input. RFC
//! 768, 791, 792, 826, 4443, 4861, 7323, 8200, 9293; IEEE 802.3 and 802.1Q.
//!
//! # Contract
//!
//! - `Header::parse` is total: it looks at every length before it believes it and returns a
//!   [`base::DropReason`] otherwise. After `Ok`, slicing the same bytes by the returned lengths
//!   cannot fail: `[header_len..total_len]` of an IPv4 packet, `[header_len..]` of a TCP segment,
//!   `[8..length]` of a UDP datagram, `[40..40 + payload_len]` of an IPv6 packet.
//! - Bytes past those lengths are link padding: cut the slice before parsing the next header.
//! - `ipv4`, `icmp` and `icmpv6` verify their checksum in `parse`, since it covers what they have
//!   in hand. `tcp` and `udp` do not: the caller may have the sum already (a device, a fused copy)
//!   and sums with [`checksum::Ladder`]; nothing in a header is to be believed before.
//! - `ipv4::Header::parse` also walks options, so a packet it accepts has none that must be
//!   refused. `tcp::Options::parse` is a call of its own: prediction knows its options by
//!   [`tcp::timestamps_only`] and needs no more.
//! - `Header::emit` writes the header at the beginning of a buffer and nothing after it. It
//!   returns `false`, with nothing written, if the buffer is too short or a field has no encoding;
//!   after a `true` the same bytes parse to the same header.
//! - Checksum fields are `[u8; 2]` as they lie in memory; every other field is a native integer.
//!   Big-endian integers never leave this crate.

pub mod arp;
pub mod checksum;
pub mod ether;
pub mod icmp;
pub mod icmpv6;
pub mod ipv4;
pub mod ipv6;
pub mod nd;
pub mod tcp;
pub mod udp;
pub mod vlan;

mod bytes;
