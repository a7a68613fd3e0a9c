//! A [`Tap`] over a socket pair, which needs no privilege: push back, order, closed ends, adopted
//! headers.

use std::os::unix::net::UnixDatagram;

use base::DropReason;
use mbuf::{Flags, Pool};

use super::*;
use crate::vnet::Header;

fn over_socket(declared: &Declared) -> (Tap, UnixDatagram) {
    let (ours, theirs) = UnixDatagram::pair().expect("a pair of sockets");
    theirs.set_nonblocking(true).expect("it is open");
    (Tap::adopt(ours.into(), declared).expect("a datagram socket"), theirs)
}

fn burst(pool: &mut Pool, numbers: core::ops::Range<u8>) -> Burst {
    numbers.map(|n| pool.copy_of(&[n; 40]).expect("room")).collect()
}

#[test]
fn a_full_queue_pushes_back_in_order() {
    let mut pool = Pool::new(1 << 20);
    let (ours, theirs) = UnixDatagram::pair().expect("a pair of sockets");
    theirs.set_nonblocking(true).expect("it is open");
    // The kernel sets its minimum, which is room for a few datagrams.
    rustix::net::sockopt::set_socket_send_buffer_size(&ours, 1).expect("it is a socket");
    let mut tap = Tap::adopt(ours.into(), &Declared::default()).expect("a datagram socket");
    let mut from = burst(&mut pool, 0..60);
    let (mut sent, mut got, mut pushed_back) = (0, Vec::new(), 0);
    while got.len() < 60 {
        sent += tap.tx_burst(&mut pool, &mut from);
        assert_eq!(sent + from.len(), 60);
        if !from.is_empty() {
            pushed_back += 1;
            assert!(!tap.tx_ready(), "pushed back means no room");
        }
        let mut bytes = [0; 100];
        while let Ok(len) = theirs.recv(&mut bytes) {
            assert_eq!(len, 40);
            got.push(bytes[0]);
        }
        assert!(tap.tx_ready());
    }
    assert!(pushed_back > 0, "the socket queues a few datagrams");
    assert!(got.iter().copied().eq(0..60));
    assert_eq!(pool.outstanding(), 0);
}

#[test]
fn frames_come_in_and_the_descriptor_says_when() {
    let mut pool = Pool::new(1 << 20);
    let (mut tap, theirs) = over_socket(&Declared::default());
    assert!(!tap.rx_ready() && tap.link_up());
    for n in 0..5 {
        theirs.send(&[n; 40]).expect("room");
    }
    assert!(tap.rx_ready() && tap.as_fd().is_some());
    let mut into = Burst::new();
    assert_eq!(tap.rx_burst(&mut pool, &mut into), 5);
    assert!(into.iter().enumerate().all(|(n, frame)| frame.as_slice() == [n as u8; 40]));
    assert!(!tap.rx_ready());
    theirs.send(&[1; 1501]).expect("room");
    theirs.send(&[]).expect("room");
    theirs.send(&[2; 1500]).expect("room");
    into.clear();
    assert_eq!(tap.rx_burst(&mut pool, &mut into), 1);
    let drops = tap.drops().expect("it counts");
    let counts = [DropReason::DeviceFrameTooBig, DropReason::DeviceBadHeader];
    assert_eq!(counts.map(|reason| drops.of(reason)), [1, 1]);
}

#[test]
fn a_burst_of_long_frames_is_short_and_nothing_of_them_is_lost() {
    let mut pool = Pool::new(8 << 20);
    for (burst_bytes, bursts) in [(usize::MAX, vec![9]), (3_000, vec![3, 3, 3]), (1, vec![1; 9])] {
        let (mut tap, theirs) = over_socket(&Declared::default());
        tap.burst_bytes = burst_bytes;
        (0..9).for_each(|n| assert_eq!(theirs.send(&[n; 1_400]).expect("room"), 1_400));
        let (mut sizes, mut got, mut into) = (Vec::new(), Vec::new(), Burst::new());
        while tap.rx_ready() {
            sizes.push(tap.rx_burst(&mut pool, &mut into));
            got.extend(into.drain(..).map(|frame| (frame.as_slice()[0], frame.len())));
        }
        // A receiver that reports more frames may find none.
        sizes.retain(|&frames| frames > 0);
        assert_eq!(sizes, bursts, "{burst_bytes} bytes");
        assert!(got.into_iter().eq((0..9).map(|n| (n, 1_400))));
    }
}

