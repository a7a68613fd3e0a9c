//! Shows a conversation as text, for people who debug the negotiation between two ends.
//!
//! Called by: programs, with the bytes that they send and receive. Data is counted and not shown,
//! because it may contain passwords.

use std::fmt::Write as _;

use crate::code::IAC;
use crate::parser::{Item, Parser};
use crate::words;

/// One of the two streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Bytes that this end sends.
    Sent,
    /// Received bytes.
    Received,
}

/// The parsers' state in both streams.
#[derive(Debug, Default)]
pub struct Transcript {
    sent: Parser,
    received: Parser,
}

impl Transcript {
    /// The lines for bytes of one direction, as they are on the connection. Each part of the
    /// negotiation has a line with its names and then its bytes in hexadecimal; data has a line
    /// with its length.
    pub fn lines(&mut self, direction: Direction, mut bytes: &[u8]) -> Vec<String> {
        let (parser, name) = match direction {
            Direction::Sent => (&mut self.sent, "sent"),
            Direction::Received => (&mut self.received, "received"),
        };
        let (mut lines, mut data) = (Vec::new(), 0);
        while let Some(item) = parser.next(&mut bytes) {
            data += match &item {
                Item::Data(part) => part.len(),
                Item::Iac => 1,
                _ => 0,
            };
            if let Some((text, raw)) = words::of_item(&item) {
                lines.extend(data_line(name, core::mem::take(&mut data)));
                lines.push(format!("{name} {text}{}", hexadecimal(&raw)));
            }
        }
        lines.extend(data_line(name, data));
        lines
    }
}

fn data_line(name: &str, count: usize) -> Option<String> {
    (count > 0).then(|| format!("{name} data, {count} bytes"))
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (n, byte) in bytes.iter().enumerate() {
        let before = if n == 0 { " [" } else { " " };
        let _ = write!(text, "{before}{byte:02x}");
    }
    if bytes.first() == Some(&IAC) { text + "]" } else { text }
}
