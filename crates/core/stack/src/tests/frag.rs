//! Datagrams larger than a packet: two stacks exchange them, and the frames on the wire are
//! checked. RFC 791 section 3.2, RFC 8200 section 4.5, RFC 1122 section 3.3.2.

mod received;

use core::net::{IpAddr, SocketAddr};

use base::{Counter, DropReason, IpVersion, LinkKind, Mtu, Owner};
use device::mem;
use inet::frag::FragmentHeader;
use wire::{ipv4, ipv6, protocol};

use super::craft::Bench;
use super::icmp::{BOTH, NOW, What, bench, tell};
use crate::pair::{self, PairConfig};
use crate::{Event, UdpError, UdpHandle};

/// Bytes that differ from place to place, so that a misplaced part is noticed.
pub(super) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}

/// The largest payload of a UDP datagram, in bytes.
fn largest(version: IpVersion) -> usize {
    if version == IpVersion::V4 { 65_507 } else { 65_527 }
}

/// The length of the IP header, in bytes.
pub(super) fn ip_len(version: IpVersion) -> usize {
    if version == IpVersion::V4 { 20 } else { 40 }
}

/// The packet of a whole frame as fragments of at most `each` bytes of data, a multiple of 8.
pub(super) fn fragments(frame: &[u8], id: u32, each: usize) -> Vec<Vec<u8>> {
    let version = if frame[14] >> 4 == 4 { IpVersion::V4 } else { IpVersion::V6 };
    let data = &frame[14 + ip_len(version)..];
    (0..data.len())
        .step_by(each)
        .map(|begin| {
            let end = data.len().min(begin + each);
            fragment(frame, id, begin, &data[begin..end], end < data.len())
        })
        .collect()
}

/// One fragment with the headers of `frame`: `data` is at offset `begin` of the datagram.
pub(super) fn fragment(frame: &[u8], id: u32, begin: usize, data: &[u8], more: bool) -> Vec<u8> {
    let len = 14 + if frame[14] >> 4 == 4 { 20 } else { 40 };
    let mut headers = FragmentHeader::new(&frame[..len], 14).expect("plain headers");
    headers.set_id(id);
    let mut bytes = vec![0; headers.header_len()];
    assert!(headers.write(&mut bytes, begin, data.len(), more));
    bytes.extend_from_slice(data);
    bytes
}

/// A frame with a UDP datagram from end 2, its checksum right.
pub(super) fn udp_frame(bench: &Bench, ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let (from, to) = (SocketAddr::new(bench.theirs, ports.0), SocketAddr::new(bench.ours, ports.1));
    let sum = wire::checksum::Ladder::Word64.sum(payload);
    let flow = inet::udp::flow_sum(from, to);
    let header = inet::udp::header(ports, payload.len(), flow, Some(sum));
    bench.frame(protocol::UDP, &[&header[..], payload].concat())
}

/// A UDP socket on port 9 of end 1, and the remote address that it sends to.
pub(super) fn socket(bench: &mut Bench) -> (UdpHandle, SocketAddr) {
    let local = SocketAddr::new(bench.ours, 9);
    let socket = bench.stack.udp_bind(local, Owner::program()).expect("free");
    (socket, SocketAddr::new(bench.theirs, 7))
}

/// The fragment fields of a frame that the stack sent: identification, offset, and whether more
/// fragments follow. `None` if the packet is not a fragment.
fn part(frame: &[u8]) -> Option<(u32, usize, bool)> {
    if frame[14] >> 4 == 4 {
        let h = ipv4::Header::parse(&frame[14..]).expect("a header with its checksum");
        assert!(!(h.is_fragment() && h.dont_fragment));
        let part = (u32::from(h.id), usize::from(h.fragment_offset), h.more_fragments);
        return h.is_fragment().then_some(part);
    }
    let h = ipv6::Header::parse(&frame[14..]).expect("a header");
    let fragment = (h.next_header == protocol::FRAGMENT)
        .then(|| ipv6::Fragment::parse(&frame[54..]).expect("a fragment header"))?;
    assert_eq!(fragment.next_header, protocol::UDP);
    Some((fragment.id, usize::from(fragment.fragment_offset), fragment.more_fragments))
}

