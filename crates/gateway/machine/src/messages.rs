//! Where a gateway's messages to people go.
//!
//! Called by: `running.rs` and tools, which make it; the parts of a gateway that have something to
//! say.

use std::rc::Rc;

/// The program that a gateway belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its version, for the page.
    pub version: &'static str,
    /// Prints a message.
    pub say: fn(&str),
}

/// Messages of one gateway.
#[derive(Clone)]
pub struct Messages {
    /// Takes each sentence.
    pub say: Rc<dyn Fn(&str)>,
    /// The program that serves a page.
    pub program: Option<Program>,
}

impl Messages {
    /// Pass on a sentence.
    pub(super) fn say(&self, text: &str) {
        (self.say)(text);
    }
}
