//! Frames in both directions: echo, queues, adopted descriptors, and a kernel that sends more than
//! is read.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use base::{DropReason, LinkKind, MacAddr, Mtu};
use mbuf::{Flags, Pool};
use testbed::{Case, Need, ip};
use wirespeed_device::tap::{Config, Declared, Setup, Tap};
use wirespeed_device::{Burst, Device};

use crate::ends::{End, kernel, ours, setup};
use crate::frames;

pub(crate) const CASES: &[Case] = &[
    ("arp_and_echo_over_tap", &[], || End::new(LinkKind::Ethernet, false).echo_both_ways()),
    ("arp_and_echo_over_tap_with_offloads", &[], || {
        End::new(LinkKind::Ethernet, true).echo_both_ways()
    }),
    ("echo_over_tun", &[], || End::new(LinkKind::Ip, false).echo_both_ways()),
    ("echo_over_tun_with_offloads", &[], || End::new(LinkKind::Ip, true).echo_both_ways()),
    ("a_descriptor_from_outside_is_adopted", &[], adopted),
    ("settings_of_the_kernels_end_are_set", &[], settings),
    ("several_queues_are_one_interface", &[], queues),
    ("a_flood_that_nobody_reads_takes_no_memory", &[], flood_in),
    ("a_flood_to_a_socket_that_nobody_reads_takes_no_memory", &[], flood_out),
    ("bursts_by_io_uring_are_as_by_plain_writes", &[Need::IoUring], bursts),
    ("a_checksum_left_to_the_device_is_finished_by_the_kernel", &[], partial_out),
];

/// A UDP socket of the kernel, on its address.
pub(crate) fn socket(v6: bool) -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind((kernel(v6), 0)).expect("the address is the kernel's");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout that is not zero");
    let address = socket.local_addr().expect("it is bound");
    (socket, address)
}

fn adopted() {
    for (link, vnet_hdr) in [(LinkKind::Ethernet, true), (LinkKind::Ip, false)] {
        let first = End::new(link, vnet_hdr).tap;
        let limits = first.limits();
        let fd = first.as_fd().expect("it is there").try_clone_to_owned().expect("a copy");
        drop(first);
        // The kernel is asked for the kind of interface, so a wrong `declared` does no harm.
        let wrong = if link == LinkKind::Ip { LinkKind::Ethernet } else { LinkKind::Ip };
        let uso = limits.offloads.uso_max_bytes > 0;
        let declared = Declared { link: wrong, uso, ..Declared::default() };
        let second = Tap::adopt(fd, &declared).expect("a TAP");
        assert_eq!((second.name(), second.limits()), ("ws0", limits));
        End::around(second).echo_both_ways();
    }
}

fn settings() {
    let mut end = End::new(LinkKind::Ethernet, false);
    let mac = MacAddr([2, 0, 0, 7, 7, 7]);
    let mtu = Mtu::new(9000).expect("an MTU");
    let queue_frames = Some(4321);
    let change = Setup { mac: Some(mac), mtu: Some(mtu), queue_frames, ..Setup::default() };
    end.tap.configure(&change).expect("root sets it up");
    let shown = std::process::Command::new("ip").args(["link", "show", "ws0"]).output();
    let shown = String::from_utf8(shown.expect("iproute2").stdout).expect("text");
    assert!(shown.contains("qlen 4321"), "{shown}");
    assert_eq!(end.tap.kernel_mac(), Some(mac));
    assert_ne!(end.tap.our_mac(), Some(mac));
    assert_eq!(end.tap.our_mac(), end.tap.our_mac());
    assert_eq!(end.tap.limits().mtu, mtu);
    let mut end = End::around(end.tap);
    end.echo_both_ways();
    let (socket, _) = socket(false);
    // One length for each path: the small buffer, a copy out of the big one, and the big one
    // itself.
    for len in [100, 1_878, 1_879, 3_000, 8_972] {
        let sent: Vec<u8> = (0..len).map(|i| (i * 7 % 251) as u8).collect();
        socket.send_to(&sent, (ours(false), 9)).expect("room in the kernel");
        let frame = end.receive(|p| p.get(9) == Some(&frames::UDP));
        assert_eq!(frame.as_slice().len(), 14 + 28 + len);
        assert_eq!(&frame.as_slice()[42..], sent);
        end.pool.free(frame);
    }
}

fn queues() {
    let config = Config { name: Some("ws%d".to_owned()), ..Config::default() };
    let mut queues = Tap::open_queues(&config, 3).expect("root opens three");
    assert_eq!(queues.iter().map(Tap::name).collect::<Vec<_>>(), ["ws0"; 3]);
    queues[0].configure(&setup()).expect("root sets it up");
    let (socket, address) = socket(false);
    let macs = (queues[0].kernel_mac().expect("a TAP"), queues[0].our_mac().expect("a TAP"));
    let mut pool = Pool::new(1 << 20);
    for (number, queue) in queues.iter_mut().enumerate() {
        let from = (ours(false), 1000);
        let packet = frames::datagram(from, (address.ip(), address.port()), &[number as u8]);
        let bytes = frames::ethernet(macs.0.0, macs.1.0, &packet);
        let mut frame = pool.copy_of(&bytes).expect("room");
        frame.set(Flags::CSUM_PARTIAL);
        frame.set_csum(34);
        let mut burst = Burst::from_iter([frame]);
        assert_eq!(queue.tx_burst(&mut pool, &mut burst), 1);
        let mut buffer = [0; 10];
        assert_eq!(socket.recv(&mut buffer).expect("it came"), 1);
        assert_eq!(buffer[0], number as u8);
    }
}

