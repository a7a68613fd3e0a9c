//! Traffic over packet sockets: frames of every size, offloads, tags, groups, bare IP.

use std::net::UdpSocket;

use base::{DropReason, LinkKind};
use mbuf::{Flags, Pool};
use testbed::{Case, ip};
use wirespeed_device::packet::{Config, Fanout, PacketSocket, Receive};
use wirespeed_device::tap::{self, Setup, Tap};
use wirespeed_device::{Burst, Device};

use crate::frames::{self, Segment};
use crate::pair::{KINDS, dropped, frame, number, open, ours, receive_all, send, veth};

pub(crate) const CASES: &[Case] = &[
    ("frames_of_every_size_arrive_whole_and_in_order", &[], sizes),
    ("frames_of_every_protocol_arrive_as_they_were", &[], protocols),
    ("what_is_sent_is_not_received", &[], outgoing),
    ("super_segments_and_unfinished_checksums_pass_with_their_notes", &[], supers),
    ("the_kernel_finishes_a_checksum_and_takes_the_datagram", &[], kernel),
    ("tags_stay_in_the_frame", &[], tags),
    ("frames_that_find_no_room_in_the_ring_are_counted", &[], losses),
    ("queues_of_a_group_share_frames_by_flow", &[], fanout),
    ("frames_for_other_stations_take_promiscuity", &[], promiscuity),
    ("a_bare_ip_interface_carries_packets", &[], bare_ip),
];

fn sizes() {
    veth();
    for receive in KINDS {
        let (mut a, mut b) = (open("va", receive), open("vb", receive));
        let mut pool = Pool::new(64 << 20);
        // Send more frames in all than the rings hold, in parts that fit.
        for part in 0..8u16 {
            let numbers = part * 20..part * 20 + 20;
            let burst: Burst =
                numbers.clone().map(|n| frame(&mut pool, n, 60 + usize::from(n) * 9)).collect();
            send(&mut a, &mut pool, burst);
            assert!(a.limits().max_frame >= 60 + 159 * 9);
            let got = receive_all(&mut b, &mut pool, 20, ours);
            assert!(got.iter().map(number).eq(numbers), "{receive:?}: {:?}", b.drops());
            for frame in got {
                let n = number(&frame);
                assert_eq!(frame.len(), 60 + usize::from(n) * 9);
                assert!(frame.as_slice()[16..].iter().all(|&byte| byte == n as u8));
                pool.free(frame);
            }
        }
        let long = frame(&mut pool, 0, 1_600);
        send(&mut a, &mut pool, Burst::from_iter([long]));
        assert_eq!(dropped(&a, DropReason::DeviceFrameTooBig), 1);
        assert_eq!(pool.outstanding(), 0);
    }
}

fn protocols() {
    veth();
    let (mut a, mut b) = (open("va", KINDS[0]), open("vb", KINDS[1]));
    let mut pool = Pool::new(16 << 20);
    let (us, them) = ([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]);
    let v4 = |last: u8| [10, 77, 0, last].into();
    let v6 = |last: u8| [0xfd77, 0, 0, 0, 0, 0, 0, u16::from(last)].into();
    for packet in [
        frames::arp(1, (us, v4(2)), ([0; 6], v4(1))),
        frames::advertisement(v6(2), v6(1), us),
        frames::echo(v6(2), v6(1), b"?"),
        frames::echo(v4(2), v4(1), b"?"),
    ] {
        let sent = frames::ethernet(them, us, &packet);
        let frame = pool.copy_of(&sent).expect("room");
        send(&mut a, &mut pool, Burst::from_iter([frame]));
        let got = receive_all(&mut b, &mut pool, 1, |bytes| bytes.get(..12) == sent.get(..12));
        assert!(got.first().is_some_and(|frame| frame.as_slice() == sent), "{sent:x?}");
    }
}

