//! Bytes in hex and ASCII, sixteen a line, as `-X` of tcpdump has them.

use std::fmt::Write;

const A_LINE: usize = 16;

pub(super) fn lines(out: &mut String, bytes: &[u8]) {
    for (line, bytes) in bytes.chunks(A_LINE).enumerate() {
        let _ = write!(out, "\t0x{:04x}: ", line * A_LINE);
        let mut columns = 0;
        for pair in bytes.chunks(2) {
            out.push(' ');
            for byte in pair {
                let _ = write!(out, "{byte:02x}");
            }
            columns += 1 + 2 * pair.len();
        }
        let rest = A_LINE / 2 * 5 - columns;
        let _ = write!(out, "{:rest$}  ", "");
        let shown = |&b: &u8| if b.is_ascii_graphic() { char::from(b) } else { '.' };
        out.extend(bytes.iter().map(shown));
        out.push('\n');
    }
}