/// The kernel queues the frames that fit and drops the others, without using our memory.
fn flood_in() {
    const FRAMES: usize = 100_000;
    for vnet_hdr in [false, true] {
        let mut end = End::new(LinkKind::Ethernet, vnet_hdr);
        end.echo_both_ways();
        let held = end.pool.held_bytes();
        let (socket, _) = socket(false);
        for _ in 0..FRAMES {
            // If the queue is full, some kernels return an error, others do not.
            let _ = socket.send_to(&[7; 1000], (ours(false), 9));
        }
        assert!(end.pool.outstanding() <= 2 + 1, "only the buffers that wait are out");
        let mut burst = Burst::new();
        let mut read = 0;
        while end.tap.rx_ready() {
            read += end.tap.rx_burst(&mut end.pool, &mut burst);
            burst.drain(..).for_each(|frame| end.pool.free(frame));
        }
        assert!((1..FRAMES).contains(&read), "{read} frames waited in the kernel");
        assert!(end.pool.held_bytes() <= held + (1 << 20), "a slab of small buffers at most");
        assert!(end.tap.link_up());
        end.echo_both_ways();
    }
}

/// A burst that contains a frame which can never be sent; then an interface that is down, and up
/// again. With plain writes and with io_uring the same frames arrive, and the same drops are
/// counted.
fn bursts() {
    for vnet_hdr in [false, true] {
        let ways = [true, false].map(|io_uring| by(vnet_hdr, io_uring));
        assert_eq!(ways[0], ways[1]);
        assert_eq!(ways[1].0, (0..62).filter(|n| *n != 30).collect::<Vec<u8>>());
    }
}

/// The frames of the bursts that arrived with these settings, and the drops.
fn by(vnet_hdr: bool, io_uring: bool) -> (Vec<u8>, Vec<(DropReason, u64)>) {
    let name = Some("ws0".to_owned());
    let config = Config { name, vnet_hdr, io_uring, ..Config::default() };
    let mut tap = Tap::open(&config).expect("root opens a TAP");
    tap.configure(&setup()).expect("root sets it up");
    assert_eq!(tap.uses_io_uring(), io_uring, "netns.rs has looked whether there is io_uring");
    let mut end = End::around(tap);
    end.echo_both_ways();
    let (socket, address) = socket(false);
    let mut arrived = Vec::new();
    let mut send = |end: &mut End, numbers: core::ops::Range<u8>, expected: usize| {
        let mut burst = Burst::new();
        for number in numbers.clone() {
            let from = (ours(false), 1000);
            let mut packet = frames::datagram(from, (address.ip(), address.port()), &[number]);
            if !vnet_hdr {
                // The packet has no checksum, because without a virtio header no one would finish
                // it.
                packet[26..28].fill(0);
            }
            let packet = if number == 30 { [&packet[..], &[0; 4000]].concat() } else { packet };
            let mut frame = end.frame(&packet);
            if vnet_hdr {
                frame.set(Flags::CSUM_PARTIAL);
                frame.set_csum(34);
            }
            burst.push(frame);
        }
        assert_eq!(end.tap.tx_burst(&mut end.pool, &mut burst), numbers.len());
        for _ in 0..expected {
            let mut buffer = [0; 10];
            assert_eq!(socket.recv(&mut buffer).expect("it came"), 1);
            arrived.push(buffer[0]);
        }
    };
    send(&mut end, 0..50, 49);
    assert!(ip("link set ws0 down"));
    send(&mut end, 100..103, 0);
    assert!(!end.tap.link_up());
    end.tap.configure(&setup()).expect("root sets it up");
    end.echo_both_ways();
    send(&mut end, 50..62, 12);
    assert!(end.tap.link_up());
    let out = end.pool.outstanding();
    assert!(out <= 2, "{out} buffers are out: at most two wait for frames");
    let drops = end.tap.drops().expect("it counts");
    (arrived, drops.nonzero().collect())
}

fn flood_out() {
    let mut end = End::new(LinkKind::Ethernet, true);
    end.echo_both_ways();
    let (socket, address) = socket(false);
    let from = (ours(false), 1000);
    let packet = frames::datagram(from, (address.ip(), address.port()), &[7; 1000]);
    let mut burst = Burst::new();
    let mut sent = 0;
    while sent < 100_000 {
        while !burst.is_full() {
            let mut frame = end.frame(&packet);
            frame.set(Flags::CSUM_PARTIAL);
            frame.set_csum(34);
            burst.push(frame);
        }
        sent += end.tap.tx_burst(&mut end.pool, &mut burst);
    }
    let kept = end.pool.outstanding();
    assert!(kept <= burst.len() + 3, "{kept} buffers are out");
    assert_eq!(end.dropped(DropReason::DeviceRefused), 0);
    drop(socket);
    burst.drain(..).for_each(|frame| end.pool.free(frame));
    end.echo_both_ways();
}

fn partial_out() {
    for link in [LinkKind::Ethernet, LinkKind::Ip] {
        let mut end = End::new(link, true);
        end.echo_both_ways();
        for v6 in [false, true] {
            let (socket, address) = socket(v6);
            let to = (address.ip(), address.port());
            let packet = frames::datagram((ours(v6), 1000), to, b"finish this");
            // The unfinished checksum is wrong as it is, so the kernel drops the first frame.
            end.send_packet(&packet);
            end.send_partial(&packet, 0);
            let mut buffer = [0; 100];
            let (len, peer) = socket.recv_from(&mut buffer).expect("the second came");
            assert_eq!((&buffer[..len], peer.ip()), (&b"finish this"[..], ours(v6)));
            socket.set_nonblocking(true).expect("it is open");
            assert!(socket.recv(&mut buffer).is_err(), "only the second");
        }
    }
}
