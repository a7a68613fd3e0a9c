//! Offloads with the kernel: partial checksums, and TCP in super-segments in both directions with a
//! socket of the kernel. The test itself makes the handshake.

use core::ffi::c_int;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use base::{DropReason, LinkKind};
use mbuf::Flags;
use rustix::ioctl::{Opcode, Setter, ioctl};
use testbed::Case;
use wirespeed_device::Device;
use wirespeed_device::tap::{Declared, Tap};

use crate::ends::{End, kernel, ours};
use crate::frames::{self, Segment};
use crate::wire::socket;

pub(crate) const CASES: &[Case] = &[
    ("the_kernel_leaves_checksums_to_us_and_says_so", &[], partial_in),
    ("without_offloads_every_checksum_is_finished", &[], finished_in),
    ("super_segments_reach_a_socket_of_the_kernel", &[], || both(supers_out)),
    ("super_segments_of_the_kernel_reach_us", &[], || both(supers_in)),
    ("without_memory_frames_are_dropped_and_counted", &[], || {
        starved(End::new(LinkKind::Ethernet, true));
    }),
    ("without_memory_frames_behind_a_long_header_are_dropped_and_counted", &[], || {
        starved(with_long_headers());
    }),
];

/// Run a case with TAP and TUN, IPv4 and IPv6.
fn both(case: impl Fn(&mut End, bool)) {
    for link in [LinkKind::Ethernet, LinkKind::Ip] {
        let mut end = End::new(link, true);
        end.echo_both_ways();
        case(&mut end, false);
        case(&mut end, true);
    }
}

fn partial_in() {
    both(|end, v6| {
        let (socket, _) = socket(v6);
        socket.send_to(b"unfinished", (ours(v6), 9)).expect("room in the kernel");
        let (at, ip) = if v6 { (6, 40) } else { (9, 20) };
        let frame = end.receive(|p| p.get(at) == Some(&frames::UDP));
        assert!(frame.has(Flags::CSUM_PARTIAL | Flags::CSUM_VERIFIED), "{frame:?}");
        assert_eq!(usize::from(frame.csum()), end.link_len() + ip);
        let field = frame.as_slice().get(end.link_len() + ip + 6..end.link_len() + ip + 8);
        let pseudo = frames::pseudo(kernel(v6), ours(v6), frames::UDP, 18);
        assert_eq!(field, Some(&pseudo.to_be_bytes()[..]));
    });
}

fn finished_in() {
    let mut end = End::new(LinkKind::Ethernet, false);
    end.echo_both_ways();
    let (socket, _) = socket(false);
    socket.send_to(b"finished", (ours(false), 9)).expect("room in the kernel");
    let frame = end.receive(|p| p.get(9) == Some(&frames::UDP));
    assert!(!frame.has(Flags::CSUM_PARTIAL) && !frame.has(Flags::CSUM_VERIFIED));
    let segment = &frame.as_slice()[34..];
    let pseudo = frames::pseudo(kernel(false), ours(false), frames::UDP, segment.len());
    assert_eq!(frames::sum(&[segment, &pseudo.to_be_bytes()].concat()), 0xffff);
}

/// Our half of a connection, as much of it as a test needs.
struct Half {
    next: Segment,
    v6: bool,
}

const SYN: u8 = 2;
const PSH: u8 = 8;
const ACK: u8 = 16;

impl Half {
    fn connect(end: &mut End, v6: bool, port: u16) -> Half {
        let (src, dst) = ((ours(v6), 40_000), (kernel(v6), port));
        let mut next = Segment { src, dst, seq: 1_000, ack: 0, flags: SYN };
        end.send_partial(&next.with(&[]), 0);
        let half = Half { next: Segment { seq: 1_001, flags: ACK, ..next }, v6 };
        let answer = end.receive(|p| half.tcp(p).is_some_and(|tcp| tcp[13] == SYN | ACK));
        let tcp = half.tcp(&answer.as_slice()[end.link_len()..]).expect("it was one");
        next = half.next;
        next.ack = number(&tcp[4..8]).wrapping_add(1);
        end.send_partial(&next.with(&[]), 0);
        Half { next, v6 }
    }

    /// The TCP segment of a packet, if it is one.
    fn tcp<'a>(&self, packet: &'a [u8]) -> Option<&'a [u8]> {
        let (version, at, ip) = if self.v6 { (6, 6, 40) } else { (4, 9, 20) };
        let ours = packet.first()? >> 4 == version && packet.get(at) == Some(&frames::TCP);
        packet.get(ip..).filter(|tcp| ours && tcp.len() >= 20)
    }
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes.try_into().expect("four bytes"))
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 % 251) as u8).collect()
}

