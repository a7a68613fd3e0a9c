//! What limits a connection now, and why: a verdict from many looks at the connection, and a
//! sentence for the verdict.
//!
//! Called by: `wirespeed explain`, `top`, the live page, and `wirespeed lab explain`, which checks
//! verdicts in situations whose limit is known. A [`Look`] is everything that is known of a
//! connection at one time; [`Verdict::of`] is a pure function of looks, and [`Words::of`] puts the
//! verdict into words. docs/decisions/0126-explain-by-looks.md.

mod evidence;
mod legs;
mod limit;
mod look;
mod recent;
mod units;
mod verdict;
mod words;

#[cfg(test)]
mod tests;

pub use legs::{Grew, Leg, Legs};
pub use limit::{Held, Limit};
pub use look::{Look, Looked, Surroundings, apart};
pub use recent::Recent;
pub use units::{bits, ms};
pub use verdict::{LOOKS_LEAST, Verdict};
pub use words::Words;
