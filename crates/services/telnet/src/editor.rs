//! The editor of the line that is typed (RFC 1184 section 2.2, EDIT), with the special characters
//! on which the two ends have agreed. Characters are UTF-8; other bytes count as one column.
//!
//! Called by: `client.rs`. The output needs a terminal that knows only backspace. Limit:
//! `LINE_BYTES`.

use core::ops::Range;

use unicode_width::UnicodeWidthChar;

use crate::limits::LINE_BYTES;
use crate::slc::{self, Table};

/// The functions of the editor. A terminal's own functions come first: if a character stands for
/// two functions, the one that a program has set wins.
const FUNCTIONS: [u8; 20] = [
    slc::LNEXT,
    slc::EOF,
    slc::EC,
    slc::EW,
    slc::EL,
    slc::RP,
    slc::FORW1,
    slc::FORW2,
    slc::MCL,
    slc::MCR,
    slc::MCWL,
    slc::MCWR,
    slc::MCBOL,
    slc::MCEOL,
    slc::INSRT,
    slc::OVER,
    slc::ECR,
    slc::EWR,
    slc::EBOL,
    slc::EEOL,
];

/// How typed characters are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Echo {
    /// Are typed characters shown at all?
    pub is_on: bool,
    /// Are control characters shown as they are, instead of as ^X (LIT_ECHO)?
    pub is_literal: bool,
}

/// What a typed character did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Typed {
    /// It edited the line.
    Kept,
    /// It completed the line, which is to be sent with a line end.
    Line,
    /// The typed bytes are to be sent as they are, without a line end.
    Part,
    /// It is the end of file, on an empty line.
    EndOfFile,
}

/// The line that is being typed.
#[derive(Debug, Default)]
pub struct Editor {
    line: Vec<u8>,
    /// Where the next character is inserted, in bytes.
    cursor: usize,
    /// The first bytes of a character of which more bytes have to come.
    begun: Vec<u8>,
    is_literal_next: bool,
    /// Do typed characters replace those under the cursor, until a function changes that?
    replaces: bool,
}

impl Editor {
    /// Is the next character taken literally?
    pub fn is_literal_next(&self) -> bool {
        self.is_literal_next
    }

    /// Take the line. It is shown up to its end.
    pub fn take(&mut self, echo: Echo, display: &mut Vec<u8>) -> Vec<u8> {
        self.edit(slc::MCEOL, echo, display);
        (self.is_literal_next, self.cursor) = (false, 0);
        core::mem::take(&mut self.line)
    }

    /// Handle a byte from the keyboard; output goes to `display`.
    pub fn key(&mut self, byte: u8, table: &Table, echo: Echo, display: &mut Vec<u8>) -> Typed {
        if core::mem::take(&mut self.is_literal_next) || self.continues(byte) {
            self.insert(byte, echo, display);
            return Typed::Kept;
        }
        self.complete(echo, display);
        if matches!(byte, b'\r' | b'\n') {
            self.edit(slc::MCEOL, echo, display);
            if echo.is_on {
                display.extend(b"\r\n");
            }
            return Typed::Line;
        }
        match table.function(&FUNCTIONS, byte) {
            Some(slc::LNEXT) => self.is_literal_next = true,
            Some(slc::EOF) if self.line.is_empty() => return Typed::EndOfFile,
            Some(slc::EOF) => return Typed::Part,
            Some(slc::FORW1 | slc::FORW2) => {
                self.edit(slc::MCEOL, echo, display);
                self.insert(byte, echo, display);
                return Typed::Part;
            }
            Some(function) if self.edit(function, echo, display) => {}
            _ => self.insert(byte, echo, display),
        }
        Typed::Kept
    }

    /// Carry out a function inside the line. Returns `false` if there is no such function. RFC 1184
    /// 2.4-d.
    pub fn edit(&mut self, function: u8, echo: Echo, display: &mut Vec<u8>) -> bool {
        self.complete(echo, display);
        let (cursor, end) = (self.cursor, self.line.len());
        match function {
            slc::EC => self.erase(self.before_character(cursor)..cursor, echo, display),
            slc::EW => self.erase(self.before_word()..cursor, echo, display),
            slc::EL => self.erase(0..end, echo, display),
            slc::ECR => self.erase(cursor..self.behind_character(), echo, display),
            slc::EWR => self.erase(cursor..self.behind_word(), echo, display),
            slc::EBOL => self.erase(0..cursor, echo, display),
            slc::EEOL => self.erase(cursor..end, echo, display),
            slc::MCL => self.move_to(self.before_character(cursor), echo, display),
            slc::MCR => self.move_to(self.behind_character(), echo, display),
            slc::MCWL => self.move_to(self.before_word(), echo, display),
            slc::MCWR => self.move_to(self.behind_word(), echo, display),
            slc::MCBOL => self.move_to(0, echo, display),
            slc::MCEOL => self.move_to(end, echo, display),
            slc::INSRT => self.replaces = false,
            slc::OVER => self.replaces = true,
            slc::RP => self.reprint(echo, display),
            _ => return false,
        }
        true
    }

    /// Is this byte the next one of a character that has begun?
    fn continues(&self, byte: u8) -> bool {
        !self.begun.is_empty() && byte & 0xc0 == 0x80
    }

    /// No more bytes will come of a character that has begun: put its bytes into the line.
    fn complete(&mut self, echo: Echo, display: &mut Vec<u8>) {
        let begun = core::mem::take(&mut self.begun);
        if !begun.is_empty() {
            self.put(&begun, echo, display);
        }
    }

