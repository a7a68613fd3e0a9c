//! ECN marking instead of dropping: sets CE (congestion experienced) in ECN-capable packets.
//!
//! Called by: `direction`, where its queue management would drop. It parses only the ECN field (RFC
//! 3168 section 5), and updates the IPv4 header checksum (RFC 1624 section 3).

use base::LinkKind;
use mbuf::{Mbuf, Pool};

/// Values of the ECN field: not ECN-capable, and congestion experienced.
const NOT_ECT: u8 = 0;
const CE: u8 = 3;

/// How many bytes of the IP header are needed: the minimal IPv4 header.
const HEADER_LEN: usize = 20;

/// Mark a packet if it is ECN-capable; a marked packet stays marked. `false` if the packet is not
/// ECN-capable or not IP, or if there is no memory for the copy that a shared header needs.
pub(crate) fn mark(frame: &mut Mbuf, link: LinkKind, pool: &mut Pool) -> bool {
    let at = link.header_len();
    if !is_ip(frame, link) {
        return false;
    }
    match frame.as_slice().get(at..at + HEADER_LEN).map(ecn) {
        None | Some(NOT_ECT) => return false,
        Some(CE) => return true,
        Some(_) => {}
    }
    if frame.headers_mut(at + HEADER_LEN).is_none() {
        let Some(mut copy) = pool.copy_of(frame.as_slice()) else { return false };
        copy.set_mark(frame.mark());
        pool.free(core::mem::replace(frame, copy));
    }
    match frame.headers_mut(at + HEADER_LEN) {
        Some(header) => set(&mut header[at..]),
        None => return false,
    }
    true
}

fn is_ip(frame: &Mbuf, link: LinkKind) -> bool {
    let ethertype = frame.as_slice().get(12..14);
    link == LinkKind::Ip || matches!(ethertype, Some(&[0x08, 0x00] | &[0x86, 0xdd]))
}

fn ecn(ip: &[u8]) -> u8 {
    match ip[0] >> 4 {
        4 => ip[1] & CE,
        6 => ip[1] >> 4 & CE,
        _ => NOT_ECT,
    }
}

fn set(ip: &mut [u8]) {
    if ip[0] >> 4 == 6 {
        ip[1] |= CE << 4;
        return;
    }
    let before = ip[1];
    ip[1] |= CE;
    // RFC 1624: HC' = HC - (m' - m), in one's complement arithmetic.
    let checksum = u16::from_be_bytes([ip[10], ip[11]]);
    let (less, borrow) = checksum.overflowing_sub(u16::from(ip[1] - before));
    ip[10..12].copy_from_slice(&(less - u16::from(borrow)).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(tos: u8) -> Vec<u8> {
        let mut ip = vec![0x45, tos, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let sum: u32 = ip.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
        let field = !((sum & 0xffff) + (sum >> 16)) as u16;
        ip[10..12].copy_from_slice(&field.to_be_bytes());
        ip.resize(40, 7);
        ip
    }

    fn marked(packet: &[u8]) -> (bool, Vec<u8>) {
        let mut pool = Pool::new(1 << 20);
        let mut frame = pool.copy_of(packet).expect("memory");
        let done = mark(&mut frame, LinkKind::Ip, &mut pool);
        let bytes = frame.as_slice().to_vec();
        pool.free(frame);
        assert_eq!(pool.outstanding(), 0);
        (done, bytes)
    }

    #[test]
    fn a_mark_leaves_every_other_bit_and_a_right_checksum() {
        for dscp in (0..=255).step_by(4) {
            for ect in [1, 2] {
                assert_eq!(marked(&v4(dscp | ect)), (true, v4(dscp | 3)));
            }
        }
        let v6 = |ecn: u8| [&[0x6a, 0xc5 | ecn << 4][..], &[9; 38]].concat();
        assert_eq!(marked(&v6(2)), (true, v6(3)));
    }

    #[test]
    fn what_is_not_capable_stays_as_it_is() {
        for packet in
            [v4(0), v4(0xb8), vec![0x6f, 0xcf, 2, 3], vec![0x72; 40], vec![0x45; 19], vec![]]
        {
            assert_eq!(marked(&packet), (false, packet));
        }
        assert_eq!(marked(&v4(3)), (true, v4(3)));
    }

    /// The sender still holds the bytes, and its own copy is not marked.
    #[test]
    fn a_shared_packet_is_copied() {
        let mut pool = Pool::new(1 << 20);
        let mut original = pool.copy_of(&v4(2)).expect("memory");
        let mut share = pool.share_for_send(&mut original).expect("memory");
        assert!(mark(&mut share, LinkKind::Ip, &mut pool));
        assert_eq!((original.as_slice(), share.as_slice()), (&v4(2)[..], &v4(3)[..]));
        pool.free(share);
        pool.free(original);
    }
}