/// Datagrams of many sizes are exchanged in both directions, over Ethernet and bare IP, at several
/// MTUs.
/// RFC 8200 4.5-a, RFC 8200 4.5-b, RFC 1122 3.3.2-c.
#[test]
fn datagrams_of_any_size_arrive_whole() {
    for version in BOTH {
        for (link, mtu) in [
            (LinkKind::Ethernet, 1_500),
            (LinkKind::Ip, 1_280),
            (LinkKind::Ethernet, 9_000),
            (LinkKind::Ethernet, if version == IpVersion::V4 { 576 } else { 1_281 }),
        ] {
            let mtu = Mtu::new(mtu).expect("an MTU");
            let wire = mem::Config { link, mtu, ..mem::Config::default() };
            let config = PairConfig { version, wire, ..PairConfig::new([5, 6]) };
            exchange(&config);
        }
    }
}

fn exchange(config: &PairConfig) {
    let (mut left, mut right) = pair::pair(config);
    let [a, b] = [&mut left, &mut right].map(|end| {
        let local = SocketAddr::new(end.addr, 9);
        (end.stack.udp_bind(local, Owner::program()).expect("free"), local)
    });
    let fits = config.wire.mtu.bytes() - ip_len(config.version) - 8;
    let most = largest(config.version);
    let sizes = [0, fits - 1, fits, fits + 1, 3_000, 8_192, 65_000, most - 1, most];
    let mut in_fragments = 0;
    for size in sizes {
        let data = pattern(size);
        for _ in 0..2 {
            left.stack.udp_send(a.0, b.1, &data, NOW).expect("sent");
            left.stack.flush();
            right.stack.poll(NOW);
            assert_eq!(right.stack.next_event(), Some(Event::Udp(b.0)), "{size} bytes");
            let datagram = right.stack.udp_receive(b.0).expect("it arrived");
            assert!(datagram.payload.as_slice() == data, "{size} bytes");
            assert_eq!(datagram.from, a.1);
            right.stack.give_back(datagram.payload);
        }
        in_fragments += 2 * u64::from(size > fits);
        assert_eq!(left.stack.counters().of(Counter::DatagramsFragmented), in_fragments);
    }
    let too_big = Err(UdpError::Unsendable(DropReason::IpTooBig));
    assert_eq!(left.stack.udp_send(a.0, b.1, &pattern(most + 1), NOW), too_big);
    let (sent, received) = (left.stack.counters(), right.stack.counters());
    assert_eq!(received.of(Counter::DatagramsReassembled), in_fragments);
    assert_eq!(received.of(Counter::FragmentsIn), sent.of(Counter::FragmentsOut));
    assert_eq!(received.of(Counter::FragmentsJoined), sent.of(Counter::FragmentsOut));
    assert_eq!((right.stack.drops().total(), left.stack.drops().total()), (0, 0));
    left.stack.settle();
    right.stack.settle();
    assert_eq!((left.stack.pool().outstanding(), right.stack.pool().outstanding()), (0, 0));
}

