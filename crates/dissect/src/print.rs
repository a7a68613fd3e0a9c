//! The printer: its settings, its state, and the text of a packet.
//!
//! Called by: programs, for each packet. `link` dissects the first header. Packets may be nested;
//! [`Printer::deeper`] bounds the depth.

use core::fmt::Write;

use crate::app::Initiators;
use crate::data::{Cut, Data, Done};
use crate::hex::{self, Hex};
use crate::link;
use crate::transport::Flows;

/// The longest captured packet, as in libpcap.
pub(crate) const PACKET_BYTES_MAX: u32 = 262_144;

/// Nested packets that are printed. No tunnel is deeper; a capture made to exhaust the call stack
/// would be.
const DEPTH_MAX: u32 = 24;

/// What to print of each packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// How often `-v` was given.
    pub verbose: u8,
    /// `-q`: less about protocols.
    pub quiet: bool,
    /// `-e`: the link header.
    pub link: bool,
    /// `-x`, `-X`, `-A`: the bytes as well.
    pub hex: Option<Hex>,
    /// `-S`: absolute sequence numbers.
    pub absolute: bool,
    /// `-K`: checksums are not verified.
    pub trusting: bool,
    /// `--number`: each packet's number in front.
    pub numbered: bool,
}

/// A captured packet.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Its link type, by the number in capture files (LINKTYPE_).
    pub link: u32,
    /// The captured bytes.
    pub bytes: &'a [u8],
    /// Its length on the wire.
    pub wire_len: u32,
}

/// Prints packets; remembers flows between them.
#[derive(Default)]
pub struct Printer {
    pub(crate) style: Style,
    pub(crate) out: String,
    /// The current protocol, for `[|tcp]`.
    pub(crate) protocol: &'static str,
    pub(crate) flows: Flows,
    pub(crate) initiators: Initiators,
    depth: u32,
    count: u64,
}

/// Writes to the printer.
macro_rules! put {
    ($printer:expr, $($arguments:tt)*) => {{
        use core::fmt::Write as _;
        // Writing to a String cannot fail.
        let _ = write!($printer.out, $($arguments)*);
    }};
}
pub(crate) use put;

impl Printer {
    /// A printer without any state.
    #[must_use]
    pub fn new(style: Style) -> Printer {
        Printer { style, ..Printer::default() }
    }

    /// The line or lines of a packet, with the final newline. `stamp` is its time, with a space at
    /// the end.
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

    /// Report lengths that no packet can have.
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

    /// The current protocol was cut off.
    pub(crate) fn cut(&mut self) {
        put!(self, " [|{}]", self.protocol);
    }

    /// The current protocol is invalid.
    pub(crate) fn invalid(&mut self) {
        self.out.push_str(" (invalid)");
    }

    /// Unknown content, in hex.
    pub(crate) fn unknown(&mut self, bytes: &[u8]) {
        hex::both(&mut self.out, bytes);
    }

    /// The same; [`Cut`] if not all of it was captured.
    pub(crate) fn unknown_of(&mut self, data: Data<'_>, len: usize) -> Done {
        hex::both(&mut self.out, &data.bytes[..data.here().min(len)]);
        if data.here() < len { Err(Cut) } else { Ok(()) }
    }

    /// `-v` was given at least once.
    pub(crate) fn is_verbose(&self) -> bool {
        self.style.verbose > 0
    }

    /// Print a packet inside the packet, unless it is nested too deeply.
    pub(crate) fn deeper<R>(
        &mut self,
        what: impl FnOnce(&mut Printer) -> Result<R, Cut>,
    ) -> Result<R, Cut> {
        if self.depth >= DEPTH_MAX {
            self.protocol = "nested too deeply";
            return Err(Cut);
        }
        self.depth += 1;
        let result = what(self);
        self.depth -= 1;
        result
    }
}
