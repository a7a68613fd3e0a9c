//! The limit of a connection now, and the reason: a verdict from many looks at it, and its
//! sentence.
//!
//! Called by: `wirespeed explain`, `top`, the live page, and `wirespeed lab explain`, which checks
//! it against situations whose limit is known. A [`Look`] is all that is known of a connection at
//! one time; [`Verdict::of`] is a pure function of looks, and [`Words::of`] says what it found.
//! docs/decisions/0126-explain-by-looks.md.

mod evidence;
mod limit;
mod look;
mod recent;
mod units;
mod verdict;
mod words;

#[cfg(test)]
mod tests;

pub use limit::{Held, Limit};
pub use look::{Look, Looked, Surroundings, apart};
pub use recent::Recent;
pub use units::{bits, ms};
pub use verdict::{LOOKS_LEAST, Verdict};
pub use words::Words;
