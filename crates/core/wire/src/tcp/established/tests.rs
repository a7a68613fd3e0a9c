use super::*;
use crate::checksum::Ladder;
use crate::tcp::{Header, Options};

/// The short emitter writes the same header as the general one, in every field including the
/// checksum.
#[test]
fn an_established_header_equals_the_general_one() {
    let pseudo = Sum(0x1234);
    for timestamps in [None, Some(Timestamps { value: 0x0102_0304, echo: 0xa0b0_c0d0 })] {
        for case in 0..500u32 {
            let seq = SeqNumber(case.wrapping_mul(0x9e37_79b9));
            let ack = SeqNumber(!seq.0);
            let flags = Flags(case as u8);
            let window = (case * 131) as u16;
            let payload = Sum((case * 977) as u16);
            let payload_len = case as usize * 3;
            let ports = [0x1f, 0x90, 0, 80];
            let established = Established { ports, seq, ack, flags, window, timestamps };
            let mut area = [0; 40];
            let options_len = Options { timestamps, ..Options::default() }.emit(&mut area);
            let len = 20 + options_len;
            let header = Header {
                src_port: 8080,
                dst_port: 80,
                seq,
                ack,
                header_len: len,
                flags,
                window,
                urgent: 0,
            };
            let mut plain = [0xee; 32];
            assert!(header.emit(&mut plain));
            plain[20..len].copy_from_slice(&area[..options_len]);
            let sum = Ladder::Byte.sum(&plain[..len]);
            let total = Sum::of_be16((len + payload_len) as u16);
            let field = sum.plus(pseudo).plus(total).plus(payload).field();
            set_checksum(&mut plain, field);
            let mut fast = [0xee; 32];
            let segment_len = len + payload_len;
            established.emit(&mut fast, segment_len, pseudo, payload, ChecksumField::Full);
            assert_eq!(established.len(), len);
            assert_eq!(fast, plain, "case {case}");
        }
    }
}

#[test]
fn a_device_gets_the_pseudo_header_and_no_checksum_is_zero() {
    for (checksum, wanted) in [
        (ChecksumField::Partial, Sum(0x1234).plus(Sum::of_be16(120)).0.to_ne_bytes()),
        (ChecksumField::Zero, [0, 0]),
    ] {
        let established = Established {
            ports: [0; 4],
            seq: SeqNumber(3),
            ack: SeqNumber(1),
            flags: Flags::ACK,
            window: 2,
            timestamps: None,
        };
        let mut buf = [0xee; 20];
        established.emit(&mut buf, 120, Sum(0x1234), Sum(9), checksum);
        assert_eq!(buf[16..18], wanted);
        // Nothing is written to a buffer that is too short.
        let mut short = [0xee; 19];
        established.emit(&mut short, 120, Sum(0x1234), Sum(9), checksum);
        assert_eq!(short, [0xee; 19]);
    }
}