#[test]
fn echoes_of_any_size_come_back() {
    for version in BOTH {
        let config = PairConfig { version, ..PairConfig::new([8, 9]) };
        let (mut left, mut right) = pair::pair(&config);
        let socket = left.stack.ping_open(Owner::program()).expect("a socket");
        for (seq, size) in
            [0, 1_472, 1_473, 3_000, 65_000, largest(version)].into_iter().enumerate()
        {
            let data = pattern(size);
            left.stack.ping_send(socket, right.addr, seq as u16, &data, NOW).expect("sent");
            left.stack.flush();
            right.stack.poll(NOW);
            left.stack.poll(NOW);
            let echo = left.stack.ping_receive(socket).expect("an echo");
            let payload = echo.outcome.expect("a reply");
            assert!(payload.as_slice() == data, "{size} bytes");
            left.stack.give_back(payload);
        }
        let too_big = Err(UdpError::Unsendable(DropReason::IpTooBig));
        let data = pattern(largest(version) + 1);
        assert_eq!(left.stack.ping_send(socket, right.addr, 1, &data, NOW), too_big);
        left.stack.ping_close(socket);
        left.stack.settle();
        right.stack.settle();
        assert_eq!((left.stack.pool().outstanding(), right.stack.pool().outstanding()), (0, 0));
    }
}

/// An 8 KB write is six frames in a row with one identification. A datagram that fits leaves as one
/// packet, which routers may not fragment and which has no identification.
#[test]
fn a_write_of_8_kb_leaves_as_six_fragments_back_to_back() {
    for version in BOTH {
        let mut bench = bench(version);
        let (udp, remote) = socket(&mut bench);
        let data = pattern(8_192);
        let mut ids = std::collections::BTreeSet::new();
        for _ in 0..20 {
            let bursts = bench.stack.counters().of(Counter::TxBursts);
            bench.stack.udp_send(udp, remote, b"before", NOW).expect("sent");
            bench.stack.udp_send(udp, remote, &data, NOW).expect("sent");
            let frames = bench.sent();
            assert_eq!(
                bench.stack.counters().of(Counter::TxBursts),
                bursts + 1,
                "the frames left in several bursts"
            );
            assert_eq!(frames.len(), 7);
            assert_eq!(part(&frames[0]), None);
            let (id, ..) = part(&frames[1]).expect("a fragment");
            assert!(ids.insert(id), "{id} again");
            let mut next = 0;
            for (n, frame) in frames[1..].iter().enumerate() {
                assert_eq!(part(frame), Some((id, next, n < 5)));
                assert!(frame.len() <= 1_514);
                let headers = 14 + if version == IpVersion::V4 { 20 } else { 48 };
                next += frame.len() - headers;
            }
            assert_eq!(next, data.len() + 8);
        }
        let steps: std::collections::BTreeSet<u32> =
            ids.iter().zip(ids.iter().skip(1)).map(|(a, b)| b - a).collect();
        assert!(steps.len() > 10, "{ids:?}");
    }
}

/// If a burst has no room for all fragments of a datagram, its frames are sent first.
#[test]
fn fragments_have_a_burst_of_their_own_if_need_be() {
    let mut bench = bench(IpVersion::V4);
    let (udp, remote) = socket(&mut bench);
    for _ in 0..60 {
        bench.stack.udp_send(udp, remote, b"before", NOW).expect("sent");
    }
    assert_eq!(bench.stack.counters().of(Counter::TxFrames), 0, "frames left before a flush");
    bench.stack.udp_send(udp, remote, &pattern(8_192), NOW).expect("sent");
    assert_eq!(bench.stack.counters().of(Counter::TxFrames), 60);
    assert_eq!(bench.sent().len(), 66);
    assert_eq!(bench.stack.counters().of(Counter::TxBursts), 2);
}

