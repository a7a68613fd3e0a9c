//! A law that did not hold, as an oracle, an application or an adversary saw it.
//!
//! Called by: everything that checks a law, and whoever reports the failure of a seed.

use core::fmt;

/// A law that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which law.
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
