//! The printer: what is asked of it, what it remembers, and the text of one packet.
//!
//! Called by: programs, for each packet. `link` dissects the first header. A packet may nest
//! others: [`Printer::deeper`] bounds how deep they are followed.

use core::fmt::Write;

use crate::app::Initiators;
use crate::data::{Cut, Data, Done};
use crate::hex::{self, Hex};
use crate::link;
use crate::transport::Flows;

/// The longest packet that a capture may have, as libpcap has it.
pub(crate) const PACKET_BYTES_MAX: u32 = 262_144;

/// Packets inside packets that are looked into. Nobody tunnels deeper; who writes a capture to
/// exhaust the call stack does.
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
    /// `-S`: sequence numbers as they are.
    pub absolute: bool,
    /// `-K`: checksums are not verified.
    pub trusting: bool,
    /// `--number`: each packet's number in front.
    pub numbered: bool,
}

/// A packet as it was captured.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// What it begins with, by its number in capture files (LINKTYPE_).
    pub link: u32,
    /// What was kept of it.
    pub bytes: &'a [u8],
    /// Its length on the wire.
    pub wire_len: u32,
}

/// Prints packets, and remembers flows.
#[derive(Default)]
pub struct Printer {
    pub(crate) style: Style,
    pub(crate) out: String,
    /// The protocol that is looked at, for `[|tcp]`.
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
        // A string takes anything.
        let _ = write!($printer.out, $($arguments)*);
    }};
}
pub(crate) use put;

impl Printer {
    /// A printer that has seen nothing yet.
    #[must_use]
    pub fn new(style: Style) -> Printer {
        Printer { style, ..Printer::default() }
    }

    /// A packet's line, or lines, with the newline at the end; `stamp` is its time as text, with a
    /// space at the end.
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

    /// Lengths that no packet has; says so.
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

    /// What is looked at was cut off.
    pub(crate) fn cut(&mut self) {
        put!(self, " [|{}]", self.protocol);
    }

    /// What is looked at contradicts itself.
    pub(crate) fn invalid(&mut self) {
        self.out.push_str(" (invalid)");
    }

    /// What nobody understands, in hex.
    pub(crate) fn unknown(&mut self, bytes: &[u8]) {
        hex::both(&mut self.out, bytes);
    }

    /// The same; was all of it captured?
    pub(crate) fn unknown_of(&mut self, data: Data<'_>, len: usize) -> Done {
        hex::both(&mut self.out, &data.bytes[..data.here().min(len)]);
        if data.here() < len { Err(Cut) } else { Ok(()) }
    }

    /// `-v` at least.
    pub(crate) fn is_verbose(&self) -> bool {
        self.style.verbose > 0
    }

    /// Looks at a packet inside the packet, if that is not one inside too many.
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
