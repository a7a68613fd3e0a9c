//! The printer: its settings, its state, and the functions by which all dissectors write.
//!
//! Called by: every dissector. The printer depends on no dissector: `packet` calls the first one.
//! Packets may be nested; [`Printer::deeper`] bounds the depth.

use crate::app::Initiators;
use crate::data::{Cut, Data, Done};
use crate::hex::{self, Hex};
use crate::transport::Flows;

/// Maximum depth of nested packets that are printed. No real tunnel is nested more deeply, but a
/// packet that was made to exhaust the call stack may be.
const DEPTH_MAX: u32 = 24;

/// What to print of each packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// How often `-v` was given.
    pub verbose: u8,
    /// `-q`: print less about protocols.
    pub quiet: bool,
    /// `-e`: print the link header.
    pub link: bool,
    /// `-x`, `-X`, `-A`: print the bytes too.
    pub hex: Option<Hex>,
    /// `-S`: print absolute sequence numbers.
    pub absolute: bool,
    /// `-K`: do not verify checksums.
    pub trusting: bool,
    /// `--number`: print each packet's number in front.
    pub numbered: bool,
}

/// Prints packets; remembers flows from one packet to the next.
#[derive(Default)]
pub struct Printer {
    pub(crate) style: Style,
    pub(crate) out: String,
    /// The protocol that is being printed, for example for `[|tcp]`.
    pub(crate) protocol: &'static str,
    pub(crate) flows: Flows,
    pub(crate) initiators: Initiators,
    pub(crate) depth: u32,
    pub(crate) count: u64,
}

/// Append formatted text to the printer's output.
macro_rules! put {
    ($printer:expr, $($arguments:tt)*) => {{
        use core::fmt::Write as _;
        // Writing to a String cannot fail.
        let _ = write!($printer.out, $($arguments)*);
    }};
}
pub(crate) use put;

impl Printer {
    /// A printer that has seen no packet yet.
    #[must_use]
    pub fn new(style: Style) -> Printer {
        Printer { style, ..Printer::default() }
    }

    /// Print that the current protocol was cut off, for example `[|tcp]`.
    pub(crate) fn cut(&mut self) {
        put!(self, " [|{}]", self.protocol);
    }

    /// Print that the current protocol is invalid.
    pub(crate) fn invalid(&mut self) {
        self.out.push_str(" (invalid)");
    }

    /// Print unknown content in hex.
    pub(crate) fn unknown(&mut self, bytes: &[u8]) {
        hex::both(&mut self.out, bytes);
    }

    /// Print `len` bytes of unknown content in hex. Returns [`Cut`] if not all of them were
    /// captured.
    pub(crate) fn unknown_of(&mut self, data: Data<'_>, len: usize) -> Done {
        hex::both(&mut self.out, &data.bytes[..data.here().min(len)]);
        if data.here() < len { Err(Cut) } else { Ok(()) }
    }

    /// Was `-v` given at least once?
    pub(crate) fn is_verbose(&self) -> bool {
        self.style.verbose > 0
    }

    /// Print a packet that is inside the current packet, unless it is nested too deeply.
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