fn outgoing() {
    veth();
    // The kernel does not deliver the frames that a socket has sent to the same socket. It does
    // deliver those of other sockets, unless that is turned off.
    let (mut a, mut beside) = (open("va", KINDS[0]), open("va", KINDS[0]));
    let mut b = open("vb", KINDS[0]);
    let mut pool = Pool::new(16 << 20);
    let burst: Burst = (0..5).map(|n| frame(&mut pool, n, 100)).collect();
    send(&mut a, &mut pool, burst);
    let back = Burst::from_iter([frame(&mut pool, 77, 100)]);
    assert_eq!(receive_all(&mut b, &mut pool, 5, ours).len(), 5);
    send(&mut b, &mut pool, back);
    for port in [&mut a, &mut beside] {
        let got = receive_all(port, &mut pool, 1, ours);
        assert_eq!(got.iter().map(number).collect::<Vec<_>>(), [77], "and none that left");
    }
}

/// A TCP segment with `len` bytes of payload, whose checksum is left to the device, after `tags`.
fn segment(v6: bool, len: usize, tags: &[u8]) -> Vec<u8> {
    let address = |last: u8| match v6 {
        true => format!("fd77::{last}").parse().expect("an address"),
        false => [10, 77, 0, last].into(),
    };
    let segment =
        Segment { src: (address(1), 1000), dst: (address(2), 2000), seq: 1, ack: 1, flags: 0x10 };
    let payload: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
    let mut bytes =
        frames::ethernet([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], &segment.with(&payload));
    bytes.splice(12..12, tags.iter().copied());
    bytes
}

const TAG: [u8; 4] = [0x81, 0x00, 0x60, 0x05];
const OUTER: [u8; 4] = [0x88, 0xa8, 0x00, 0x07];

fn supers() {
    veth();
    for receive in KINDS {
        let (mut a, mut b) = (open("va", receive), open("vb", receive));
        let mut pool = Pool::new(64 << 20);
        let both = [OUTER, TAG].concat();
        for (tags, size, len) in [
            (&[][..], 1400, 60_000),
            (&[], 0, 1_000),
            (&TAG, 1400, 60_000),
            (&both, 1400, 30_000),
            (&both, 0, 900),
        ] {
            for v6 in [false, true] {
                let sent = segment(v6, len, tags);
                let mut frame = pool.copy_of(&sent).expect("room");
                frame.set(Flags::CSUM_PARTIAL);
                let start = 14 + tags.len() as u16 + if v6 { 40 } else { 20 };
                frame.set_csum(start);
                frame.set_segment_size(size);
                send(&mut a, &mut pool, Burst::from_iter([frame]));
                let wanted = |bytes: &[u8]| bytes.get(..12) == sent.get(..12);
                let got = receive_all(&mut b, &mut pool, 1, wanted);
                let what =
                    format!("{receive:?} {tags:x?} {size} {v6}: {:?} {:?}", a.drops(), b.drops());
                let got = got.first().unwrap_or_else(|| panic!("{what}"));
                assert!(got.as_slice() == sent, "{what}");
                assert_eq!(got.segment_size(), size, "{what}");
                assert!(got.has(Flags::CSUM_PARTIAL | Flags::CSUM_VERIFIED), "{what}");
                assert_eq!(got.csum(), start, "{what}");
            }
        }
    }
}

