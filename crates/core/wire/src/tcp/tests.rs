//! TCP headers and options, parsed and emitted, against etherparse; special cases of the RFCs.

use super::*;
use base::WindowScale;
use proptest::prelude::*;

fn header() -> impl Strategy<Value = Header> {
    (any::<(u16, u16, u32, u32, u8, u16, u16)>(), 5usize..=15).prop_map(|(f, words)| Header {
        src_port: f.0,
        dst_port: f.1,
        seq: SeqNumber(f.2),
        ack: SeqNumber(f.3),
        header_len: words * 4,
        flags: Flags(f.4),
        window: f.5,
        urgent: f.6,
    })
}

fn blocks(list: &[(u32, u32)]) -> SackBlocks {
    let mut blocks = SackBlocks::EMPTY;
    for &(left, right) in list {
        blocks.push(SeqNumber(left), SeqNumber(right));
    }
    blocks
}

fn options() -> impl Strategy<Value = Options> {
    (
        any::<(Option<u16>, bool, Option<(u32, u32)>)>(),
        prop::option::of(0u8..=14),
        prop::collection::vec(any::<(u32, u32)>(), 0..=4),
    )
        .prop_map(|((mss, sack_permitted, timestamps), shift, sack)| Options {
            mss,
            window_scale: shift.map(WindowScale::new),
            sack_permitted,
            timestamps: timestamps.map(|(value, echo)| Timestamps { value, echo }),
            sack: blocks(&sack),
            user_timeout_s: None,
            fast_open: None,
        })
}

proptest! {
    #[test]
    fn emit_parses_here_and_in_etherparse(header in header(), reserved in 0u8..16) {
        let mut segment = [1; 64];
        prop_assert!(header.emit(&mut segment));
        prop_assert_eq!(&segment[16..18], &[0, 0]);
        prop_assert_eq!(&segment[20..], &[1; 44][..]);
        segment[12] |= reserved;
        prop_assert_eq!(Header::parse(&segment), Ok(header));
        prop_assert_eq!(header.options(&segment).len(), header.header_len - 20);
        let (theirs, _) = etherparse::TcpHeader::from_slice(&segment).unwrap();
        prop_assert_eq!((theirs.source_port, theirs.destination_port),
            (header.src_port, header.dst_port));
        prop_assert_eq!(theirs.sequence_number, header.seq.0);
        prop_assert_eq!(theirs.acknowledgment_number, header.ack.0);
        prop_assert_eq!(theirs.header_len(), header.header_len);
        prop_assert_eq!((theirs.window_size, theirs.urgent_pointer),
            (header.window, header.urgent));
        for (ours, theirs) in [
            (Flags::FIN, theirs.fin), (Flags::SYN, theirs.syn), (Flags::RST, theirs.rst),
            (Flags::PSH, theirs.psh), (Flags::ACK, theirs.ack), (Flags::URG, theirs.urg),
            (Flags::ECE, theirs.ece), (Flags::CWR, theirs.cwr),
        ] {
            prop_assert_eq!(header.flags.contains(ours), theirs);
            prop_assert_eq!(header.flags.intersects(ours), theirs);
        }
    }

    #[test]
    fn parse_is_total(bytes in prop::collection::vec(any::<u8>(), 0..70)) {
        match Header::parse(&bytes) {
            Ok(header) => {
                prop_assert!(header.header_len >= 20 && header.header_len <= bytes.len());
                prop_assert!(etherparse::TcpHeader::from_slice(&bytes).is_ok());
            }
            Err(_) => prop_assert!(etherparse::TcpHeader::from_slice(&bytes).is_err()),
        }
    }

    #[test]
    fn options_emit_parses(mut options in options()) {
        let mut out = [0xa5; 40];
        let len = options.emit(&mut out);
        prop_assert!(len.is_multiple_of(4));
        prop_assert!(out[len..].iter().all(|&b| b == 0xa5));
        let parsed = Options::parse(&out[..len]).unwrap();
        prop_assert!(parsed.sack.len() >= options.sack.len().min(2));
        prop_assert_eq!(parsed.sack.as_slice(), &options.sack.as_slice()[..parsed.sack.len()]);
        options.sack = parsed.sack;
        prop_assert_eq!(parsed, options);
        // etherparse reads what we emit without an error.
        for option in etherparse::TcpOptionsIterator::from_slice(&out[..len]) {
            prop_assert!(option.is_ok());
        }
    }

    #[test]
    fn options_parse_is_total(bytes in prop::collection::vec(
        prop_oneof![0u8..12, any::<u8>()], 0..=40)) {
        let _ = timestamps_only(&bytes);
        if let Ok(options) = Options::parse(&bytes) {
            let mut out = [0; 40];
            let len = options.emit(&mut out);
            prop_assert!(Options::parse(&out[..len]).is_ok());
        }
    }

    #[test]
    fn the_fast_recognition_only_refuses_or_agrees(bytes in prop::collection::vec(
        prop_oneof![Just(1u8), Just(8), Just(10), any::<u8>()], 0..=16), real in any::<bool>()) {
        let mut bytes = bytes;
        if real && bytes.len() >= 4 {
            bytes[..4].copy_from_slice(&[1, 1, 8, 10]);
        }
        if let Some(timestamps) = timestamps_only(&bytes) {
            let expected = Options { timestamps: Some(timestamps), ..Options::default() };
            prop_assert_eq!(Options::parse(&bytes), Ok(expected));
        } else if real {
            prop_assert_ne!(bytes.len(), 12);
        }
    }
}

