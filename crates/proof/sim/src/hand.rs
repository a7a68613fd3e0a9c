//! TCP segments built field by field, in IPv4 packets without a link header, for peers that are not
//! our stack and may break the protocol.
//!
//! Called by: `adversary`, benches. RFC 9293 section 3.1, RFC 791 section 3.1.

use core::net::SocketAddrV4;

use base::SeqNumber;
use wire::checksum::{Ladder, Sum};
use wire::tcp::{self, Flags, OPTIONS_LEN_MAX, Options};
use wire::{ipv4, protocol};

/// The header fields of a segment without its ports.
#[derive(Clone, Copy, Debug, Default)]
pub struct Said {
    /// SEG.SEQ.
    pub seq: SeqNumber,
    /// SEG.ACK.
    pub ack: SeqNumber,
    /// Control bits.
    pub flags: Flags,
    /// The window field, not scaled.
    pub window: u16,
    /// Options.
    pub options: Options,
}

/// The packet with these fields, and with correct lengths and checksums. It is empty if the payload
/// is longer than an IPv4 packet can be.
pub fn packet(from: SocketAddrV4, to: SocketAddrV4, said: &Said, payload: &[u8]) -> Vec<u8> {
    let mut options = [0; OPTIONS_LEN_MAX];
    let options_len = said.options.emit(&mut options);
    let header_len = tcp::HEADER_LEN + options_len;
    let total = ipv4::HEADER_LEN + header_len + payload.len();
    let Ok(total_len) = u16::try_from(total) else { return Vec::new() };
    let mut packet = vec![0; total];
    let ip = ipv4::Header {
        header_len: ipv4::HEADER_LEN,
        tos: 0,
        total_len,
        id: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        protocol: protocol::TCP,
        src: *from.ip(),
        dst: *to.ip(),
    };
    let header = tcp::Header {
        src_port: from.port(),
        dst_port: to.port(),
        seq: said.seq,
        ack: said.ack,
        header_len,
        flags: said.flags,
        window: said.window,
        urgent: 0,
    };
    let (head, segment) = packet.split_at_mut(ipv4::HEADER_LEN);
    segment[tcp::HEADER_LEN..header_len].copy_from_slice(&options[..options_len]);
    segment[header_len..].copy_from_slice(payload);
    if !(ip.emit(head) && header.emit(segment)) {
        return Vec::new();
    }
    let length = Sum::of_be16(segment.len() as u16);
    let pseudo = Sum::pseudo_v4(*from.ip(), *to.ip(), protocol::TCP);
    let sum = pseudo.plus(length).plus(Ladder::best().sum(segment));
    tcp::set_checksum(segment, sum.field());
    packet
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seen;
    use base::{LinkKind, WindowScale};
    use wire::tcp::Timestamps;

    #[test]
    fn what_is_said_is_seen() {
        let [from, to] = [1, 2].map(|n| SocketAddrV4::new([10, 0, 0, n].into(), 80 + u16::from(n)));
        let timestamps = Some(Timestamps { value: 7, echo: 9 });
        let window_scale = Some(WindowScale::new(14));
        let options = Options { mss: Some(1), window_scale, timestamps, ..Options::default() };
        let flags = Flags::SYN | Flags::ACK;
        let said = Said { seq: SeqNumber(3), ack: SeqNumber(4), flags, window: 5, options };
        let packet = packet(from, to, &said, b"abc");
        assert!(seen::verifies(&packet, LinkKind::Ip));
        let seen = seen::segment(&packet, LinkKind::Ip).expect("it is a segment");
        assert_eq!((seen.src, seen.dst), (from.into(), to.into()));
        assert_eq!((seen.seq, seen.ack, seen.flags, seen.window), (said.seq, said.ack, flags, 5));
        assert_eq!((seen.len, seen.window_scale, seen.timestamps), (3, window_scale, timestamps));
    }
}
