//! A machine as libkrun connects it: frames of up to 64 KB without a header, whose checksums are
//! only those of their pseudo-headers.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::unix::net::UnixDatagram;

use base::Mtu;
use device::vm::Dgram;
use device::{Burst, Device};
use mbuf::{Flags, Mbuf, Pool};
use wire::checksum::{Ladder, Sum};
use wirespeed_virtio::Bare;

/// A port, and the machine's end.
fn port() -> (Bare<Dgram>, UnixDatagram, Pool) {
    let (ours, theirs) = UnixDatagram::pair().expect("sockets");
    theirs.set_nonblocking(true).expect("a socket");
    let device = Dgram::adopt(ours).expect("a socket").with_mtu(Bare::<Dgram>::inner_mtu());
    (Bare::new(device, Mtu::ETHERNET), theirs, Pool::new(16 << 20))
}

/// A TCP segment with 12 bytes of options; and the sum of its pseudo-header.
fn segment(is_v6: bool, payload: usize) -> (Vec<u8>, [u8; 2]) {
    let len = 32 + payload;
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    let sum = if is_v6 {
        frame.extend_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend_from_slice(&(len as u16).to_be_bytes());
        frame.extend_from_slice(&[6, 64]);
        let ends = [1, 2].map(|n| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, n));
        ends.iter().for_each(|end| frame.extend_from_slice(&end.octets()));
        Sum::pseudo_v6(ends[0], ends[1], 6)
    } else {
        frame.extend_from_slice(&[8, 0, 0x45, 0]);
        frame.extend_from_slice(&((20 + len) as u16).to_be_bytes());
        frame.extend_from_slice(&[0, 0, 0x40, 0, 64, 6, 0, 0]);
        let ends = [1, 2].map(|n| Ipv4Addr::new(10, 0, 0, n));
        ends.iter().for_each(|end| frame.extend_from_slice(&end.octets()));
        let field = Ladder::best().sum(&frame[14..34]).field();
        frame[24..26].copy_from_slice(&field);
        Sum::pseudo_v4(ends[0], ends[1], 6)
    };
    let sum = sum.plus(Sum::of_be16(len as u16));
    let tcp = frame.len();
    frame.resize(tcp + 32, 1);
    (frame[tcp + 12], frame[tcp + 13]) = (0x80, 0x10);
    let unfinished = sum.field().map(|byte| !byte);
    frame[tcp + 16..tcp + 18].copy_from_slice(&unfinished);
    (frame[tcp + 18], frame[tcp + 19]) = (0, 0);
    frame.extend((0..payload).map(|at| at as u8));
    (frame, unfinished)
}

fn received(port: &mut Bare<Dgram>, pool: &mut Pool) -> Vec<Mbuf> {
    let mut burst = Burst::new();
    port.rx_burst(pool, &mut burst);
    burst.into_iter().collect()
}

#[test]
fn what_comes_is_not_verified_and_is_cut_by_the_mss_of_its_connection() {
    let (mut port, machine, mut pool) = port();
    for (is_v6, at, headers) in [(false, 34, 52), (true, 54, 72)] {
        let (long, _) = segment(is_v6, 60_000);
        machine.send(&long).expect("room");
        let (short, _) = segment(is_v6, 100);
        machine.send(&short).expect("room");
        let frames = received(&mut port, &mut pool);
        assert_eq!(frames.len(), 2);
        for frame in &frames {
            assert!(frame.has(Flags::CSUM_VERIFIED | Flags::CSUM_PARTIAL));
            assert_eq!(frame.csum(), at);
        }
        assert!(frames[0].as_slice() == long);
        assert_eq!(frames[0].segment_size(), 1_500 - headers);
        assert_eq!(frames[1].segment_size(), 0);
        // A finished checksum stays one, if the frame goes on to somebody else.
        let mut finished = short.clone();
        finished[usize::from(at) + 16] ^= 0x55;
        machine.send(&finished).expect("room");
        let frame = received(&mut port, &mut pool).pop().expect("a frame");
        assert!(frame.has(Flags::CSUM_VERIFIED) && !frame.has(Flags::CSUM_PARTIAL));
    }
    // What is no TCP, or cut short, is a frame like any other.
    for bytes in [&[0; 1][..], &[0; 14], &segment(false, 0).0[..40], &segment(true, 9).0[..60]] {
        machine.send(bytes).expect("room");
        assert_eq!(received(&mut port, &mut pool).len(), 1);
    }
}

#[test]
fn what_goes_has_finished_checksums_and_is_whole() {
    let (mut port, machine, mut pool) = port();
    assert_eq!(port.limits().mtu, Mtu::ETHERNET);
    for (is_v6, at) in [(false, 34_u16), (true, 54)] {
        for (payload, size) in [(100, 0), (60_000, 1_448)] {
            let (bytes, unfinished) = segment(is_v6, payload);
            let mut frame = pool.copy_of(&bytes).expect("memory");
            frame.set(Flags::CSUM_PARTIAL);
            frame.set_csum(at);
            frame.set_segment_size(size);
            let mut burst = Burst::new();
            burst.push(frame);
            assert_eq!(port.tx_burst(&mut pool, &mut burst), 1);
            let mut room = vec![0; 70_000];
            let got = machine.recv(&mut room).expect("a frame");
            assert_eq!(got, bytes.len());
            let tcp = usize::from(at);
            let field = [room[tcp + 16], room[tcp + 17]];
            assert_ne!(field, unfinished);
            room[tcp + 16..tcp + 18].copy_from_slice(&unfinished);
            assert!(room[..got] == bytes, "nothing else has changed");
            // Over the pseudo-header's sum in the field, the sum of the segment is the field's.
            assert_eq!(Ladder::best().sum(&room[tcp..got]).field(), field);
        }
    }
}

#[test]
fn a_full_machine_pushes_back_and_all_arrives_in_order() {
    let (mut port, machine, mut pool) = port();
    let (mut sent, mut got, mut room) = (0_u8, 0_u8, vec![0; 70_000]);
    let mut burst = Burst::new();
    let mut was_full = false;
    while got < 250 {
        while sent < 250 && !burst.is_full() {
            let mut bytes = segment(false, 1_000).0;
            *bytes.last_mut().expect("some") = sent;
            let mut frame = pool.copy_of(&bytes).expect("memory");
            frame.set(Flags::CSUM_PARTIAL);
            frame.set_csum(34);
            burst.push(frame);
            sent += 1;
        }
        port.tx_burst(&mut pool, &mut burst);
        was_full |= !burst.is_empty();
        port.rx_burst(&mut pool, &mut Burst::new());
        for _ in 0..3 {
            if let Ok(len) = machine.recv(&mut room) {
                assert_eq!(room[len - 1], got);
                got += 1;
            }
        }
    }
    assert!(was_full, "the socket has a limit");
    assert_eq!(port.drops().map(|drops| drops.nonzero().count()), Some(0));
}