fn kernel() {
    veth();
    assert!(ip("addr add 10.77.0.1/24 dev vb"));
    let socket = UdpSocket::bind("10.77.0.1:7").expect("the address is the kernel's");
    socket.set_read_timeout(Some(crate::pair::PATIENCE)).expect("it is open");
    let peer = PacketSocket::open(&Config::of("vb")).expect("root opens it");
    let mac = peer.mac().expect("a veth has one");
    assert!(ip("neigh add 10.77.0.2 lladdr 02:00:00:00:00:02 dev vb"));
    for receive in KINDS {
        let mut a = open("va", receive);
        let mut pool = Pool::new(16 << 20);
        let (us, them) = (([10, 77, 0, 2].into(), 1000), ([10, 77, 0, 1].into(), 7));
        let packet = frames::datagram(us, them, b"to the kernel");
        let bytes = frames::ethernet(mac.0, [2, 0, 0, 0, 0, 2], &packet);
        let mut frame = pool.copy_of(&bytes).expect("room");
        frame.set(Flags::CSUM_PARTIAL);
        frame.set_csum(34);
        send(&mut a, &mut pool, Burst::from_iter([frame]));
        let mut text = [0; 100];
        assert_eq!(socket.recv(&mut text).ok(), Some(13));
        socket.send_to(b"from the kernel", (us.0, us.1)).expect("it knows our address");
        let is_udp = |bytes: &[u8]| bytes.get(23) == Some(&frames::UDP);
        let got = receive_all(&mut a, &mut pool, 1, is_udp);
        assert!(got[0].as_slice().ends_with(b"from the kernel"));
        assert!(got[0].has(Flags::CSUM_VERIFIED), "it never left the machine");
    }
}

fn tags() {
    veth();
    for receive in KINDS {
        let (mut a, mut b) = (open("va", receive), open("vb", receive));
        let mut pool = Pool::new(16 << 20);
        for tags in [vec![], TAG.to_vec(), OUTER.to_vec(), [OUTER, TAG].concat()] {
            let mut sent = frame(&mut pool, 3, 200).as_slice().to_vec();
            sent.splice(12..12, tags.iter().copied());
            let frame = pool.copy_of(&sent).expect("room");
            send(&mut a, &mut pool, Burst::from_iter([frame]));
            let got = receive_all(&mut b, &mut pool, 1, |bytes| bytes.get(..12) == sent.get(..12));
            assert!(got.first().is_some_and(|frame| frame.as_slice() == sent), "{tags:x?}");
        }
    }
}

fn losses() {
    veth();
    let mut pool = Pool::new(64 << 20);
    let tight = Receive::Blocks { count: 2, bytes: 128 << 10, wait_ms: 1 };
    for (receive, bytes) in [(Receive::Slots { count: 4 }, 100), (tight, 1_400)] {
        let (mut a, mut b) = (open("va", receive), open("vb", receive));
        for part in 0..5u16 {
            let burst = (0..60).map(|n| frame(&mut pool, part * 60 + n, bytes)).collect();
            send(&mut a, &mut pool, burst);
        }
        let mut into = Burst::new();
        let (start, mut seen) = (std::time::Instant::now(), 0);
        let mut all = 0;
        while b.rx_burst(&mut pool, &mut into) > 0 {
            seen += into.iter().filter(|frame| ours(frame.as_slice())).count() as u64;
            into.drain(..).for_each(|frame| pool.free(frame));
        }
        if let Receive::Slots { .. } = receive {
            // The loss is counted as soon as the full ring was emptied, even if no frame has
            // arrived since.
            assert!(dropped(&b, DropReason::DeviceRingFull) >= 296, "{:?}", b.drops());
        }
        while all < 300 && start.elapsed() < crate::pair::PATIENCE {
            b.rx_burst(&mut pool, &mut into);
            seen += into.iter().filter(|frame| ours(frame.as_slice())).count() as u64;
            into.drain(..).for_each(|frame| pool.free(frame));
            // Some of the lost frames may be the kernel's own.
            all = seen + dropped(&b, DropReason::DeviceRingFull);
        }
        assert!(all >= 300 && seen < 300, "{receive:?}: {seen} came, {:?}", b.drops());
    }
}

