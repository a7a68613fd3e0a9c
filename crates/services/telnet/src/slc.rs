//! Special characters (SLC): the characters of the functions, and how the ends agree on them (RFC
//! 1184 section 2.4). An answer has the ACK bit or a lower level, so that the negotiation ends.
//!
//! Called by: both ends; programs map functions to the characters of a terminal.

/// Number of functions. They are numbered from 1 on.
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
/// Moves the cursor to the left by a character.
pub const MCL: u8 = 19;
/// Moves the cursor to the right by a character.
pub const MCR: u8 = 20;
/// Moves the cursor to the left by a word.
pub const MCWL: u8 = 21;
/// Moves the cursor to the right by a word.
pub const MCWR: u8 = 22;
/// Moves the cursor to the beginning of the line.
pub const MCBOL: u8 = 23;
/// Moves the cursor to the end of the line.
pub const MCEOL: u8 = 24;
/// Typed characters are inserted from now on.
pub const INSRT: u8 = 25;
/// Typed characters replace those under the cursor from now on.
pub const OVER: u8 = 26;
/// Erases the character under the cursor.
pub const ECR: u8 = 27;
/// Erases to the right up to the end of a word.
pub const EWR: u8 = 28;
/// Erases from the beginning of the line to the cursor.
pub const EBOL: u8 = 29;
/// Erases from the cursor to the end of the line.
pub const EEOL: u8 = 30;

/// The names of the functions, from function 1 on, as in RFC 1184 without the prefix `SLC_`.
pub const NAMES: [&str; FUNCTIONS] = [
    "SYNCH", "BRK", "IP", "AO", "AYT", "EOR", "ABORT", "EOF", "SUSP", "EC", "EL", "EW", "RP",
    "LNEXT", "XON", "XOFF", "FORW1", "FORW2", "MCL", "MCR", "MCWL", "MCWR", "MCBOL", "MCEOL",
    "INSRT", "OVER", "ECR", "EWR", "EBOL", "EEOL",
];

/// The function does not exist.
pub const NOSUPPORT: u8 = 0;
/// The character cannot be changed.
pub const CANTCHANGE: u8 = 1;
/// The character is a proposal.
pub const VALUE: u8 = 2;
/// Asks for the other end's default.
pub const DEFAULT: u8 = 3;
const LEVEL: u8 = 3;
/// The other end's value is agreed to.
pub const ACK: u8 = 128;
/// A Synch is sent with the function.
pub const FLUSHIN: u8 = 64;
/// Output is flushed when the function is used.
pub const FLUSHOUT: u8 = 32;
/// Both: [`FLUSHIN`] and [`FLUSHOUT`].
pub const FLUSH: u8 = FLUSHIN | FLUSHOUT;

/// No character: the function has none.
pub const NONE: u8 = 255;

/// A function's level with its flush flags, and the function's character.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Level and flush flags, never ACK.
    pub flags: u8,
    /// The character; [`NONE`] if there is none.
    pub value: u8,
}

impl Entry {
    /// An entry with this level and flush flags.
    pub const fn new(flags: u8, value: u8) -> Entry {
        Entry { flags, value }
    }

    /// [`NOSUPPORT`], [`CANTCHANGE`], [`VALUE`] or [`DEFAULT`].
    pub const fn level(self) -> u8 {
        self.flags & LEVEL
    }
}

/// The functions and characters of Unix terminals, with the flush flags of BSD's TELNET client.
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

/// Commands that every end has, and for which a Unix terminal has no character.
const COMMANDS: [(u8, u8); 4] = [(SYNCH, 0), (BRK, 0), (AO, FLUSHOUT), (AYT, 0)];

/// Functions inside the line. Some have the characters of Emacs, if a terminal has no other use for
/// these. The others have no character until the user or the server sets one.
const MOTION: [(u8, u8); 12] = [
    (MCL, 2),
    (MCR, 6),
    (MCWL, NONE),
    (MCWR, NONE),
    (MCBOL, 1),
    (MCEOL, 5),
    (INSRT, NONE),
    (OVER, NONE),
    (ECR, NONE),
    (EWR, NONE),
    (EBOL, NONE),
    (EEOL, 11),
];

