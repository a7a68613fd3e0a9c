//! The text of a packet: its number and time, its dissected headers, its bytes.
//!
//! Called by: programs, for each packet. `link` dissects the first header, `print` has the state.

use core::fmt::Write;

use crate::data::{Cut, Data};
use crate::hex;
use crate::link;
use crate::print::{Printer, put};

/// The most bytes that a captured packet may have, as in libpcap.
const PACKET_BYTES_MAX: u32 = 262_144;

/// A captured packet.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The link type, by its number in capture files (LINKTYPE_).
    pub link: u32,
    /// The captured bytes.
    pub bytes: &'a [u8],
    /// The length on the wire, in bytes.
    pub wire_len: u32,
}

impl Printer {
    /// The line or lines of text for a packet, with the final newline. `stamp` is the text of the
    /// packet's time, with a space at its end.
    pub fn text(&mut self, frame: Frame<'_>, stamp: &str) -> &str {
        self.out.clear();
        self.count += 1;
        if self.style.numbered {
            put!(self, "{:5}  ", self.count);
        }
        if self.is_wrong(frame) {
            return &self.out;
        }
        self.out.push_str(stamp);
        (self.protocol, self.depth) = ("", 0);
        let data = Data::new(frame.bytes, frame.wire_len as usize);
        let header_len = match link::print(self, frame.link, data) {
            Ok(header_len) => header_len,
            Err(Cut) => {
                self.cut();
                0
            }
        };
        if let Some(hex) = self.style.hex {
            hex::dump(&mut self.out, hex, frame.bytes, header_len);
        }
        self.out.push('\n');
        &self.out
    }

    /// Print lengths that no packet can have. Returns true if there are any.
    fn is_wrong(&mut self, frame: Frame<'_>) -> bool {
        let here = frame.bytes.len() as u64;
        let mut wrongs = Vec::new();
        if here == 0 {
            wrongs.push(" caplen==0".to_owned());
        }
        if frame.wire_len == 0 {
            wrongs.push(" len==0".to_owned());
        } else if u64::from(frame.wire_len) < here {
            wrongs.push(format!(" len({}) < caplen({here})", frame.wire_len));
        }
        if here > u64::from(PACKET_BYTES_MAX) {
            wrongs.push(format!(" caplen({here}) > {PACKET_BYTES_MAX}"));
        }
        if frame.wire_len > PACKET_BYTES_MAX {
            wrongs.push(format!(" len({}) > {PACKET_BYTES_MAX}", frame.wire_len));
        }
        if !wrongs.is_empty() {
            let _ = writeln!(self.out, "[Invalid header:{}]", wrongs.join(","));
        }
        !wrongs.is_empty()
    }
}
