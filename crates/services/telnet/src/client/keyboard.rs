//! Input that is typed, or read from a file: it is edited, turned into commands, or sent.
//!
//! Called by: programs, with the bytes of their keyboard. RFC 1184 sections 2.2 to 2.4, RFC 1372.
//! Limits: `LINE_BYTES`, `FLUSHED_BYTES`.

use super::Client;
use crate::code::{ABORT, AO, AYT, BINARY, BRK, DO, EOF, EOR, IAC, IP, LFLOW, SUSP, TIMING_MARK};
use crate::editor::{Echo, Typed};
use crate::limits::FLUSHED_BYTES;
use crate::options::Side;
use crate::slc;

/// The bytes of keys that move the cursor or erase under it, and the functions that they stand for.
const CURSOR_KEYS: [(&[u8], u8); 11] = [
    (b"\x1b[D", slc::MCL),
    (b"\x1bOD", slc::MCL),
    (b"\x1b[C", slc::MCR),
    (b"\x1bOC", slc::MCR),
    (b"\x1b[H", slc::MCBOL),
    (b"\x1bOH", slc::MCBOL),
    (b"\x1b[F", slc::MCEOL),
    (b"\x1bOF", slc::MCEOL),
    (b"\x1b[1;5D", slc::MCWL),
    (b"\x1b[1;5C", slc::MCWR),
    (b"\x1b[3~", slc::ECR),
];

