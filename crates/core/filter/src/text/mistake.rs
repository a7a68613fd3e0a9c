//! Mistakes in the operator's text: where they are and what to write instead.
//!
//! Called by: the readers of `text`, which find all mistakes before they give up. A reader knows
//! its text, so that it makes a [`Fault`] of line and column alone; the [`Log`] adds the text.

use core::fmt::{self, Write as _};

/// Mistakes that are reported; the last one says how many more there are.
const MISTAKES_MAX: usize = 100;

/// Characters of a mistake that are shown.
const WHAT_MAX: usize = 400;

/// The text in which a mistake is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// The rules of the filter.
    Rules,
    /// The rules of NAT.
    Nat,
    /// The default of the filter.
    Default,
    /// A set; the line is the number of its entry.
    Set(String),
    /// A file of networks.
    File(String),
    /// A question of `filter explain`.
    Question,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Rules => f.write_str("filter rules"),
            Location::Nat => f.write_str("nat rules"),
            Location::Default => f.write_str("filter default"),
            Location::Set(name) => write!(f, "set {name}"),
            Location::File(name) => f.write_str(name),
            Location::Question => f.write_str("question"),
        }
    }
}

/// Something that is wrong in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// In which text.
    pub location: Location,
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    /// The mistake in words, and the text to write instead.
    pub what: String,
}

impl fmt::Display for Mistake {
    /// One line for a terminal: control characters of the operator's text are replaced.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mistake { location, line, column, what } = self;
        write!(Printable(f), "{location}:{line}:{column}: {what}")
    }
}

/// Writes text without control characters and without those that reorder what is shown.
struct Printable<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl fmt::Write for Printable<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let is_hidden = |c: char| {
            c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        };
        let shown = |c| if is_hidden(c) { char::REPLACEMENT_CHARACTER } else { c };
        text.chars().try_for_each(|c| self.0.write_char(shown(c)))
    }
}

impl core::error::Error for Mistake {}

/// A mistake whose text is known from where it is read.
#[derive(Clone, Debug)]
pub struct Fault {
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    /// As [`Mistake::what`].
    pub what: String,
}

impl Fault {
    pub(super) fn at_start(what: &str) -> Fault {
        Fault { line: 1, column: 1, what: what.to_owned() }
    }

    pub(super) fn in_text(self, location: &Location) -> Mistake {
        let Fault { line, column, mut what } = self;
        // A word of the operator's may be as long as the file.
        if let Some((end, _)) = what.char_indices().nth(WHAT_MAX) {
            what.truncate(end);
            what.push('…');
        }
        Mistake { location: location.clone(), line, column, what }
    }
}

/// The mistakes that were found: the first hundred, and how many more there are.
#[derive(Debug, Default)]
pub struct Log {
    mistakes: Vec<Mistake>,
    more: usize,
}

impl Log {
    /// Note a mistake in a text.
    pub fn add(&mut self, location: &Location, fault: Fault) {
        if self.mistakes.len() < MISTAKES_MAX {
            self.mistakes.push(fault.in_text(location));
        } else {
            self.more = self.more.saturating_add(1);
        }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.mistakes.len().saturating_add(self.more)
    }

    /// All of them in the order in which they were found; the last one has the number of those
    /// that are left out.
    #[must_use]
    pub fn into_mistakes(mut self) -> Vec<Mistake> {
        if self.more > 0
            && let Some(last) = self.mistakes.last_mut()
        {
            last.what = format!("{} (and {} more mistakes)", last.what, self.more);
        }
        self.mistakes
    }
}
