//! Super-datagrams: a device that cuts them gets one frame for many datagrams, and a host that
//! receives one takes the datagrams out of it.

use core::net::IpAddr;

use base::{Counter, DropReason};
use device::{Burst, Device, mem};
use mbuf::{Flags, Mbuf, Pool};

use super::super::craft::Rng;
use super::*;
use crate::UdpHandle;
use crate::pair::{End, PairConfig, end, pair};

fn config(version: base::IpVersion) -> PairConfig {
    let mut config = PairConfig::new([8, 9]);
    config.version = version;
    let offloads = &mut config.wire.offloads;
    (offloads.tx_checksum, offloads.rx_checksum) = (true, true);
    offloads.uso_max_bytes = 65_535 + 14;
    config
}

fn socket(end: &mut End, port: u16) -> UdpHandle {
    end.stack.udp_bind(SocketAddr::new(end.addr, port), base::Owner::program()).expect("free")
}

/// The datagrams that arrive at the other end after one call.
fn arrived(config: &PairConfig, payload: &[u8], size: usize) -> (Vec<Vec<u8>>, [u64; 4]) {
    let (mut left, mut right) = pair(config);
    let (from, into) = (socket(&mut left, 9), socket(&mut right, 7));
    let to = SocketAddr::new(right.addr, 7);
    assert_eq!(left.stack.udp_send_segments(from, to, payload, size, NOW), Ok(payload.len()));
    left.stack.flush();
    right.stack.poll(NOW);
    let mut datagrams = Vec::new();
    while let Some(datagram) = right.stack.udp_receive(into) {
        assert_eq!(datagram.from, SocketAddr::new(left.addr, 9));
        datagrams.push(datagram.payload.as_slice().to_vec());
        right.stack.give_back(datagram.payload);
    }
    assert_eq!(right.stack.drops().total(), 0);
    let counters = left.stack.counters();
    let of = |counter| counters.of(counter);
    let in_ = right.stack.counters().of(Counter::UdpIn);
    (datagrams, [of(Counter::UdpOut), of(Counter::UdpSegments), in_, of(Counter::TxFrames)])
}

#[test]
fn a_super_datagram_arrives_as_the_datagrams_that_were_sent() {
    for version in BOTH {
        let mut random = Rng(6);
        for _ in 0..40 {
            let size = random.pick(&[1, 7, 64, 1_000, 1_452]);
            let most = (64 * size).min(65_535);
            let len = random.below(most as u32 + 1) as usize;
            let payload: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
            let mut plain = config(version);
            plain.wire.offloads.uso_max_bytes = 0;
            let (whole, [out, made, into, frames]) = arrived(&config(version), &payload, size);
            let (single, [out_single, _, into_single, frames_single]) =
                arrived(&plain, &payload, size);
            assert!(whole == single, "{len} bytes by {size}: other datagrams");
            assert_eq!((out, into), (out_single, into_single));
            assert_eq!(made, out - 1);
            assert!(frames <= 2 && frames_single == out, "{frames} frames");
        }
    }
}

/// The frame of one call, as a device gets it.
fn frame(config: &PairConfig) -> (Mbuf, mem::Mem) {
    let (inside, mut wire) = mem::pair(&config.wire);
    let mut left = end(config, inside, 1);
    let from = socket(&mut left, 9);
    let to = SocketAddr::new(crate::pair::addresses(2)[usize::from(left.addr.is_ipv6())].addr, 7);
    assert_eq!(left.stack.udp_send_segments(from, to, &[5; 250], 100, NOW), Ok(250));
    left.stack.flush();
    let mut burst = Burst::new();
    assert_eq!(wire.rx_burst(&mut Pool::new(1 << 20), &mut burst), 1);
    (burst.remove(0), wire)
}

#[test]
fn a_device_gets_the_segment_size_and_an_unfinished_checksum() {
    for version in BOTH {
        let (m, _wire) = frame(&config(version));
        assert_eq!(m.segment_size(), 100);
        assert!(m.has(Flags::CSUM_PARTIAL));
        let udp = &m.as_slice()[usize::from(m.csum())..];
        assert_eq!(udp.len(), 8 + 250);
        assert_eq!(udp[..6], [0, 9, 0, 7, 1, 2]);
        // The checksum field contains the pseudo-header's sum: the sum over the UDP datagram with
        // it is the checksum.
        let sum = wire::checksum::Ladder::Byte.sum(udp);
        let mut whole = udp.to_vec();
        whole[6..8].copy_from_slice(&sum.field());
        let (src, dst) = addresses_in(&m, version);
        let pseudo = inet::ip_input::pseudo_sum(src, dst, wire::protocol::UDP);
        let length = wire::checksum::Sum::of_be16(258);
        let all = wire::checksum::Ladder::Byte.sum(&whole).plus(pseudo).plus(length);
        assert!(all.is_whole());
    }
}

fn addresses_in(m: &Mbuf, version: base::IpVersion) -> (IpAddr, IpAddr) {
    let ip = &m.as_slice()[14..];
    if version == base::IpVersion::V4 {
        let header = wire::ipv4::Header::parse(ip).expect("a header");
        (header.src.into(), header.dst.into())
    } else {
        let header = wire::ipv6::Header::parse(ip).expect("a header");
        (header.src.into(), header.dst.into())
    }
}

#[test]
fn without_checksums_or_a_device_that_finishes_them_datagrams_leave_one_by_one() {
    for (no_checksum, tx_checksum) in [(true, true), (false, false)] {
        let mut config = config(BOTH[0]);
        config.wire.offloads.tx_checksum = tx_checksum;
        let (mut left, right) = pair(&config);
        let from = socket(&mut left, 9);
        let mut options = left.stack.udp_options(from).expect("open");
        options.no_checksum = no_checksum;
        left.stack.udp_set_options(from, options).expect("open");
        let to = SocketAddr::new(right.addr, 7);
        assert_eq!(left.stack.udp_send_segments(from, to, &[5; 250], 100, NOW), Ok(250));
        left.stack.flush();
        assert_eq!(left.stack.counters().of(Counter::TxFrames), 3);
    }
}

/// A remote host may send anything: a frame to a group is never taken as many datagrams.
#[test]
fn a_super_datagram_to_a_group_is_refused() {
    let config = config(BOTH[0]);
    let (m, _) = frame(&config);
    let (inside, mut wire) = mem::pair(&config.wire);
    let mut right = end(&config, inside, 2);
    let into = socket(&mut right, 7);
    let mut pool = Pool::new(1 << 20);
    let mut bytes = m.as_slice().to_vec();
    bytes[..6].copy_from_slice(&[1, 0, 0x5e, 0, 0, 1]);
    bytes[30..34].copy_from_slice(&[224, 0, 0, 1]);
    bytes[24..26].fill(0);
    let sum = wire::checksum::Ladder::Byte.sum(&bytes[14..34]).field();
    bytes[24..26].copy_from_slice(&sum);
    let mut copy = pool.copy_of(&bytes).expect("memory");
    copy.set_segment_size(100);
    copy.set(Flags::CSUM_PARTIAL);
    let mut burst = Burst::new();
    burst.push(copy);
    wire.tx_burst(&mut pool, &mut burst);
    right.stack.poll(NOW);
    assert!(right.stack.udp_receive(into).is_none());
    assert_eq!(right.stack.drops().of(DropReason::UdpSuperDatagram), 1);
}