fn fanout() {
    veth();
    let mut a = open("va", KINDS[0]);
    let mut pool = Pool::new(16 << 20);
    let config = Config { promiscuous: true, ..Config::of("vb") };
    let mut queues = PacketSocket::open_queues(&config, Fanout::Hash, 3).expect("root may");
    for round in 0..2 {
        for port in 0..20 {
            let (us, them) = (([10, 77, 0, 2].into(), 1000 + port), ([10, 77, 0, 1].into(), 7));
            let packet = frames::datagram(us, them, &[round, port as u8]);
            let bytes = frames::ethernet([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], &packet);
            let frame = pool.copy_of(&bytes).expect("room");
            send(&mut a, &mut pool, Burst::from_iter([frame]));
        }
    }
    let (start, mut flows) = (std::time::Instant::now(), vec![Vec::new(); 3]);
    while flows.iter().map(Vec::len).sum::<usize>() < 40 && start.elapsed() < crate::pair::PATIENCE
    {
        for (queue, flows) in queues.iter_mut().zip(&mut flows) {
            let mut burst = Burst::new();
            queue.rx_burst(&mut pool, &mut burst);
            let udp = burst.iter().filter(|f| f.as_slice().get(23) == Some(&frames::UDP));
            flows.extend(udp.filter_map(|f| f.as_slice().last().copied()));
        }
    }
    assert_eq!(flows.iter().map(Vec::len).sum::<usize>(), 40, "{flows:?}");
    assert!(flows.iter().filter(|f| !f.is_empty()).count() > 1, "{flows:?}");
    for port in 0..20 {
        let both = flows.iter().filter(|f| f.contains(&port)).count();
        assert_eq!(both, 1, "flow {port} stays where it is: {flows:?}");
    }
}

fn promiscuity() {
    veth();
    let mut a = open("va", KINDS[0]);
    let mut pool = Pool::new(16 << 20);
    let shown = || std::process::Command::new("ip").args(["-d", "link", "show", "vb"]).output();
    let promiscuity = || {
        let text = shown().map(|o| String::from_utf8_lossy(&o.stdout).into_owned());
        text.is_ok_and(|text| text.contains("promiscuity 1"))
    };
    let one = PacketSocket::open(&Config::of("vb")).expect("root may");
    assert!(!promiscuity());
    drop(one);
    let mut two = open("vb", KINDS[0]);
    assert!(promiscuity());
    let burst = Burst::from_iter([frame(&mut pool, 1, 100)]);
    send(&mut a, &mut pool, burst);
    assert_eq!(receive_all(&mut two, &mut pool, 1, ours).len(), 1);
    drop(two);
    assert!(!promiscuity());
}

fn bare_ip() {
    let config = tap::Config {
        name: Some("ws0".to_owned()),
        link: LinkKind::Ip,
        vnet_hdr: false,
        ..tap::Config::default()
    };
    let mut tun = Tap::open(&config).expect("root opens a TUN");
    tun.configure(&Setup { up: true, ..Setup::default() }).expect("root sets it up");
    let mut port = PacketSocket::open(&Config::of("ws0")).expect("root may");
    assert_eq!(port.limits().link, LinkKind::Ip);
    assert_eq!(port.mac(), None);
    let mut pool = Pool::new(16 << 20);
    let (one, two) = ([10, 77, 0, 1].into(), [10, 77, 0, 2].into());
    let is_echo = |bytes: &[u8]| bytes.get(9) == Some(&frames::ICMP);
    let out = frames::echo(one, two, b"out");
    let burst = Burst::from_iter([pool.copy_of(&out).expect("room")]);
    send(&mut port, &mut pool, burst);
    let got = receive_all(&mut tun, &mut pool, 1, is_echo);
    assert!(got.first().is_some_and(|frame| frame.as_slice() == out), "{:?}", port.drops());
    let back = frames::echo(two, one, b"back");
    let burst = Burst::from_iter([pool.copy_of(&back).expect("room")]);
    send(&mut tun, &mut pool, burst);
    let got = receive_all(&mut port, &mut pool, 1, is_echo);
    assert!(got.first().is_some_and(|frame| frame.as_slice() == back), "{:?}", port.drops());
}
