//! ARP: parse and emit are inverse, and agree with etherparse.

use super::*;
use proptest::prelude::*;

fn header() -> impl Strategy<Value = Header> {
    (any::<bool>(), any::<[u8; 6]>(), any::<u32>(), any::<[u8; 6]>(), any::<u32>()).prop_map(
        |(request, sender_mac, sender_ip, target_mac, target_ip)| Header {
            operation: if request { Operation::Request } else { Operation::Reply },
            sender_mac: MacAddr(sender_mac),
            sender_ip: Ipv4Addr::from_bits(sender_ip),
            target_mac: MacAddr(target_mac),
            target_ip: Ipv4Addr::from_bits(target_ip),
        },
    )
}

proptest! {
    #[test]
    fn emit_parses_here_and_in_etherparse(header in header(), at in 0usize..8, bit in 0u8..8) {
        let mut out = [0; 46];
        prop_assert!(header.emit(&mut out));
        prop_assert_eq!(Header::parse(&out), Ok(header));
        let theirs = etherparse::ArpPacket::from_slice(&out).unwrap().try_eth_ipv4().unwrap();
        prop_assert_eq!(theirs.sender_mac, header.sender_mac.0);
        prop_assert_eq!(theirs.sender_ipv4, header.sender_ip.octets());
        prop_assert_eq!(theirs.target_mac, header.target_mac.0);
        prop_assert_eq!(theirs.target_ipv4, header.target_ip.octets());
        let operation = if header.operation == Operation::Request { 1 } else { 2 };
        prop_assert_eq!(theirs.operation.0, operation);
        // Any change to the first eight bytes gives another kind of packet or operation.
        out[at] ^= 1 << bit;
        prop_assert_ne!(Header::parse(&out), Ok(header));
    }

    /// RFC 826 2-a.
    #[test]
    fn parse_is_total(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        if let Ok(header) = Header::parse(&bytes) {
            let mut out = [0; 28];
            prop_assert!(header.emit(&mut out));
            prop_assert_eq!(&out[..], &bytes[..28]);
        }
    }
}

#[test]
fn short_buffers() {
    let mut out = [0; 28];
    assert_eq!(Header::parse(&out), Err(DropReason::ArpMalformed));
    let header = Header {
        operation: Operation::Request,
        sender_mac: MacAddr([2; 6]),
        sender_ip: Ipv4Addr::UNSPECIFIED,
        target_mac: MacAddr::default(),
        target_ip: Ipv4Addr::new(192, 0, 2, 1),
    };
    assert!(!header.emit(&mut out[..27]));
    assert!(header.emit(&mut out));
    assert_eq!(Header::parse(&out[..27]), Err(DropReason::ArpMalformed));
}