fn supers_out(end: &mut End, v6: bool) {
    let listener = TcpListener::bind((kernel(v6), 0)).expect("the address is the kernel's");
    let port = listener.local_addr().expect("bound").port();
    let mut half = Half::connect(end, v6, port);
    let (mut socket, _) = listener.accept().expect("the handshake is through");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout that is not zero");
    // Use sizes that fit into the kernel's first window, then the largest super-segment.
    let sizes = [20_000, 40_000, 65_535 - if v6 { 40 } else { 20 } - 20];
    let sent = pattern(sizes.iter().sum());
    let mut at = 0;
    for size in sizes {
        half.next.flags = ACK | PSH;
        end.send_partial(&half.next.with(&sent[at..at + size]), 1_400);
        half.next.seq = half.next.seq.wrapping_add(size as u32);
        let mut got = vec![0; size];
        socket.read_exact(&mut got).expect("all of it comes");
        assert!(got == sent[at..at + size], "the bytes are those");
        at += size;
        let seq = half.next.seq;
        let acked = |p: &[u8]| half.tcp(p).is_some_and(|tcp| number(&tcp[8..12]) == seq);
        let ack = end.receive(acked);
        end.pool.free(ack);
    }
    assert_eq!(end.dropped(DropReason::DeviceRefused), 0);
}

fn supers_in(end: &mut End, v6: bool) {
    let listener = TcpListener::bind((kernel(v6), 0)).expect("the address is the kernel's");
    let port = listener.local_addr().expect("bound").port();
    let mut half = Half::connect(end, v6, port);
    let (mut socket, _) = listener.accept().expect("the handshake is through");
    socket.set_write_timeout(Some(Duration::from_secs(10))).expect("a timeout that is not zero");
    let sent = pattern(2 << 20);
    let expected = sent.clone();
    let writer = thread::spawn(move || socket.write_all(&sent));
    let link_len = end.link_len();
    let mut got = Vec::new();
    let (mut longest, mut copied) = (0, 0);
    while got.len() < expected.len() {
        let next = half.next.ack;
        let data = |p: &[u8]| half.tcp(p).is_some_and(|tcp| number(&tcp[4..8]) == next);
        let frame = end.receive(data);
        let tcp = half.tcp(&frame.as_slice()[link_len..]).expect("it was one");
        let payload = &tcp[usize::from(tcp[12] >> 4) * 4..];
        assert!(frame.has(Flags::CSUM_VERIFIED), "nobody has to sum it");
        if payload.len() > 1_400 {
            assert_eq!(frame.segment_size(), 1_400);
        } else {
            assert!([0, 1_400].contains(&frame.segment_size()));
        }
        longest = longest.max(frame.len());
        copied += usize::from((1_921..=16_256).contains(&frame.len()));
        got.extend_from_slice(payload);
        half.next.ack = next.wrapping_add(payload.len() as u32);
        end.pool.free(frame);
        end.send_partial(&half.next.with(&[]), 0);
    }
    writer.join().expect("no panic").expect("all was written");
    assert!(got == expected, "the bytes are those");
    assert!(longest > 16_256, "the largest buffer was needed: {longest}");
    assert!(copied > 0, "middle frames came too");
    assert!(end.pool.outstanding() <= 3, "{} are out", end.pool.outstanding());
}

/// An adopted TAP whose virtio headers are longer than those that we request.
fn with_long_headers() -> End {
    const OPCODE: Opcode = libc::TUNSETVNETHDRSZ as Opcode;
    let end = End::new(LinkKind::Ethernet, true);
    let fd = end.tap.as_fd().expect("it is there").try_clone_to_owned().expect("a copy");
    // SAFETY: TUNSETVNETHDRSZ reads an int.
    #[allow(unsafe_code)]
    let set = unsafe { ioctl(&fd, Setter::<OPCODE, c_int>::new(24)) };
    set.expect("it has offloads");
    End::around(Tap::adopt(fd, &Declared::default()).expect("a TAP"))
}

fn starved(mut end: End) {
    end.echo_both_ways();
    let (socket, _) = socket(false);
    // The buffers that were kept for the next frame belong to the old pool.
    let mut end = End::around(end.tap);
    end.pool = mbuf::Pool::new(0);
    let mut burst = wirespeed_device::Burst::new();
    for _ in 0..10 {
        socket.send_to(&[1; 1000], (ours(false), 9)).expect("room in the kernel");
        assert_eq!(end.tap.rx_burst(&mut end.pool, &mut burst), usize::from(!burst.is_empty()));
        burst.clear();
    }
    assert!(end.dropped(DropReason::MbufExhausted) >= 8, "{:?}", end.tap.drops());
    assert!(!end.tap.rx_ready(), "a frame that cannot be received does not wait");
    assert!(!end.tap.is_gone(), "{:?}", end.tap.failure());
}