/// A fragmented datagram is one entry of the pending queue until its neighbour's link address is
/// known, although that queue holds three packets only.
#[test]
fn a_datagram_waits_for_its_neighbour_whole() {
    for version in BOTH {
        let mut bench = Bench::among_strangers(&PairConfig { version, ..PairConfig::new([3, 4]) });
        let (udp, remote) = socket(&mut bench);
        let data = pattern(65_507);
        bench.stack.udp_send(udp, remote, &data, NOW).expect("queued");
        bench.stack.udp_send(udp, remote, b"small", NOW).expect("queued");
        assert_eq!(bench.sent().len(), 1, "no solicitation left");
        let answer = match (bench.theirs, bench.ours) {
            (IpAddr::V4(theirs), IpAddr::V4(ours)) => {
                let mut frame = vec![0; 14];
                let (dst, src, ethertype) = (pair::mac(1), pair::mac(2), wire::ether::ARP);
                wire::ether::Header { dst, src, ethertype }.emit(&mut frame);
                let reply = wire::arp::Operation::Reply;
                frame.extend(inet::nd::arp_output(reply, (pair::mac(2), theirs), (dst, ours)));
                frame
            }
            (IpAddr::V6(theirs), IpAddr::V6(ours)) => {
                let mut bytes = [0; wire::nd::LEN_MAX];
                let len = inet::nd::advertisement(&mut bytes, (pair::mac(2), false), ours, theirs);
                let mut frame = bench.frame(protocol::ICMPV6, &bytes[..len.expect("it fits")]);
                frame[14 + 7] = 255;
                frame
            }
            _ => unreachable!("both have the version"),
        };
        let count = if version == IpVersion::V4 { 45 } else { 46 };
        let frames = bench.exchange(&answer, NOW);
        let parts: Vec<_> = frames.iter().filter_map(|frame| part(frame)).collect();
        assert_eq!((frames.len(), parts.len()), (parts.len() + 1, count));
        assert!(frames.iter().all(|frame| frame[..6] == pair::mac(2).0));
        assert!(
            !parts[count - 1].2
                && parts[..count - 1].iter().all(|&(id, _, more)| more && id == parts[0].0)
        );
        assert_eq!(bench.stack.drops().total(), 0);
        bench.stack.settle();
        assert_eq!(bench.stack.pool().outstanding(), 0);
    }
}

/// A device that takes a few frames at a time gets all fragments of a datagram, or none.
#[test]
fn a_device_that_is_full_gets_a_datagram_whole_or_not_at_all() {
    let wire = mem::Config { depth: 8, ..mem::Config::default() };
    let mut bench = Bench::new(&PairConfig { wire, ..PairConfig::new([5, 6]) });
    let (udp, remote) = socket(&mut bench);
    let data = pattern(65_507);
    let mut sent = 0;
    loop {
        match bench.stack.udp_send(udp, remote, &data, NOW) {
            Ok(()) => sent += 1,
            Err(error) => {
                assert_eq!(error, UdpError::WouldBlock);
                break;
            }
        }
    }
    assert!((1..=3).contains(&sent), "{sent}");
    let mut frames = Vec::new();
    for _ in 0..40 {
        bench.stack.poll(NOW);
        frames.extend(bench.sent());
    }
    assert_eq!(frames.len(), 45 * sent);
    for datagram in frames.chunks(45) {
        let parts: Vec<_> = datagram.iter().map(|frame| part(frame).expect("a part")).collect();
        assert!(parts.iter().all(|p| p.0 == parts[0].0) && parts.is_sorted());
    }
    assert_eq!((bench.stack.drops().total(), bench.stack.pool().outstanding()), (0, 0));
}

/// Buffers run out in the middle of a datagram: none of its fragments leaves, and the datagram that
/// was sent before it does.
#[test]
fn without_buffers_nothing_of_a_datagram_leaves() {
    let mut bench = Bench::new(&PairConfig::new([5, 6]));
    let (udp, remote) = socket(&mut bench);
    let data = pattern(20_000);
    bench.stack.udp_send(udp, remote, b"in front", NOW).expect("room");
    let mut held = Vec::new();
    while let Some(m) = bench.stack.pool().alloc(1_400) {
        held.push(m);
    }
    for m in held.split_off(held.len() - 5) {
        bench.stack.pool().free(m);
    }
    let refused = bench.stack.udp_send(udp, remote, &data, NOW);
    assert_eq!(refused, Err(UdpError::Unsendable(DropReason::MbufExhausted)));
    bench.stack.poll(NOW);
    assert_eq!(bench.sent().len(), 1, "the datagram before it did not leave");
    bench.stack.pool().free_all(held.into_iter());
    bench.stack.udp_send(udp, remote, &data, NOW).expect("buffers");
    bench.stack.poll(NOW);
    assert_eq!(bench.sent().len(), 14);
    assert_eq!(bench.stack.pool().outstanding(), 0);
}

