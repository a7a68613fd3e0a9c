//! Segments that are merged and cut again are unchanged. A segment that differs in more than its
//! position in the flow is not merged.

use super::*;
use crate::forward::{SuperSegment, finish_checksum};

const SIZE: usize = 100;
const OPTIONS: [u8; 12] = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];

/// A packet of a flow, `number` full segments after the flow's first one.
struct Segment {
    v6: bool,
    number: usize,
    len: usize,
    id: u16,
    flags: u8,
}

impl Segment {
    fn packet(&self) -> Vec<u8> {
        let mut tcp = vec![0x10, 0, 0, 80];
        tcp.extend((u32::MAX - 150).wrapping_add((self.number * SIZE) as u32).to_be_bytes());
        tcp.extend([0, 0, 0, 9, 0x80, self.flags, 2, 0, 0, 0, 0, 0]);
        tcp.extend(OPTIONS);
        tcp.extend((0..self.len).map(|n| (n + self.number) as u8));
        let mut p = Vec::new();
        if self.v6 {
            p.extend([0x60, 0x21, 0x23, 0x45]);
            p.extend((tcp.len() as u16).to_be_bytes());
            p.extend([6, 64]);
            p.extend([0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
            p.extend([0x20, 1, 0xd, 0xb8, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        } else {
            p.extend([0x45, 2]);
            p.extend((20 + tcp.len() as u16).to_be_bytes());
            p.extend(self.id.to_be_bytes());
            p.extend([0x40, 0, 64, 6, 0, 0, 192, 0, 2, 1, 198, 51, 100, 2]);
            let field = sum_short(&p).field();
            p[10..12].copy_from_slice(&field);
        }
        p.extend(tcp);
        finish_checksum(&mut p, Ladder::Word64);
        p
    }
}

const ACK: u8 = 0x10;
const PSH: u8 = 8;
const FIN: u8 = 1;

fn segment(v6: bool, number: usize) -> Segment {
    let id = if v6 { 0 } else { 0xfffe_u16.wrapping_add(number as u16) };
    Segment { v6, number, len: SIZE, id, flags: ACK }
}

/// The number of packets that are merged, the first included, and the super-segment.
fn merged(packets: &[Vec<u8>]) -> (usize, Vec<u8>) {
    let Some(mut run) = Run::begin(&packets[0]) else { return (1, Vec::new()) };
    let taken = packets[1..].iter().take_while(|packet| run.take(packet, 5_000)).count();
    assert_eq!(run.count(), taken + 1);
    let mut whole = vec![0; run.packet_len()];
    run.write_headers(&mut whole);
    let mut at = run.inner().payload_at;
    for packet in &packets[..run.count()] {
        let payload = &packet[run.inner().payload_at..];
        whole[at..at + payload.len()].copy_from_slice(payload);
        at += payload.len();
    }
    assert_eq!(at, whole.len());
    (run.count(), whole)
}

#[test]
fn segments_that_are_merged_and_cut_are_the_same_again() {
    for v6 in [false, true] {
        for (count, last_len, last_flags) in
            [(2, SIZE, ACK), (7, 1, ACK), (20, SIZE, ACK | PSH), (20, 60, ACK | PSH | FIN)]
        {
            for numbered in [true, false] {
                let mut segments: Vec<Segment> = (0..count).map(|n| segment(v6, n)).collect();
                segments[count - 1].len = last_len;
                segments[count - 1].flags = last_flags;
                if !numbered {
                    segments.iter_mut().for_each(|segment| segment.id = 0);
                }
                let packets: Vec<Vec<u8>> = segments.iter().map(Segment::packet).collect();
                let (taken, whole) = merged(&packets);
                assert_eq!(taken, count);
                let cut = SuperSegment::new(&whole, SIZE as u16).expect("sound");
                assert_eq!(cut.count(), count);
                for (number, packet) in packets.iter().enumerate() {
                    let mut piece = vec![0; cut.len_of(number)];
                    cut.write(number, Ladder::Word64, &mut piece);
                    assert_eq!(piece, *packet, "{number} of {count}");
                }
                // The checksum field, which the device finishes.
                let at = if v6 { 40 } else { 20 };
                let segment = &whole[at..];
                let mut finished = whole.clone();
                finish_checksum(&mut finished, Ladder::Word64);
                let by_device = Ladder::Byte.sum(segment).field();
                assert_eq!(finished[at + 16..at + 18], by_device);
            }
        }
    }
}

/// Set a byte of the second packet, and correct its checksums.
fn with(v6: bool, at: usize, value: u8) -> Vec<Vec<u8>> {
    let mut packets = [0, 1].map(|n| segment(v6, n).packet());
    packets[1][at] = value;
    if !v6 {
        packets[1][10..12].fill(0);
        let field = sum_short(&packets[1][..20]).field();
        packets[1][10..12].copy_from_slice(&field);
    }
    finish_checksum(&mut packets[1], Ladder::Word64);
    packets.to_vec()
}

#[test]
fn whatever_differs_in_more_than_its_place_is_not_merged() {
    for v6 in [false, true] {
        let headers = if v6 { 40 } else { 20 } + 32;
        let plain = with(v6, headers + 3, 77);
        assert_eq!(merged(&plain).0, 2, "a different payload prevents merging");
        #[expect(clippy::needless_range_loop, reason = "the place decides, not the byte")]
        for at in 0..headers {
            // Lengths and the IP version are checked before; checksums follow from the other
            // fields.
            let is_length = if v6 { at == 4 || at == 5 } else { at == 2 || at == 3 };
            let is_checksum = at == headers - 16 || at == headers - 15;
            let is_checksum = is_checksum || !v6 && (at == 10 || at == 11);
            if is_length || is_checksum || at == 0 {
                continue;
            }
            for bit in 0..8 {
                let value = plain[1][at] ^ 1 << bit;
                let packets = with(v6, at, value);
                let is_end = at == headers - 19 && matches!(1 << bit, PSH | FIN);
                let expected = if is_end { 2 } else { 1 };
                assert_eq!(merged(&packets).0, expected, "bit {bit} of byte {at}");
            }
        }
    }
}

#[test]
fn nothing_comes_behind_a_short_or_pushed_segment_and_none_is_longer_than_the_first() {
    for v6 in [false, true] {
        let run = |change: fn(&mut Segment), at: usize| {
            let mut segments: Vec<Segment> = (0..5).map(|n| segment(v6, n)).collect();
            change(&mut segments[at]);
            let packets: Vec<Vec<u8>> = segments.iter().map(Segment::packet).collect();
            merged(&packets).0
        };
        assert_eq!(run(|_| (), 2), 5);
        assert_eq!(run(|s| s.flags |= PSH, 2), 3);
        assert_eq!(run(|s| s.flags |= FIN, 2), 3);
        assert_eq!(run(|s| s.len -= 1, 2), 3);
        assert_eq!(run(|s| s.len += 1, 2), 2);
        assert_eq!(run(|s| s.len = 0, 2), 2);
        // No run begins with a flag that only one segment of a super-segment may have.
        for flag in [FIN, 2, 4, PSH, 0x20, 0x80] {
            let mut first = segment(v6, 0);
            first.flags |= flag;
            assert!(Run::begin(&first.packet()).is_none(), "{flag:#x}");
        }
        let mut first = segment(v6, 0);
        first.flags |= 0x40;
        assert!(
            Run::begin(&first.packet()).is_some(),
            "ECE, which all segments may have, prevents a run"
        );
        first.len = 0;
        assert!(Run::begin(&first.packet()).is_none());
    }
}

#[test]
fn a_run_ends_before_it_is_too_long() {
    for v6 in [false, true] {
        let packets: Vec<Vec<u8>> = (0..60).map(|n| segment(v6, n).packet()).collect();
        let (count, whole) = merged(&packets);
        assert!(whole.len() <= 5_000 && whole.len() + SIZE > 5_000);
        assert_eq!(count, (5_000 - packets[0].len()) / SIZE + 1);
    }
}

#[test]
fn a_wrong_checksum_is_seen() {
    for v6 in [false, true] {
        let mut packet = segment(v6, 3).packet();
        let inner = Inner::of(&packet).expect("TCP");
        assert!(is_sound(&packet, &inner, Ladder::best()));
        *packet.last_mut().expect("a byte") ^= 4;
        assert!(!is_sound(&packet, &inner, Ladder::best()));
    }
}
