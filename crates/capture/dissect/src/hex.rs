//! Hex and ASCII dumps, sixteen bytes a line, like those of tcpdump's `-x`, `-X` and `-A`.
//!
//! Called by: the printer, and dissectors for unknown content.

use core::fmt::Write;

const A_LINE: usize = 16;

/// How to show the bytes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hex {
    /// The form of the dump.
    pub as_what: As,
    /// Show the bytes of the link header too: the option was given twice.
    pub with_link: bool,
}

/// The form of a dump: `-x`, `-X` or `-A`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum As {
    /// Hex only.
    Hex,
    /// Hex, and ASCII at the right.
    Both,
    /// ASCII, with its own line breaks.
    Ascii,
}

/// Dump the bytes of a packet whose link header has `header_len` bytes.
pub(crate) fn dump(out: &mut String, hex: Hex, bytes: &[u8], header_len: usize) {
    let from = if hex.with_link { 0 } else { header_len };
    let bytes = bytes.get(from..).unwrap_or_default();
    match hex.as_what {
        _ if bytes.is_empty() => {}
        As::Hex => only(out, bytes),
        As::Both => both(out, bytes),
        As::Ascii => ascii(out, bytes),
    }
}

/// Append a dump in hex and ASCII, each line after a newline and a tab.
pub(crate) fn both(out: &mut String, bytes: &[u8]) {
    both_indented(out, "\n\t", bytes);
}

/// Like [`both`], with `indent` before each line.
pub(crate) fn both_indented(out: &mut String, indent: &str, bytes: &[u8]) {
    for (line, bytes) in bytes.chunks(A_LINE).enumerate() {
        let _ = write!(out, "{indent}0x{:04x}: ", line * A_LINE);
        pairs(out, bytes);
        let columns = bytes.len() / 2 * 5 + bytes.len() % 2 * 3;
        let _ = write!(out, "{:1$}  ", "", A_LINE / 2 * 5 - columns);
        out.extend(bytes.iter().map(|b| if b.is_ascii_graphic() { char::from(*b) } else { '.' }));
    }
}

/// Append a dump in hex only, each line after a newline and a tab.
fn only(out: &mut String, bytes: &[u8]) {
    only_indented(out, "\n\t", bytes);
}

/// Like [`only`], with `indent` before each line.
pub(crate) fn only_indented(out: &mut String, indent: &str, bytes: &[u8]) {
    for (line, bytes) in bytes.chunks(A_LINE).enumerate() {
        let _ = write!(out, "{indent}0x{:04x}: ", line * A_LINE);
        pairs(out, bytes);
    }
}

fn pairs(out: &mut String, bytes: &[u8]) {
    for pair in bytes.chunks(2) {
        out.push(' ');
        for byte in pair {
            let _ = write!(out, "{byte:02x}");
        }
    }
}

/// Append the bytes as ASCII; carriage returns at ends of lines are left out.
fn ascii(out: &mut String, bytes: &[u8]) {
    out.push('\n');
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            b'\r' => {
                let rest = &bytes[at + 1..];
                if rest.len() > 1 && rest[0] != b'\n' {
                    out.push('.');
                }
            }
            b'\t' | b' ' | b'\n' => out.push(char::from(byte)),
            byte if byte.is_ascii_graphic() => out.push(char::from(byte)),
            _ => out.push('.'),
        }
    }
}
