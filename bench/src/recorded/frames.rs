//! Ethernet frames of a peer that is not ours, built field by field. Called by `replay.rs`. It
//! knows no connections.

use std::net::IpAddr;

use base::SeqNumber;
use wire::checksum::{Ladder, Sum};
use wire::tcp::{self, Flags, HEADER_LEN, Options};
use wire::{ether, ipv4, ipv6, protocol};

/// Both ends of a connection: the peer's address and port, and ours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) from: (IpAddr, u16),
    pub(super) to: (IpAddr, u16),
    pub(super) macs: [base::MacAddr; 2],
}

/// The header fields of a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Says {
    pub(super) seq: SeqNumber,
    pub(super) ack: SeqNumber,
    pub(super) flags: Flags,
    pub(super) window: u16,
    pub(super) options: Options,
    pub(super) tos: u8,
    pub(super) id: u16,
}

/// The whole frame, with correct lengths and checksums.
pub(super) fn frame(ends: &Ends, says: &Says, payload: &[u8]) -> Vec<u8> {
    let mut options = [0; tcp::OPTIONS_LEN_MAX];
    let options_len = says.options.emit(&mut options);
    let header_len = HEADER_LEN + options_len;
    let mut segment = vec![0; header_len];
    let header = tcp::Header {
        src_port: ends.from.1,
        dst_port: ends.to.1,
        seq: says.seq,
        ack: says.ack,
        header_len,
        flags: says.flags,
        window: says.window,
        urgent: 0,
    };
    header.emit(&mut segment);
    segment[HEADER_LEN..].copy_from_slice(&options[..options_len]);
    segment.extend_from_slice(payload);
    let (ethertype, ip, pseudo) = ip_header(ends, says, segment.len() as u16);
    let length = Sum::of_be16(segment.len() as u16);
    let sum = pseudo.plus(length).plus(Ladder::best().sum(&segment));
    tcp::set_checksum(&mut segment, sum.field());
    let mut frame = vec![0; ether::HEADER_LEN];
    ether::Header { dst: ends.macs[1], src: ends.macs[0], ethertype }.emit(&mut frame);
    frame.extend(ip);
    frame.extend(segment);
    frame
}

fn ip_header(ends: &Ends, says: &Says, len: u16) -> (u16, Vec<u8>, Sum) {
    match (ends.from.0, ends.to.0) {
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let mut bytes = vec![0; ipv6::HEADER_LEN];
            let header = ipv6::Header {
                traffic_class: says.tos,
                // Linux sets one by default.
                flow_label: 0x5_1234,
                payload_len: len,
                next_header: protocol::TCP,
                hop_limit: 64,
                src,
                dst,
            };
            header.emit(&mut bytes);
            (ether::IPV6, bytes, Sum::pseudo_v6(src, dst, protocol::TCP))
        }
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let mut bytes = vec![0; ipv4::HEADER_LEN];
            let header = ipv4::Header {
                header_len: ipv4::HEADER_LEN,
                tos: says.tos,
                total_len: len + ipv4::HEADER_LEN as u16,
                id: says.id,
                dont_fragment: true,
                more_fragments: false,
                fragment_offset: 0,
                ttl: 64,
                protocol: protocol::TCP,
                src,
                dst,
            };
            header.emit(&mut bytes);
            (ether::IPV4, bytes, Sum::pseudo_v4(src, dst, protocol::TCP))
        }
        _ => (0, Vec::new(), Sum::ZERO),
    }
}