impl Client {
    /// Handle input from a file or a program, which nobody typed. It is sent as it is; LF ends a
    /// line.
    pub fn input(&mut self, bytes: &[u8]) {
        let (edits, is_binary) = (self.edits(), self.is_binary());
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            let line = part.strip_suffix(b"\n");
            self.encoder.data(line.unwrap_or(part), is_binary, &mut self.engine.out);
            match line {
                Some(_) if edits => self.encoder.data(b"\r\n", is_binary, &mut self.engine.out),
                Some(_) => self.encoder.data(b"\r", is_binary, &mut self.engine.out),
                None => {}
            }
        }
        self.encoder.end(&mut self.engine.out);
    }

    /// Report that the keyboard has ended: send the typed bytes and an end of file. Returns `false`
    /// if the other end does not speak TELNET, so that there is no way to report the end of file to
    /// it.
    pub fn end_of_input(&mut self) -> bool {
        self.forward(false);
        match (self.has_options(), self.edits(), self.table.value(slc::EOF)) {
            (false, _, _) => return false,
            (true, true, _) => self.engine.out.raw(&[IAC, EOF]),
            (true, false, eof) => {
                self.engine.out.doubled([eof.unwrap_or(4)]);
            }
        }
        true
    }

    /// Handle bytes from the keyboard.
    pub fn keys(&mut self, mut bytes: &[u8]) {
        while let Some((&byte, behind)) = bytes.split_first() {
            bytes = match self.cursor_key(bytes) {
                Some(length) => &bytes[length..],
                None => {
                    self.key(byte);
                    behind
                }
            };
        }
    }

    /// Handle a key of several bytes that stands for a function inside the line, if both ends have
    /// the function. Returns the number of its bytes. If the bytes of a key do not arrive together,
    /// they count as single characters.
    fn cursor_key(&mut self, bytes: &[u8]) -> Option<usize> {
        let &(key, function) = CURSOR_KEYS.iter().find(|(key, _)| bytes.starts_with(key))?;
        let is_text = self.editor.is_literal_next() || self.is_forwarded(key[0]);
        if is_text || !self.edits() || !self.table.has(function) {
            return None;
        }
        self.editor.edit(function, self.echo(), &mut self.display);
        Some(key.len())
    }

    fn key(&mut self, byte: u8) {
        if !self.editor.is_literal_next() && (self.flow(byte) || self.signal(byte)) {
            return;
        }
        let echo = self.echo();
        // RFC 1184 2.2-b: With EDIT lines are edited and shown by the client and sent whole.
        if !self.edits() {
            self.display_key(byte, echo);
            self.encoder.data(&[byte], self.is_binary(), &mut self.engine.out);
            self.encoder.end(&mut self.engine.out);
            return;
        }
        let is_forwarded = !self.editor.is_literal_next() && self.is_forwarded(byte);
        match self.editor.key(byte, &self.table, echo, &mut self.display) {
            Typed::Kept if is_forwarded => self.forward(false),
            Typed::Kept => {}
            Typed::Line => self.forward(true),
            Typed::Part => self.forward(false),
            Typed::EndOfFile => self.engine.out.raw(&[IAC, EOF]),
        }
    }

    /// Show a character that is sent at once, if the server does not show it.
    fn display_key(&mut self, byte: u8, echo: Echo) {
        match byte {
            _ if !echo.is_on => {}
            b'\r' => self.display.extend(b"\r\n"),
            _ => self.display.push(byte),
        }
    }

    /// RFC 1184 2.3-a: does this character, by the server's mask, send the typed bytes? Characters
    /// of eight bits count only with BINARY.
    fn is_forwarded(&self, byte: u8) -> bool {
        self.is_linemode() && self.forwardmask.has(byte) && (byte < 128 || self.is_binary())
    }

    fn is_binary(&self) -> bool {
        self.engine.options.is_on(Side::Us, BINARY)
    }

    /// Send the typed bytes.
    pub(super) fn forward(&mut self, with_end: bool) {
        let line = self.editor.take(self.echo(), &mut self.display);
        let is_binary = self.is_binary();
        self.encoder.data(&line, is_binary, &mut self.engine.out);
        if with_end {
            self.encoder.data(b"\r\n", is_binary, &mut self.engine.out);
        }
        self.encoder.end(&mut self.engine.out);
    }

    /// Handle XOFF and XON, which stop and resume output at the client (RFC 1372).
    fn flow(&mut self, byte: u8) -> bool {
        let is_local =
            self.is_flow_on && (self.edits() || self.engine.options.is_on(Side::Us, LFLOW));
        if !is_local {
            self.is_stopped = false;
            return false;
        }
        let (xon, xoff) = (self.table.value(slc::XON), self.table.value(slc::XOFF));
        if xoff == Some(byte) {
            self.is_stopped = true;
        } else if xon == Some(byte) || (self.restarts_on_any && self.is_stopped) {
            self.is_stopped = false;
        }
        xoff == Some(byte) || xon == Some(byte)
    }

    /// Send a command if the character stands for one (TRAPSIG). RFC 1184 2.2-c, 2.5-a.
    fn signal(&mut self, byte: u8) -> bool {
        let traps = if self.is_linemode() { self.mode.trapsig } else { self.edits() };
        let commands = [
            (slc::IP, IP),
            (slc::ABORT, ABORT),
            (slc::SUSP, SUSP),
            (slc::BRK, BRK),
            (slc::AYT, AYT),
            (slc::AO, AO),
            (slc::EOR, EOR),
        ];
        let is_it = |&&(function, _): &&(u8, u8)| self.table.value(function) == Some(byte);
        if traps && self.table.value(slc::SYNCH) == Some(byte) {
            self.engine.out.synch();
            return true;
        }
        let Some(&(function, command)) = commands.iter().find(is_it).filter(|_| traps) else {
            return false;
        };
        self.signalled(function, command, byte);
        true
    }

    fn signalled(&mut self, function: u8, command: u8, byte: u8) {
        // As on a terminal, the typed bytes are dropped and the signal's character is shown.
        self.editor.take(self.echo(), &mut self.display);
        self.is_stopped = false;
        if self.echo().is_on {
            self.display.extend([b'^', byte ^ 64]);
        }
        self.engine.out.raw(&[IAC, command]);
        let flags = self.table.entry(function).flags;
        if flags & slc::FLUSHOUT != 0 && self.flushing == 0 {
            // RFC 1184 2.4-c: output is dropped until the answer to the timing mark comes.
            self.engine.out.raw(&[IAC, DO, TIMING_MARK]);
            self.flushing = FLUSHED_BYTES;
        }
        // The Synch is sent after the timing mark. One segment contains both, so that the answer to
        // the mark comes before the program's reaction to the signal.
        if flags & slc::FLUSHIN != 0 {
            self.engine.out.synch();
        }
    }
}
