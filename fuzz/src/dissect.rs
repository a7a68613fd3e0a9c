//! Any packet of any link type is printed: no panic, no line without end, and twice the same.
//!
//! Called by: the target `dissect`. The first bytes choose the link type, how much is printed and
//! how long the packet was on the wire; the rest is the packet. Flows are remembered between two
//! packets of one input.

use dissect::{As, Frame, Hex, Printer, Style};

/// Link types: those that are known, and some that are not.
const LINKS: [u32; 18] =
    [0, 1, 9, 12, 14, 50, 51, 101, 104, 107, 108, 113, 228, 229, 276, 127, 147, 10];

/// Bytes that choose.
const HEADER_LEN: usize = 4;

/// The most bytes of text for each byte of a packet, and for every packet beside that: hex takes
/// many more bytes, and some bytes are shown twice.
const TEXT_PER_BYTE: usize = 400;
const TEXT_BESIDE: usize = 20_000;

/// A packet, in the words of `wirespeed dump`.
///
/// # Panics
/// If a line has no end, or differs the second time.
pub fn any_packet(data: &[u8]) {
    let Some((header, bytes)) = data.split_at_checked(HEADER_LEN) else { return };
    let style = style(header[1]);
    let link = LINKS[usize::from(header[0]) % LINKS.len()];
    let more = u32::from(u16::from_be_bytes([header[2], header[3]]));
    let frame = Frame { link, bytes, wire_len: bytes.len() as u32 + more };
    let print = || {
        let mut printer = Printer::new(style);
        let first = printer.text(frame, "").to_owned();
        // The remembered flow may change the second text, so only the length of that is checked.
        let second = printer.text(frame, "").len();
        let most = bytes.len() * TEXT_PER_BYTE + TEXT_BESIDE;
        assert!(first.len() <= most && second <= most, "{} bytes of text", first.len());
        assert!(first.ends_with('\n'), "a packet is whole lines");
        first
    };
    assert_eq!(print(), print(), "the same packet is the same text");
}

/// How much is printed.
fn style(bits: u8) -> Style {
    let hex = Hex {
        as_what: [As::Hex, As::Both, As::Ascii][usize::from(bits >> 6) % 3],
        with_link: true,
    };
    Style {
        verbose: bits & 3,
        quiet: bits & 4 != 0,
        link: bits & 8 != 0,
        hex: (bits & 16 != 0).then_some(hex),
        absolute: bits & 32 != 0,
        ..Style::default()
    }
}
