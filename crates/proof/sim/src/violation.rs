//! A law that did not hold, as reported by an oracle, an application or an adversary.
//!
//! Called by: everything that checks a law, and the report of a failed seed.

use core::fmt;

/// A law that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The name of the law.
    pub oracle: &'static str,
    /// What was seen.
    pub what: String,
}

impl Violation {
    pub(crate) fn new(oracle: &'static str, what: String) -> Violation {
        Violation { oracle, what }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.oracle, self.what)
    }
}
