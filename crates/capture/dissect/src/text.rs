//! Text from packets, and names of numbers, as in tcpdump.
//!
//! Called by: all dissectors.

use core::fmt::Write;

use crate::data::{Cut, Data};
use crate::print::{Printer, put};

/// Names of values: each value with its name.
pub(crate) type Names = &'static [(u32, &'static str)];

/// The name of a value; `None` if it has none.
pub(crate) fn find(names: Names, value: impl Into<u32>) -> Option<&'static str> {
    let value = value.into();
    names.iter().find(|(v, _)| *v == value).map(|(_, name)| *name)
}

/// The name of a value, or else `otherwise`, in which `{}` is replaced by the value and `{x}` by
/// the value in hex.
pub(crate) fn name(names: Names, value: impl Into<u32>, otherwise: &str) -> String {
    let value = value.into();
    match find(names, value) {
        Some(name) => name.to_owned(),
        None => otherwise
            .replace("{}", &value.to_string())
            .replace("{x}", &format!("{value:x}"))
            .replace("{02x}", &format!("{value:02x}"))
            .replace("{04x}", &format!("{value:04x}"))
            .replace("{08x}", &format!("{value:08x}")),
    }
}

/// The names of the bits that are set, joined by `between`; `none` if no bit is set.
pub(crate) fn bits(names: Names, value: impl Into<u32>, between: &str, none: &str) -> String {
    let value = value.into();
    let set = names.iter().filter(|(bit, _)| *bit != 0 && value & bit == *bit);
    let set: Vec<&str> = set.map(|(_, name)| *name).collect();
    if set.is_empty() { none.to_owned() } else { set.join(between) }
}

/// Append a byte as text: a printable character, or a form such as `^A` or `M-^A`.
pub(crate) fn char_text(out: &mut String, byte: u8) {
    let mut c = byte;
    if !c.is_ascii() {
        c &= 0x7f;
        out.push_str("M-");
    }
    if !(c.is_ascii_graphic() || c == b' ') {
        c ^= 0x40;
        out.push('^');
    }
    out.push(char::from(c));
}

impl Printer {
    /// Append bytes as text.
    pub(crate) fn chars(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            char_text(&mut self.out, byte);
        }
    }

    /// Append `count` bytes as text; [`Cut`] if fewer were captured.
    pub(crate) fn chars_of(&mut self, data: Data<'_>, at: usize, count: usize) -> Result<(), Cut> {
        let rest = data.bytes.get(at..).unwrap_or_default();
        self.chars(&rest[..rest.len().min(count)]);
        if rest.len() < count { Err(Cut) } else { Ok(()) }
    }

    /// Append text that ends with a zero byte or after `most` bytes. Returns its length with the
    /// zero byte, or 0 if there is no zero byte.
    pub(crate) fn chars_to_zero(&mut self, bytes: &[u8], most: usize) -> usize {
        let bytes = &bytes[..bytes.len().min(most)];
        let end = bytes.iter().position(|byte| *byte == 0);
        self.chars(&bytes[..end.unwrap_or(bytes.len())]);
        end.map_or(0, |end| end + 1)
    }

    /// Append text up to the first zero byte.
    pub(crate) fn chars_padded(&mut self, bytes: &[u8]) {
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        self.chars(&bytes[..end]);
    }

    /// Append bytes in hex, without separators.
    pub(crate) fn hex_digits(&mut self, bytes: &[u8]) {
        for byte in bytes {
            put!(self, "{byte:02x}");
        }
    }
}

/// The text of a number of seconds as years, weeks, days, hours, minutes and seconds.
pub(crate) fn duration(seconds: u32) -> String {
    const UNITS: [(u32, &str); 6] =
        [(31_536_000, "y"), (604_800, "w"), (86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];
    if seconds == 0 {
        return "0s".to_owned();
    }
    let (mut rest, mut text) = (seconds, String::new());
    for (unit, name) in UNITS {
        if rest >= unit {
            let _ = write!(text, "{}{name}", rest / unit);
            rest %= unit;
        }
    }
    text
}
