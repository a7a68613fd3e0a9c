//! The format of recordings, and their replay.

use super::*;

fn one(n: u16) -> Segment {
    Segment {
        flow: 1,
        flags: 0x18,
        tos: 2,
        starts_burst: n.is_multiple_of(2),
        len: 1448 - n,
        window: 502 + n,
        id: 0xfffe + (n & 1),
        value: n / 2,
        echo: n,
    }
}

#[test]
fn a_recording_is_read_as_it_was_written() {
    let recording = Recording { v6: true, flows: 2, segments: (0..9).map(one).collect() };
    let bytes = recording.bytes();
    assert_eq!(Recording::parse(&bytes).unwrap(), recording);
    for cut in 0..bytes.len() {
        let whole = cut > 6 && (cut - 6).is_multiple_of(SEGMENT);
        assert_eq!(Recording::parse(&bytes[..cut]).is_ok(), whole, "{cut} bytes");
    }
}

#[test]
fn flows_in_turn_keep_their_segments_and_their_order() {
    let segments = (0..20).map(|n| Segment { flow: (n > 7) as u8, ..one(n) }).collect();
    let recording = Recording { v6: false, flows: 2, segments };
    let turned = recording.by_segment();
    assert_eq!(turned.segments.iter().map(|s| s.flow).take(5).collect::<Vec<_>>(), [0, 1, 0, 1, 0]);
    for flow in 0..2 {
        let of = |r: &Recording| -> Vec<Segment> {
            r.segments.iter().filter(|s| s.flow == flow).copied().collect()
        };
        assert_eq!(of(&turned), of(&recording));
    }
}

/// When the repository's recordings are replayed, most segments follow a leader.
#[test]
fn recordings_of_linux_follow() {
    for (bytes, least) in [
        (&include_bytes!("../../recordings/linux-v4.rec")[..], 0.93),
        (include_bytes!("../../recordings/linux-v6.rec"), 0.93),
        (include_bytes!("../../recordings/linux-16-flows.rec"), 0.85),
    ] {
        let recording = Recording::parse(bytes).unwrap();
        for ids in [Ids::AsRecorded, Ids::Random] {
            let share = replay(&recording, ids, 3000).unwrap();
            assert!(share > least, "{share}: {}", recording.summary());
        }
        let turned = replay(&recording.by_segment(), Ids::AsRecorded, 3000).unwrap();
        // With flows in turn, a burst contains four segments of each of sixteen flows. The first of
        // the four is a leader. When a timestamp changes, the segment no longer follows its leader.
        assert!(turned > 0.4, "{turned} with flows in turn");
    }
}