    fn insert(&mut self, byte: u8, echo: Echo, display: &mut Vec<u8>) {
        if !self.continues(byte) {
            self.complete(echo, display);
        }
        self.begun.push(byte);
        let is_partial =
            core::str::from_utf8(&self.begun).is_err_and(|error| error.error_len().is_none());
        if !is_partial {
            self.complete(echo, display);
        }
    }

    /// Put a whole character, or a byte that is not part of one, into the line.
    fn put(&mut self, character: &[u8], echo: Echo, display: &mut Vec<u8>) {
        let at = self.cursor;
        let until = if self.replaces { self.behind_character() } else { at };
        if self.line.len() - (until - at) + character.len() > LINE_BYTES {
            display.push(7);
            return;
        }
        self.replace(at..until, character, echo, display);
    }

    fn erase(&mut self, range: Range<usize>, echo: Echo, display: &mut Vec<u8>) {
        if !range.is_empty() {
            self.replace(range, &[], echo, display);
        }
    }

    /// Replace a part of the line. The cursor is then after the new part.
    fn replace(&mut self, range: Range<usize>, new: &[u8], echo: Echo, display: &mut Vec<u8>) {
        let (start, cursor) = (range.start, range.start + new.len());
        let before = self.column(self.line.len(), echo);
        if echo.is_on {
            self.move_to(start, echo, display);
        }
        self.line.splice(range, new.iter().copied());
        self.cursor = cursor;
        if !echo.is_on {
            return;
        }
        self.show(start, echo, display);
        // Erase the characters that are shown after the new end.
        let after = self.column(self.line.len(), echo);
        let wiped = before.saturating_sub(after);
        display.extend(core::iter::repeat_n(b' ', wiped));
        let back = (after + wiped).saturating_sub(self.column(cursor, echo));
        display.extend(core::iter::repeat_n(8, back));
    }

    /// Move the cursor to this byte.
    fn move_to(&mut self, to: usize, echo: Echo, display: &mut Vec<u8>) {
        if echo.is_on {
            let (from, column) = (self.column(self.cursor, echo), self.column(to, echo));
            if column < from {
                display.extend(core::iter::repeat_n(8, from - column));
            } else if to > self.cursor {
                self.show_part(self.cursor..to, echo, display);
            }
        }
        self.cursor = to;
    }

    fn reprint(&mut self, echo: Echo, display: &mut Vec<u8>) {
        if echo.is_on {
            display.extend(b"^R\r\n");
            self.show(0, echo, display);
            let (end, cursor) =
                (self.column(self.line.len(), echo), self.column(self.cursor, echo));
            display.extend(core::iter::repeat_n(8, end.saturating_sub(cursor)));
        }
    }

    /// Show the line from this byte on.
    fn show(&self, from: usize, echo: Echo, display: &mut Vec<u8>) {
        self.show_part(from..self.line.len(), echo, display);
    }

    fn show_part(&self, part: Range<usize>, echo: Echo, display: &mut Vec<u8>) {
        let mut column = self.column(part.start, echo);
        for chunk in self.line[part].utf8_chunks() {
            for character in chunk.valid().chars() {
                let width = width(character, column, echo);
                column += width;
                match character {
                    // Show a tab as spaces, with or without SOFT_TAB: a tab would not erase
                    // characters shown before, and would move to a column that only the terminal
                    // knows.
                    '\t' => display.extend(core::iter::repeat_n(b' ', width)),
                    c if c.is_ascii_control() && !echo.is_literal => {
                        display.extend([b'^', c as u8 ^ 64]);
                    }
                    c => display.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
                }
            }
            column += chunk.invalid().len();
            display.extend_from_slice(chunk.invalid());
        }
    }

    fn before_character(&self, end: usize) -> usize {
        let mut at = end.saturating_sub(1);
        let lowest = end.saturating_sub(4);
        while at > lowest && self.line[at] & 0xc0 == 0x80 {
            at -= 1;
        }
        let is_whole = core::str::from_utf8(&self.line[at..end]).is_ok();
        if is_whole { at } else { end.saturating_sub(1) }
    }

    fn behind_character(&self) -> usize {
        let rest = &self.line[self.cursor..];
        let whole = rest.utf8_chunks().next().and_then(|chunk| chunk.valid().chars().next());
        self.cursor + whole.map_or(rest.len().min(1), char::len_utf8)
    }

    fn before_word(&self) -> usize {
        let before = &self.line[..self.cursor];
        let end = before.iter().rposition(|b| !is_blank(b)).map_or(0, |at| at + 1);
        before[..end].iter().rposition(is_blank).map_or(0, |at| at + 1)
    }

    fn behind_word(&self) -> usize {
        let end = self.line.len();
        let first = |from: usize, is: fn(&u8) -> bool| {
            self.line[from..].iter().position(is).map_or(end, |at| from + at)
        };
        first(first(self.cursor, |b| !is_blank(b)), is_blank)
    }

    /// The column of a byte, counted from the beginning of the line.
    fn column(&self, end: usize, echo: Echo) -> usize {
        let mut column = 0;
        for chunk in self.line[..end].utf8_chunks() {
            for character in chunk.valid().chars() {
                column += width(character, column, echo);
            }
            column += chunk.invalid().len();
        }
        column
    }
}

/// How many columns a character takes if it is shown at `column`.
fn width(character: char, column: usize, echo: Echo) -> usize {
    match character {
        '\t' => 8 - column % 8,
        c if c.is_ascii_control() && echo.is_literal => 0,
        c if c.is_ascii_control() => 2,
        c => c.width().unwrap_or(1),
    }
}

fn is_blank(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t')
}
