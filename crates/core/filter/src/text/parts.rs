//! The parts of the language that other texts share with it: networks, ports, sets, and what
//! mistakes look like.
//!
//! Called by: crate `policy`, whose rules have names besides. Every error is a sentence that says
//! what to write instead, for a [`Fault`].

use base::Cidr;

use super::lexer::Token;
use super::{names, sets, values};

pub use super::mistake::{Fault, Log};
pub use super::sets::{Sets, read as read_sets};

fn word(text: &str) -> Token<'_> {
    Token { text, line: 1, column: 1 }
}

/// An address, or a network without host bits.
///
/// # Errors
/// It is none.
pub fn network(text: &str) -> Result<Cidr, String> {
    sets::plain_network(text)
}

/// `443`, `https`, `1024-2048`: the first and the last port.
///
/// # Errors
/// It is none of these.
pub fn ports(text: &str) -> Result<(u16, u16), String> {
    values::port_range(word(text)).map_err(|fault| fault.what)
}

/// The known word that somebody who wrote `word` may have meant: with one change in three letters
/// at most.
pub fn nearest<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    names::nearest(word, known)
}
