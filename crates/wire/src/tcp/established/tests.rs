use super::*;
use crate::tcp::{Header, Options};

#[test]
fn established_header_equals_the_general_one() {
    use crate::checksum::Ladder;
    let flags = Flags::ACK | Flags::PSH;
    for timestamps in [None, Some(Timestamps { value: 0x0102_0304, echo: 0xa0b0_c0d0 })] {
        let mut fast = [0xee; 32];
        let (seq, ack) = (SeqNumber(0xdead_beef), SeqNumber(0x1234_5678));
        let sum =
            emit_established(&mut fast, [0x1f, 0x90, 0, 80], seq, ack, flags, 777, timestamps);
        let options = Options { timestamps, ..Options::default() };
        let mut area = [0; 40];
        let options_len = options.emit(&mut area);
        let mut plain = [0xee; 32];
        let header = Header {
            src_port: 8080,
            dst_port: 80,
            seq,
            ack,
            header_len: 20 + options_len,
            flags,
            window: 777,
            urgent: 0,
        };
        assert!(header.emit(&mut plain));
        plain[20..20 + options_len].copy_from_slice(&area[..options_len]);
        assert_eq!(fast, plain);
        let len = header.header_len;
        assert_eq!(sum, Ladder::Byte.sum(&plain[..len]));
        set_checksum(&mut fast, [0xab, 0xcd]);
        assert_eq!(fast[16..18], [0xab, 0xcd]);
    }
}