/// The flush flags that a Unix terminal has for a function.
pub(crate) fn flush_of(function: u8) -> u8 {
    UNIX.iter().find(|&&(f, ..)| f == function).map_or(0, |&(_, flags, _)| flags & FLUSH)
}

/// The special characters of one end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    defaults: [Entry; FUNCTIONS + 1],
    current: [Entry; FUNCTIONS + 1],
}

impl Table {
    /// A client's table: the characters of a Unix terminal, and those of the editor.
    pub fn client() -> Table {
        let commands = COMMANDS.map(|(function, flush)| (function, VALUE | flush, NONE));
        Table::of(commands, MOTION.map(|(function, value)| (function, VALUE, value)))
    }

    /// A server's table: for functions for which the program's terminal has no character, the
    /// client chooses.
    pub fn server() -> Table {
        let choose = |(function, _)| (function, DEFAULT, NONE);
        Table::of(COMMANDS.map(choose), MOTION.map(choose))
    }

    fn of(commands: [(u8, u8, u8); COMMANDS.len()], motion: [(u8, u8, u8); MOTION.len()]) -> Table {
        let mut entries = [Entry::new(NOSUPPORT, NONE); FUNCTIONS + 1];
        for (function, flags, value) in UNIX.into_iter().chain(commands).chain(motion) {
            entries[usize::from(function)] = Entry::new(flags, value);
        }
        Table { defaults: entries, current: entries }
    }

    /// The entry of a function.
    pub fn entry(&self, function: u8) -> Entry {
        self.current.get(usize::from(function)).copied().unwrap_or_default()
    }

    /// The character of a function, if it has one.
    pub fn value(&self, function: u8) -> Option<u8> {
        let entry = self.entry(function);
        (entry.level() != NOSUPPORT && entry.value != NONE).then_some(entry.value)
    }

    /// Does the function exist at both ends? It need not have a character.
    pub fn has(&self, function: u8) -> bool {
        self.entry(function).level() != NOSUPPORT
    }

    /// The first of these functions that has this character.
    pub fn function(&self, among: &[u8], character: u8) -> Option<u8> {
        among.iter().copied().find(|&function| self.value(function) == Some(character))
    }

    /// Set the default and the current entry of a function at this end; `true` if that is a change.
    pub fn set(&mut self, function: u8, entry: Entry) -> bool {
        let Some(current) = self.current.get_mut(usize::from(function)) else { return false };
        let is_new = *current != entry;
        *current = entry;
        self.defaults[usize::from(function)] = entry;
        is_new
    }

    /// All functions in the form in which they are sent: three bytes each.
    pub fn all(&self) -> Vec<u8> {
        let functions = (1..).zip(&self.current[1..]);
        functions.flat_map(|(function, entry)| [function, entry.flags, entry.value]).collect()
    }

    /// Handle entries that the other end sent. Returns the answer, or nothing. Bytes after the last
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
            // Answer once, even if one message asks several times.
            answer = self.all();
        }
        answer
    }

    /// Handle the other end's entry for a function. Returns the answer: the level with ACK, and the
    /// character. RFC 1184 2.4-b.
    fn propose(&mut self, function: u8, theirs: Entry, is_ack: bool) -> Option<(u8, u8)> {
        let default = self.defaults.get(usize::from(function)).copied();
        let Some(ours) = self.current.get_mut(usize::from(function)) else {
            // We do not support the function. If the other end does not support it either, it is
            // not told: the two ends would answer each other for ever.
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
                let is_theirs = default.level() == DEFAULT;
                *ours = if is_theirs { Entry::new(NOSUPPORT, NONE) } else { default };
                Some((ours.flags, ours.value))
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
