//! Special characters: which character stands for which function, and how the ends agree (RFC 1184
//! section 2.4). An answer has the ACK bit or a lower level, so that agreeing ends.
//!
//! Called by: both ends; programs map functions to the characters of a terminal.

/// Functions; their numbers are 1 to this.
pub const FUNCTIONS: usize = 30;

/// Synch.
pub const SYNCH: u8 = 1;
/// Break.
pub const BRK: u8 = 2;
/// Interrupt process.
pub const IP: u8 = 3;
/// Abort output.
pub const AO: u8 = 4;
/// Are you there.
pub const AYT: u8 = 5;
/// End of record.
pub const EOR: u8 = 6;
/// Abort process.
pub const ABORT: u8 = 7;
/// End of file.
pub const EOF: u8 = 8;
/// Suspend process.
pub const SUSP: u8 = 9;
/// Erase character.
pub const EC: u8 = 10;
/// Erase line.
pub const EL: u8 = 11;
/// Erase word.
pub const EW: u8 = 12;
/// Reprint line.
pub const RP: u8 = 13;
/// The next character is literal.
pub const LNEXT: u8 = 14;
/// Resume output.
pub const XON: u8 = 15;
/// Stop output.
pub const XOFF: u8 = 16;
/// Sends the line.
pub const FORW1: u8 = 17;
/// Sends the line.
pub const FORW2: u8 = 18;

/// The function does not exist.
pub const NOSUPPORT: u8 = 0;
/// The character cannot be changed.
pub const CANTCHANGE: u8 = 1;
/// The character is a proposal.
pub const VALUE: u8 = 2;
/// Asks for the other end's default.
pub const DEFAULT: u8 = 3;
const LEVEL: u8 = 3;
/// Agreed.
pub const ACK: u8 = 128;
/// A Synch goes with the function.
pub const FLUSHIN: u8 = 64;
/// Output is flushed with the function.
pub const FLUSHOUT: u8 = 32;

/// No character: the function has none.
pub const NONE: u8 = 255;

/// A function's level with its flush flags, and its character.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Level and flush flags, never ACK.
    pub flags: u8,
    /// The character; [`NONE`] if there is none.
    pub value: u8,
}

impl Entry {
    /// Of a level with flush flags.
    pub const fn new(flags: u8, value: u8) -> Entry {
        Entry { flags, value }
    }

    fn level(self) -> u8 {
        self.flags & LEVEL
    }
}

/// What Unix terminals have, with the flush flags of BSD's client.
const UNIX: [(u8, u8, u8); 13] = [
    (IP, VALUE | FLUSHIN | FLUSHOUT, 3),
    (ABORT, VALUE | FLUSHIN | FLUSHOUT, 28),
    (EOF, VALUE, 4),
    (SUSP, VALUE | FLUSHIN, 26),
    (EC, VALUE, 127),
    (EL, VALUE, 21),
    (EW, VALUE, 23),
    (RP, VALUE, 18),
    (LNEXT, VALUE, 22),
    (XON, VALUE, 17),
    (XOFF, VALUE, 19),
    (FORW1, VALUE, NONE),
    (FORW2, VALUE, NONE),
];

/// The characters of an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    defaults: [Entry; FUNCTIONS + 1],
    current: [Entry; FUNCTIONS + 1],
}

impl Default for Table {
    /// Those of a Unix terminal.
    fn default() -> Table {
        let mut entries = [Entry::new(NOSUPPORT, NONE); FUNCTIONS + 1];
        for (function, flags, value) in UNIX {
            entries[usize::from(function)] = Entry::new(flags, value);
        }
        Table { defaults: entries, current: entries }
    }
}

impl Table {
    /// The entry of a function.
    pub fn entry(&self, function: u8) -> Entry {
        self.current.get(usize::from(function)).copied().unwrap_or_default()
    }

    /// The character of a function, if it has one.
    pub fn value(&self, function: u8) -> Option<u8> {
        let entry = self.entry(function);
        (entry.level() != NOSUPPORT && entry.value != NONE).then_some(entry.value)
    }

    /// Set a function here, default and current; `true` if that is a change.
    pub fn set(&mut self, function: u8, entry: Entry) -> bool {
        let Some(current) = self.current.get_mut(usize::from(function)) else { return false };
        let is_new = *current != entry;
        *current = entry;
        self.defaults[usize::from(function)] = entry;
        is_new
    }

    /// All functions as they are sent: three bytes each.
    pub fn all(&self) -> Vec<u8> {
        let functions = (1..).zip(&self.current[1..]);
        functions.flat_map(|(function, entry)| [function, entry.flags, entry.value]).collect()
    }

    /// What the other end sent, and what to answer; empty for nothing. Bytes behind the last
    /// whole triplet are ignored.
    pub fn receive(&mut self, triplets: &[u8]) -> Vec<u8> {
        let mut answer = Vec::new();
        let (mut is_reset, mut is_asked) = (false, false);
        for triplet in triplets.as_chunks::<3>().0 {
            match *triplet {
                [0, flags, _] if flags & LEVEL == DEFAULT => is_reset = true,
                [0, flags, _] if flags & LEVEL == VALUE => is_asked = true,
                [0, ..] => {}
                [function, flags, value] => {
                    let theirs = Entry::new(flags & !ACK, value);
                    let reply = self.propose(function, theirs, flags & ACK != 0);
                    answer.extend(reply.into_iter().flat_map(|(flags, v)| [function, flags, v]));
                }
            }
        }
        if is_reset {
            self.current = self.defaults;
        }
        if is_reset || is_asked {
            // Once, however often it was asked for in one message.
            answer = self.all();
        }
        answer
    }

    /// The other end's entry for a function; what to answer, level with ACK and the character.
    /// RFC 1184 2.4-b.
    fn propose(&mut self, function: u8, theirs: Entry, is_ack: bool) -> Option<(u8, u8)> {
        let default = self.defaults.get(usize::from(function)).copied();
        let Some(ours) = self.current.get_mut(usize::from(function)) else {
            // A function that we do not know. Saying so to one that has it not would never end.
            return (theirs.level() != NOSUPPORT && !is_ack).then_some((NOSUPPORT, NONE));
        };
        if is_ack || *ours == theirs || (ours.level() == NOSUPPORT && theirs.level() == NOSUPPORT) {
            return None;
        }
        let default = default.unwrap_or_default();
        match (theirs.level(), ours.level()) {
            (NOSUPPORT, _) => {
                *ours = Entry::new(NOSUPPORT, NONE);
                Some((NOSUPPORT | ACK, NONE))
            }
            (DEFAULT, _) => {
                // The other end leaves the choice to us.
                *ours = default;
                let flags = if default.level() == DEFAULT { NOSUPPORT } else { default.flags };
                Some((flags, default.value))
            }
            (_, NOSUPPORT) if default.level() == NOSUPPORT => Some((NOSUPPORT, NONE)),
            (CANTCHANGE, CANTCHANGE) => {
                *ours = Entry::new(NOSUPPORT, NONE);
                Some((NOSUPPORT, NONE))
            }
            (_, CANTCHANGE) => Some((ours.flags, ours.value)),
            _ => {
                *ours = theirs;
                Some((theirs.flags | ACK, theirs.value))
            }
        }
    }
}
