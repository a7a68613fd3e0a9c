//! Each guard of a plain packet. Passing on a plain packet changes it as [`super::super::hop`]
//! does.

use core::net::IpAddr;

use super::super::{examine, hop};
use super::*;

/// A valid IPv4 header with four bytes of data. `change` changes it before its checksum is
/// computed.
fn v4(change: impl Fn(&mut [u8])) -> Vec<u8> {
    let mut p = vec![0x45, 0, 0, 24, 0, 7, 0x40, 0, 9, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 2];
    p.extend([1, 2, 3, 4]);
    change(&mut p);
    let sum = wire::checksum::Ladder::Word64.sum(&p[..20]);
    let field = sum.plus(Sum(!0).minus(Sum(u16::from_ne_bytes([p[10], p[11]])))).field();
    p[10..12].copy_from_slice(&field);
    p
}

/// A change to a packet.
type Change = dyn Fn(&mut [u8]);

fn v6(change: impl Fn(&mut [u8])) -> Vec<u8> {
    let mut p = vec![0x60, 0, 0, 0, 0, 4, 17, 9];
    for last in [1, 2] {
        p.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    p.extend([1, 2, 3, 4]);
    change(&mut p);
    p
}

#[test]
fn a_plain_packet_has_its_addresses_and_its_length() {
    let mut padded = v4(|_| {});
    padded.extend([0; 22]);
    let plain = plain_v4(&padded).expect("plain");
    assert_eq!(
        (plain.src.to_string(), plain.dst.to_string()),
        ("192.0.2.1".into(), "198.51.100.2".into())
    );
    assert_eq!(plain.len, 24);
    let mut padded = v6(|_| {});
    padded.extend([0; 9]);
    let plain = plain_v6(&padded).expect("plain");
    assert_eq!(
        (plain.src.to_string(), plain.dst.to_string()),
        ("2001:db8::1".into(), "2001:db8::2".into())
    );
    assert_eq!(plain.len, 44);
    // A fragment, and packets with two hops left.
    assert!(plain_v4(&v4(|p| p[6..8].copy_from_slice(&[0x20, 5]))).is_some());
    assert!(plain_v4(&v4(|p| p[8] = 2)).is_some() && plain_v6(&v6(|p| p[7] = 2)).is_some());
}

#[test]
fn anything_unusual_is_refused() {
    let v4s: &[&Change] = &[
        &|p| p[0] = 0x46,
        &|p| p[0] = 0x55,
        &|p| p[3] = 25,
        &|p| p[3] = 19,
        &|p| p[8] = 1,
        &|p| p[8] = 0,
        &|p| p[12] = 0,
        &|p| p[12] = 127,
        &|p| p[12] = 224,
        &|p| p[16] = 255,
        &|p| p[16..18].copy_from_slice(&[169, 254]),
    ];
    for (n, change) in v4s.iter().enumerate() {
        assert!(plain_v4(&v4(change)).is_none(), "{n}");
    }
    let sound = v4(|_| {});
    for at in 0..20 {
        let mut corrupt = sound.clone();
        corrupt[at] ^= 0x10;
        assert!(plain_v4(&corrupt).is_none(), "{at}");
        assert!(plain_v4(&sound[..at]).is_none());
    }
    let v6s: &[&Change] = &[
        &|p| p[0] = 0x50,
        &|p| p[5] = 5,
        &|p| p[7] = 1,
        &|p| p[8] = 0xff,
        &|p| p[8] = 0xfe,
        &|p| p[8..24].fill(0),
        &|p| p[24] = 0xff,
    ];
    for (n, change) in v6s.iter().enumerate() {
        assert!(plain_v6(&v6(change)).is_none(), "{n}");
    }
    assert!(plain_v6(&v6(|_| {})[..39]).is_none());
}

/// The general path admits every plain packet too, and changes it in the same way. Every value of
/// the checksum is tested, because equation 2 of RFC 1624 is wrong for some.
#[test]
fn passing_on_is_what_the_long_way_does() {
    for id in 0..=u16::MAX {
        let packet = v4(|p| p[4..6].copy_from_slice(&id.to_be_bytes()));
        let (mut ours, mut theirs) = (packet.clone(), packet);
        pass_v4(&mut ours);
        assert!(hop(&mut theirs));
        assert_eq!(ours, theirs);
    }
    let (mut ours, mut theirs) = (v6(|_| {}), v6(|_| {}));
    pass_v6(&mut ours);
    assert!(hop(&mut theirs) && ours == theirs);
    for first in 0..=255_u8 {
        for at in [12, 16] {
            let packet = v4(|p| p[at] = first);
            if let Some(plain) = plain_v4(&packet) {
                let transit = examine(&packet).expect("admitted");
                assert_eq!((transit.src, transit.dst), (IpAddr::V4(plain.src), plain.dst.into()));
                assert!(transit.hops > 1 && transit.len == plain.len);
            }
        }
        for at in [8, 24] {
            let packet = v6(|p| p[at] = first);
            if let Some(plain) = plain_v6(&packet) {
                let transit = examine(&packet).expect("admitted");
                assert_eq!((transit.src, transit.dst), (IpAddr::V6(plain.src), plain.dst.into()));
                assert!(transit.hops > 1 && transit.len == plain.len);
            }
        }
    }
}