#[test]
fn a_full_burst_means_more_without_asking() {
    let mut pool = Pool::new(1 << 20);
    let (mut tap, theirs) = over_socket(&Declared::default());
    theirs.send(&[1; 40]).expect("room");
    let mut into = burst(&mut pool, 0..crate::BURST as u8 - 1);
    assert_eq!(tap.rx_burst(&mut pool, &mut into), 1);
    assert!(tap.rx_ready());
    into.clear();
    assert_eq!(tap.rx_burst(&mut pool, &mut into), 0);
    assert!(!tap.rx_ready());
}

#[test]
fn a_closed_peer_is_the_end_with_a_reason() {
    let mut pool = Pool::new(1 << 20);
    let (mut tap, theirs) = over_socket(&Declared::default());
    drop(theirs);
    let mut from = burst(&mut pool, 0..3);
    assert_eq!(tap.tx_burst(&mut pool, &mut from), 3);
    assert!(!tap.link_up() && tap.as_fd().is_none() && !tap.rx_ready() && tap.tx_ready());
    assert!(tap.failure().expect("a reason").to_string().contains("Open it again"));
    assert_eq!(tap.drops().map(|d| d.of(DropReason::DeviceLinkDown)), Some(3));
    assert_eq!(pool.outstanding(), 0);
}

/// As long as it sends nothing, a TAP has no other way to learn that its interface is up again.
#[test]
fn a_frame_that_comes_ends_the_trouble_too() {
    let mut pool = Pool::new(1 << 20);
    let (mut tap, theirs) = over_socket(&Declared::default());
    tap.down();
    let mut into = Burst::new();
    assert_eq!(tap.rx_burst(&mut pool, &mut into), 0);
    assert!(!tap.link_up(), "nothing came");
    theirs.send(&[1; 40]).expect("room");
    assert_eq!(tap.rx_burst(&mut pool, &mut into), 1);
    assert!(tap.link_up() && tap.failure().is_none());
}

#[test]
fn an_adopted_header_of_any_length_is_read_and_written() {
    for len in [10, 12, 20, 24, 32] {
        let declared = Declared { link: LinkKind::Ip, vnet_header_len: len, ..Declared::default() };
        let mut pool = Pool::new(8 << 20);
        let (mut tap, theirs) = over_socket(&declared);
        let mut sent = vec![0; len];
        sent[..10].copy_from_slice(&Header::from_bytes(&[1; 32]).to_bytes());
        sent[1] = 0;
        sent.extend([0x45; 600]);
        theirs.send(&sent).expect("room");
        theirs.send(&sent[..len - 1]).expect("room");
        let mut into = Burst::new();
        assert_eq!(tap.rx_burst(&mut pool, &mut into), 1);
        assert!(into[0].has(Flags::CSUM_PARTIAL) && into[0].as_slice() == [0x45; 600]);
        assert_eq!(tap.drops().map(|d| d.of(DropReason::DeviceBadHeader)), Some(1));
        assert_eq!(tap.tx_burst(&mut pool, &mut into), 1);
        let mut bytes = [0; 1000];
        assert_eq!(theirs.recv(&mut bytes).ok(), Some(len + 600));
        assert_eq!(bytes[..2], [1, 0], "its checksum is to be finished");
        assert_eq!(bytes[len..len + 600], [0x45; 600]);
    }
}

#[test]
fn every_length_of_frame_arrives_whole_in_a_buffer_that_fits() {
    let mtu = Mtu::MAX;
    let mut pool = Pool::new(8 << 20);
    let (mut tap, theirs) = over_socket(&Declared { mtu, ..Declared::default() });
    for len in [1, 1_919, 1_920, 1_921, 3_968, 3_969, 16_256, 16_257, 40_000, 65_535] {
        let sent: Vec<u8> = (0..len).map(|i| (i * 13 % 251) as u8).collect();
        theirs.send(&sent).expect("room");
        let mut into = Burst::new();
        assert_eq!(tap.rx_burst(&mut pool, &mut into), 1, "{len}");
        assert!(into[0].as_slice() == sent, "{len}");
        let room = into[0].len() + into[0].tailroom();
        assert!(room <= 1_920 || room <= 4 * len + 700, "{len} bytes in a buffer of {room}");
        into.drain(..).for_each(|frame| pool.free(frame));
    }
}