#[test]
fn reasons_to_drop() {
    let mut segment = [0; 20];
    assert_eq!(Header::parse(&segment[..19]), Err(DropReason::TcpShort));
    assert_eq!(Header::parse(&segment), Err(DropReason::TcpDataOffset));
    segment[12] = 0x60;
    assert_eq!(Header::parse(&segment), Err(DropReason::TcpDataOffset));
    segment[12] = 0x50;
    let header = Header::parse(&segment).unwrap();
    assert!(!header.emit(&mut segment[..19]));
    assert!(!Header { header_len: 22, ..header }.emit(&mut [0; 60]));
    assert!(!Header { header_len: 64, ..header }.emit(&mut [0; 64]));
    assert!(!Header { header_len: 24, ..header }.emit(&mut [0; 23]));
}

/// RFC 9293 MUST-4. RFC 7323 2.3-a.
#[test]
fn lengths_of_options() {
    let bad = Err(DropReason::TcpOptions);
    // RFC 9293 MUST-7: an illegal length, zero among them, must be survived.
    for bytes in [&[2, 0][..], &[2, 1, 0, 0], &[2], &[2, 5, 1, 2], &[1, 1, 8], &[254, 3, 0, 0, 0]] {
        let last_is_legal = bytes == [254, 3, 0, 0, 0];
        assert_eq!(Options::parse(bytes).is_ok(), last_is_legal, "{bytes:?}");
    }
    assert_eq!(Options::parse(&[8, 11, 0, 0, 0, 0, 0, 0, 0, 0]), bad);
    // RFC 9293 MUST-6: unknown options are skipped.
    let mss = Options { mss: Some(1460), ..Options::default() };
    assert_eq!(Options::parse(&[253, 4, 1, 2, 2, 4, 5, 0xb4]), Ok(mss));
    // A known option of a wrong length is ignored.
    let wrong = [2, 3, 5, 3, 4, 1, 1, 4, 3, 0, 8, 4, 0, 0, 5, 2, 5, 6, 0, 0, 0, 0];
    assert_eq!(Options::parse(&wrong), Ok(Options::default()));
    // Everything after the end of the list is ignored, even invalid options.
    assert_eq!(Options::parse(&[2, 4, 5, 0xb4, 0, 2, 0]), Ok(mss));
    // Of a repeated option the last one counts.
    assert_eq!(Options::parse(&[2, 4, 0, 1, 2, 4, 5, 0xb4]), Ok(mss));
    // RFC 7323 section 2.3: a shift above 14 counts as 14.
    let scale = Options::parse(&[3, 3, 255]).unwrap().window_scale;
    assert_eq!(scale, Some(WindowScale::MAX));
}

