//! The line that is edited where it is typed (RFC 1184 section 2.2, EDIT), with the special
//! characters on which the ends agreed. Characters are UTF-8; other bytes count as one column.
//!
//! Called by: `client.rs`. Limit: `LINE_BYTES`.

use unicode_width::UnicodeWidthChar;

use crate::limits::LINE_BYTES;
use crate::slc::{self, Table};

/// How what is typed is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Echo {
    /// It is shown at all.
    pub is_on: bool,
    /// Control characters as they are, not as ^X (LIT_ECHO).
    pub is_literal: bool,
    /// Tabs as spaces (SOFT_TAB).
    pub is_soft_tab: bool,
}

/// What became of a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Typed {
    /// It edited the line.
    Kept,
    /// The line is complete: to be sent with its end.
    Line,
    /// To be sent as it is.
    Part,
    /// End of file on an empty line.
    EndOfFile,
}

/// A line being typed.
#[derive(Debug, Default)]
pub struct Editor {
    line: Vec<u8>,
    is_literal_next: bool,
}

impl Editor {
    /// Is the next character literal?
    pub fn is_literal_next(&self) -> bool {
        self.is_literal_next
    }

    /// The line, which is then empty.
    pub fn take(&mut self) -> Vec<u8> {
        self.is_literal_next = false;
        core::mem::take(&mut self.line)
    }

    /// A byte from the keyboard; what it shows goes to `display`.
    pub fn key(&mut self, byte: u8, table: &Table, echo: Echo, display: &mut Vec<u8>) -> Typed {
        if core::mem::take(&mut self.is_literal_next) {
            self.insert(byte, echo, display);
            return Typed::Kept;
        }
        let is = |function| table.value(function) == Some(byte);
        match byte {
            b'\r' | b'\n' => {
                if echo.is_on {
                    display.extend(b"\r\n");
                }
                return Typed::Line;
            }
            _ if is(slc::LNEXT) => self.is_literal_next = true,
            _ if is(slc::EOF) && self.line.is_empty() => return Typed::EndOfFile,
            _ if is(slc::EOF) => return Typed::Part,
            _ if is(slc::EC) => self.erase(self.before_character(), echo, display),
            _ if is(slc::EW) => self.erase(self.before_word(), echo, display),
            _ if is(slc::EL) => self.erase(0, echo, display),
            _ if is(slc::RP) => self.reprint(echo, display),
            _ => {
                self.insert(byte, echo, display);
                if is(slc::FORW1) || is(slc::FORW2) {
                    return Typed::Part;
                }
            }
        }
        Typed::Kept
    }

    fn insert(&mut self, byte: u8, echo: Echo, display: &mut Vec<u8>) {
        if self.line.len() >= LINE_BYTES {
            display.push(7);
            return;
        }
        let from = self.line.len();
        self.line.push(byte);
        if echo.is_on {
            self.show(from, echo, display);
        }
    }

    /// Show the line from this byte on.
    fn show(&self, from: usize, echo: Echo, display: &mut Vec<u8>) {
        for at in from..self.line.len() {
            match self.line[at] {
                b'\t' if echo.is_soft_tab => display.extend(vec![b' '; self.tab(at)]),
                byte if is_control(byte) && !echo.is_literal && byte != b'\t' => {
                    display.extend([b'^', byte ^ 64]);
                }
                byte => display.push(byte),
            }
        }
    }

    fn reprint(&self, echo: Echo, display: &mut Vec<u8>) {
        if echo.is_on {
            display.extend(b"^R\r\n");
            self.show(0, echo, display);
        }
    }

    fn erase(&mut self, to: usize, echo: Echo, display: &mut Vec<u8>) {
        if echo.is_on {
            let columns = self.column(self.line.len(), echo) - self.column(to, echo);
            (0..columns).for_each(|_| display.extend(b"\x08 \x08"));
        }
        self.line.truncate(to);
    }

    fn before_character(&self) -> usize {
        let mut at = self.line.len().saturating_sub(1);
        let lowest = self.line.len().saturating_sub(4);
        while at > lowest && self.line[at] & 0xc0 == 0x80 {
            at -= 1;
        }
        let is_whole = core::str::from_utf8(&self.line[at..]).is_ok();
        if is_whole { at } else { self.line.len().saturating_sub(1) }
    }

    fn before_word(&self) -> usize {
        let is_blank = |b: &u8| matches!(b, b' ' | b'\t');
        let end = self.line.iter().rposition(|b| !is_blank(b)).map_or(0, |at| at + 1);
        self.line[..end].iter().rposition(is_blank).map_or(0, |at| at + 1)
    }

    fn tab(&self, at: usize) -> usize {
        8 - self.column(at, Echo::default()) % 8
    }

    /// The column of a byte, counted from where the line begins.
    fn column(&self, end: usize, echo: Echo) -> usize {
        let mut column = 0;
        for chunk in self.line[..end].utf8_chunks() {
            for character in chunk.valid().chars() {
                column += match character {
                    '\t' => 8 - column % 8,
                    c if c.is_ascii_control() => {
                        if echo.is_literal {
                            0
                        } else {
                            2
                        }
                    }
                    c => c.width().unwrap_or(1),
                };
            }
            column += chunk.invalid().len();
        }
        column
    }
}

fn is_control(byte: u8) -> bool {
    byte < b' ' || byte == 127
}
