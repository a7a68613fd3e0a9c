//! Line ends of the network virtual terminal (RFC 854): CR LF is a new line, CR NUL a carriage
//! return. With BINARY (RFC 856) bytes are as they are.
//!
//! Called by: both ends.

use crate::out::Out;

/// What was sent last.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    is_after_cr: bool,
}

impl Encoder {
    /// Send data; a CR that no LF follows becomes CR NUL. RFC 854 11-a.
    pub(crate) fn data(&mut self, bytes: &[u8], is_binary: bool, out: &mut Out) {
        for &byte in bytes {
            if core::mem::take(&mut self.is_after_cr) && byte != b'\n' && !is_binary {
                out.raw(&[0]);
            }
            out.doubled([byte]);
            self.is_after_cr = byte == b'\r' && !is_binary;
        }
    }

    /// Complete a CR: no LF will follow it.
    pub(crate) fn end(&mut self, out: &mut Out) {
        if core::mem::take(&mut self.is_after_cr) {
            out.raw(&[0]);
        }
    }
}

/// What came last.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    is_after_cr: bool,
}

impl Decoder {
    /// Data as it came, to `to`: without the NUL of CR NUL and, if `drops_lf`, the LF of CR LF.
    pub(crate) fn data(&mut self, bytes: &[u8], is_binary: bool, drops_lf: bool, to: &mut Vec<u8>) {
        for &byte in bytes {
            let is_after_cr = core::mem::replace(&mut self.is_after_cr, byte == b'\r');
            let is_end = byte == 0 || (byte == b'\n' && drops_lf);
            if !(is_after_cr && is_end && !is_binary) {
                to.push(byte);
            }
        }
    }
}