#[test]
fn the_customary_order() {
    let mut out = [0xee; 40];
    let syn = Options {
        mss: Some(1460),
        window_scale: Some(WindowScale::new(7)),
        sack_permitted: true,
        timestamps: Some(Timestamps { value: 0x0102_0304, echo: 0 }),
        ..Options::default()
    };
    let expected = [2, 4, 5, 0xb4, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7];
    assert_eq!(syn.emit(&mut out), 20);
    assert_eq!(out[..20], expected);
    let four = blocks(&[(1, 2), (3, 4), (5, 6), (7, 8)]);
    let ack = Options { timestamps: syn.timestamps, sack: four, ..Options::default() };
    assert_eq!(ack.emit(&mut out), 40);
    assert_eq!(out[..4], [1, 1, 8, 10]);
    assert_eq!(out[12..20], [1, 1, 5, 26, 0, 0, 0, 1]);
    let bare = Options { sack: four, ..Options::default() };
    assert_eq!(bare.emit(&mut out), 36);
    assert_eq!(out[..4], [1, 1, 5, 34]);
    assert!(!{ four }.push(SeqNumber(9), SeqNumber(10)));
}

/// `emit` writes no End of Option List, so nothing follows one; and every option except padding has
/// a length.
/// RFC 9293 MUST-69, MUST-68.
#[test]
fn nothing_follows_an_end_of_the_list() {
    let full = Options {
        mss: Some(0),
        window_scale: Some(WindowScale::new(0)),
        sack_permitted: true,
        timestamps: Some(Timestamps { value: 0, echo: 0 }),
        sack: blocks(&[(0, 0), (0, 0), (0, 0), (0, 0)]),
        user_timeout_s: None,
        fast_open: None,
    };
    let none = Options::default();
    for options in [
        Options { mss: full.mss, ..none },
        Options { mss: full.mss, window_scale: full.window_scale, ..none },
        Options { timestamps: full.timestamps, sack: full.sack, ..none },
        Options { sack: full.sack, ..none },
        Options { sack: SackBlocks::EMPTY, ..full },
        full,
    ] {
        let mut out = [0; 40];
        let len = options.emit(&mut out);
        let mut rest = &out[..len];
        while let [kind, after @ ..] = rest {
            assert_ne!(*kind, 0, "{options:?}");
            rest = if *kind == 1 { after } else { &rest[usize::from(after[0])..] };
        }
    }
}

#[test]
fn flags_read_well() {
    assert_eq!(format!("{:?}", Flags::SYN | Flags::ACK), "SYN|ACK");
    assert_eq!(format!("{:?}", Flags::NONE), "none");
    assert!(!(Flags::SYN | Flags::ACK).contains(Flags::SYN | Flags::FIN));
    assert!((Flags::SYN | Flags::ACK).intersects(Flags::SYN | Flags::FIN));
    assert_eq!((Flags::SYN | Flags::ACK).without(Flags::SYN), Flags::ACK);
}

/// RFC 5482 section 3: one bit selects minutes, 15 bits are the value.
#[test]
fn the_user_timeout_goes_as_seconds_or_minutes() {
    for (seconds, field, back) in [
        (1, 0x0001, Some(1)),
        (32_767, 0x7fff, Some(32_767)),
        (32_768, 0x8000 | 547, Some(32_820)),
        (u32::MAX, 0xffff, Some(32_767 * 60)),
    ] {
        let mut out = [0; 40];
        let said = Options { user_timeout_s: Some(seconds), ..Options::default() };
        assert_eq!(said.emit(&mut out), 4);
        let [hi, lo] = u16::to_be_bytes(field);
        assert_eq!(out[..4], [28, 4, hi, lo]);
        let parsed = Options::parse(&out[..4]).expect("sound");
        assert_eq!(parsed.user_timeout_s, back);
    }
    // Zero in either unit and a wrong length are ignored.
    for bytes in [[28, 4, 0, 0], [28, 4, 0x80, 0], [28, 3, 1, 1]] {
        let parsed = Options::parse(&bytes).expect("sound");
        assert_eq!(parsed.user_timeout_s, None);
    }
    assert_eq!(Options { user_timeout_s: Some(0), ..Options::default() }.emit(&mut [0; 40]), 0);
}