/// The fragments of a broadcast would be a burst of frames to every host, so it is refused.
#[test]
fn a_broadcast_is_not_fragmented() {
    let mut bench = bench(IpVersion::V4);
    let (udp, _) = socket(&mut bench);
    bench.stack.udp_set_broadcast(udp, true).expect("open");
    let to = |addr: &str| SocketAddr::new(addr.parse().expect("an address"), 7);
    let too_big = Err(UdpError::Unsendable(DropReason::IpTooBig));
    for addr in ["192.0.2.255", "192.0.2.0"] {
        assert_eq!(bench.stack.udp_send(udp, to(addr), &[1; 1_473], NOW), too_big);
        assert_eq!(bench.stack.udp_send(udp, to(addr), &[1; 1_472], NOW), Ok(()));
    }
    assert!(bench.sent().len() == 2);
}

/// Routers do not fragment IPv6 packets: they report "packet too big" about the first fragment.
#[test]
fn fragments_follow_the_path_mtu_that_a_router_reports() {
    let mut bench = bench(IpVersion::V6);
    let (udp, remote) = socket(&mut bench);
    bench.stack.udp_send(udp, remote, &pattern(8_192), NOW).expect("sent");
    let frames = bench.sent();
    // An error about a later fragment reaches no socket: that fragment has no ports.
    tell(&mut bench, &frames[1][14..], What::TooBig(1_300), NOW);
    assert_eq!(bench.stack.drops().of(DropReason::IcmpMalformed), 1);
    tell(&mut bench, &frames[0][14..], What::TooBig(1_300), NOW);
    bench.stack.udp_send(udp, remote, &pattern(8_192), NOW).expect("sent");
    let frames = bench.sent();
    assert_eq!(frames.len(), 7);
    assert!(frames.iter().all(|frame| frame.len() <= 14 + 1_300 && part(frame).is_some()));
}

/// The path MTU is used for echo requests too: for one that was a whole packet, and for one in
/// several fragments.
#[test]
fn large_pings_follow_the_path_mtu_that_a_router_reports() {
    for (version, size, count) in
        [(IpVersion::V6, 1_400, 2), (IpVersion::V6, 4_000, 4), (IpVersion::V4, 1_400, 2)]
    {
        let mut bench = bench(version);
        let theirs = bench.theirs;
        let socket = bench.stack.ping_open(Owner::program()).expect("a socket");
        let ping = |bench: &mut Bench, seq, now| {
            bench.stack.ping_send(socket, theirs, seq, &pattern(size), now).expect("sent");
            bench.sent()
        };
        let frames = ping(&mut bench, 1, NOW);
        tell(&mut bench, &frames[0][14..], What::TooBig(1_300), NOW);
        let echo = bench.stack.ping_receive(socket).expect("told");
        assert!(matches!(echo.outcome, Err(crate::EchoError::TooBig(1_300))));
        let frames = ping(&mut bench, 2, NOW);
        assert_eq!(frames.len(), count, "{size} bytes");
        assert!(frames.iter().all(|frame| frame.len() <= 14 + 1_300));
        // Another socket does not use that MTU, and after ten minutes no socket does.
        let other = bench.stack.ping_open(Owner::program()).expect("a socket");
        bench.stack.ping_send(other, theirs, 1, &pattern(1_400), NOW).expect("sent");
        assert_eq!(bench.sent().len(), 1);
        let later = NOW + tcp::path::LIFE;
        assert!(ping(&mut bench, 3, later).len() < count);
    }
}
