//! Taps: what they keep, drop and count.

use base::WallTime;
use bpf::{
    BUFFER_BYTES_MAX, Counters, Direction, Filter, Insn, Packet, Program, SNAPLEN_MAX, Settings,
    Shown, Tap, TapError,
};

/// A filter that matches packets whose first byte is 1, and keeps `keep` bytes of them.
fn filter(keep: u32) -> Filter {
    let insns = [
        Insn::new(0x30, 0, 0, 0),
        Insn::new(0x15, 0, 1, 1),
        Insn::new(0x06, 0, 0, keep),
        Insn::new(0x06, 0, 0, 0),
    ];
    Filter::new(Program::new(&insns).unwrap())
}

fn shown(packet: Packet<'_>, direction: Direction, time: u64) -> Shown<'_> {
    Shown { packet, direction, time: WallTime(time), segment_bytes: 0 }
}

fn see(tap: &mut Tap, bytes: &[u8], time: u64) {
    tap.see([(shown(Packet::whole(bytes), Direction::In, time), ())], |(), _| {});
}

fn counted(seen: u64, matched: u64, dropped: u64) -> Counters {
    Counters { seen, matched, dropped }
}

/// Settings with room for two records of 10 bytes, each of which takes 30 bytes with its header.
fn small() -> Settings {
    Settings { buffer_bytes: 60, snaplen: 10, only: None }
}

#[test]
fn only_the_snapshot_of_a_match_is_kept_with_what_there_is_to_know() {
    let mut tap = Tap::new(filter(8), Settings::default()).unwrap();
    see(&mut tap, &[0; 40], 1);
    let (head, rest) = ([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]);
    let packet = Packet::in_two(&head, &rest, 1514);
    let sent = Shown { segment_bytes: 1448, ..shown(packet, Direction::Out, 77) };
    tap.see([(sent, ())], |(), _| {});
    see(&mut tap, &[1], 78);
    assert_eq!(tap.counters(), counted(3, 2, 0));
    let buffer = tap.take().unwrap();
    let records: Vec<_> = buffer.records().collect();
    assert_eq!(records.len(), 2);
    assert_eq!(records[0].bytes, [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!((records[0].time, records[0].wire_len), (WallTime(77), 1514));
    assert_eq!((records[0].direction, records[0].segment_bytes), (Direction::Out, 1448));
    assert_eq!((records[1].bytes, records[1].direction), (&[1][..], Direction::In));
    assert!(tap.take().is_none());
}

#[test]
fn the_snapshot_length_is_the_filters_or_the_taps_whichever_is_less() {
    for (keep, snaplen, expected) in [(5, 10, 5), (10, 5, 5), (u32::MAX, 100, 20)] {
        let mut tap = Tap::new(filter(keep), Settings { snaplen, ..Settings::default() }).unwrap();
        see(&mut tap, &[1; 20], 0);
        assert_eq!(tap.take().unwrap().records().next().unwrap().bytes.len(), expected);
    }
}

#[test]
fn the_other_direction_is_not_even_seen() {
    let only = Some(Direction::Out);
    let mut tap = Tap::new(filter(8), Settings { only, ..Settings::default() }).unwrap();
    see(&mut tap, &[1; 4], 0);
    assert_eq!(tap.counters(), counted(0, 0, 0));
    tap.see([(shown(Packet::whole(&[1; 4]), Direction::Out, 0), ())], |(), _| {});
    assert_eq!(tap.counters(), counted(1, 1, 0));
}

#[test]
fn a_slow_reader_loses_packets_which_are_counted_and_the_order_stays() {
    let mut tap = Tap::new(filter(10), small()).unwrap();
    // Two packets in the hold buffer, two in the store buffer, no room for the other three.
    (0..7).for_each(|time| see(&mut tap, &[1; 10], time));
    assert_eq!(tap.counters(), counted(7, 7, 3));
    let first = tap.take().unwrap();
    // The reader has one buffer; the third one is filled.
    (7..12).for_each(|time| see(&mut tap, &[1; 10], time));
    assert_eq!(tap.counters(), counted(12, 12, 6));
    let second = tap.take().unwrap();
    let times = |buffer: &bpf::Buffer| buffer.records().map(|r| r.time.0).collect::<Vec<_>>();
    assert_eq!((times(&first), times(&second)), (vec![0, 1], vec![2, 3]));
    // The reader has two buffers; the tap keeps its last one.
    assert!(tap.take().is_none());
    tap.give_back(first);
    assert_eq!(times(&tap.take().unwrap()), [7, 8]);
    tap.give_back(second);
    see(&mut tap, &[1; 10], 12);
    assert_eq!(times(&tap.take().unwrap()), [12]);
}

#[test]
fn a_burst_is_kept_as_its_packets_one_by_one() {
    let packets: Vec<[u8; 10]> =
        (0..9).map(|n| [u8::from(n % 3 != 1), n, 0, 0, 0, 0, 0, 0, 0, 0]).collect();
    let shown = |n: usize| shown(Packet::whole(&packets[n]), Direction::In, n as u64);
    for burst in 1..=packets.len() {
        let mut tap = Tap::new(filter(10), small()).unwrap();
        let mut copied = Vec::new();
        for begin in (0..packets.len()).step_by(burst) {
            let end = packets.len().min(begin + burst);
            tap.see((begin..end).map(|n| (shown(n), n)), |n, copy| {
                assert_eq!(copy[1], n as u8);
                copied.push(n);
                copy[9] = 7;
            });
        }
        // Four of the six packets that match are kept: as many as two buffers hold.
        assert_eq!((tap.counters(), &copied[..]), (counted(9, 6, 2), &[0, 2, 3, 5][..]));
        let kept: Vec<_> = core::iter::from_fn(|| tap.take())
            .flat_map(|buffer| {
                buffer.records().map(|r| (r.bytes[1], r.bytes[9])).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(kept, [(0, 7), (2, 7), (3, 7), (5, 7)], "bursts of {burst}");
    }
}

#[test]
fn a_buffer_that_is_not_missing_is_not_kept() {
    let mut tap = Tap::new(filter(10), small()).unwrap();
    let mut other = Tap::new(filter(10), Settings { buffer_bytes: 90, ..small() }).unwrap();
    see(&mut other, &[1; 10], 0);
    let stranger = other.take().unwrap();
    see(&mut tap, &[1; 10], 0);
    let own = tap.take().unwrap();
    tap.give_back(stranger);
    // The tap has two buffers left to fill, which hold four packets.
    (0..6).for_each(|time| see(&mut tap, &[1; 10], time));
    assert_eq!(tap.counters().dropped, 2);
    tap.give_back(own);
    assert_eq!(tap.take().unwrap().records().count(), 2);
    // A buffer of the right size, given to a tap that lacks none.
    let mut full = Tap::new(filter(10), small()).unwrap();
    full.give_back(tap.take().unwrap());
    (0..4).for_each(|time| see(&mut full, &[1; 10], time));
    let _first = full.take().unwrap();
    (0..2).for_each(|time| see(&mut full, &[1; 10], time));
    let _second = full.take().unwrap();
    (0..3).for_each(|time| see(&mut full, &[1; 10], time));
    assert_eq!(full.counters(), counted(9, 9, 3));
}

#[test]
fn settings_out_of_range_are_refused_with_what_to_use() {
    let error =
        |settings| Tap::new(filter(1), settings).expect_err("settings out of range were accepted");
    let base = Settings::default();
    assert_eq!(error(Settings { snaplen: 0, ..base }), TapError::Snaplen(0));
    assert_eq!(error(Settings { snaplen: SNAPLEN_MAX + 1, ..base }), TapError::Snaplen(262_145));
    for buffer_bytes in [0, 29, BUFFER_BYTES_MAX + 1] {
        let refused = error(Settings { buffer_bytes, snaplen: 10, only: None });
        assert!(matches!(refused, TapError::BufferBytes { least: 30, .. }), "{refused}");
        assert!(refused.to_string().contains("use 30 "), "{refused}");
    }
}
