//! Ethernet and VLAN headers: parse and emit are inverse, and agree with etherparse.

use super::*;
use crate::vlan;
use base::LinkKind;
use proptest::prelude::*;

proptest! {
    #[test]
    fn ether_is_what_etherparse_says(frame in prop::collection::vec(any::<u8>(), 0..40)) {
        let ours = Header::parse(&frame);
        match etherparse::Ethernet2Header::from_slice(&frame) {
            Ok((theirs, _)) => {
                let ours = ours.unwrap();
                prop_assert_eq!(ours.dst.0, theirs.destination);
                prop_assert_eq!(ours.src.0, theirs.source);
                prop_assert_eq!(ours.ethertype, theirs.ether_type.0);
                let mut out = [0xa5; 16];
                prop_assert!(ours.emit(&mut out));
                prop_assert_eq!(&out[..14], &frame[..14]);
                prop_assert_eq!(&out[14..], &[0xa5, 0xa5]);
                prop_assert!(!ours.emit(&mut out[..13]));
            }
            Err(_) => prop_assert_eq!(ours, Err(DropReason::EtherShort)),
        }
    }

    #[test]
    fn vlan_is_what_etherparse_says(tag in any::<[u8; 4]>(), cut in 0usize..4) {
        let ours = vlan::Header::parse(&tag).unwrap();
        let (theirs, _) = etherparse::SingleVlanHeader::from_slice(&tag).unwrap();
        prop_assert_eq!(ours.priority, theirs.pcp.value());
        prop_assert_eq!(ours.drop_eligible, theirs.drop_eligible_indicator);
        prop_assert_eq!(ours.id, theirs.vlan_id.value());
        prop_assert_eq!(ours.ethertype, theirs.ether_type.0);
        let mut out = [0; 4];
        prop_assert!(ours.emit(&mut out));
        prop_assert_eq!(out, tag);
        prop_assert_eq!(vlan::Header::parse(&tag[..cut]), Err(DropReason::EtherShort));
    }
}

#[test]
fn a_tag_that_has_no_encoding_is_not_written() {
    let good = vlan::Header { priority: 7, drop_eligible: true, id: 4095, ethertype: IPV6 };
    let mut out = [0; 4];
    assert!(good.emit(&mut out));
    assert!(!vlan::Header { priority: 8, ..good }.emit(&mut out));
    assert!(!vlan::Header { id: 4096, ..good }.emit(&mut out));
    assert_eq!(vlan::Header::parse(&out), Ok(good));
}

#[test]
fn the_packet_is_found_behind_any_number_of_tags() {
    for tags in [&[][..], &[VLAN], &[SERVICE_VLAN, VLAN], &[VLAN, VLAN, SERVICE_VLAN]] {
        for (ethertype, is_ip) in [(IPV4, true), (IPV6, true), (ARP, false), (0x0026, false)] {
            let mut frame = vec![2; 12];
            for tag in tags {
                frame.extend(tag.to_be_bytes());
                frame.extend([0x60, 5]);
            }
            frame.extend(ethertype.to_be_bytes());
            let at = frame.len();
            assert_eq!(at, HEADER_LEN + vlan::HEADER_LEN * tags.len());
            assert_eq!(vlan::ip_at(&frame, LinkKind::Ethernet), is_ip.then_some(at));
            for cut in 0..at {
                assert_eq!(vlan::ip_at(&frame[..cut], LinkKind::Ethernet), None, "{cut} bytes");
            }
        }
    }
    let endless = VLAN.to_be_bytes().repeat(40);
    assert_eq!(
        vlan::ip_at(&endless, LinkKind::Ethernet),
        None,
        "an IP header was found in a frame of only tags"
    );
    assert_eq!(vlan::ip_at(&[], LinkKind::Ip), Some(0));
}
