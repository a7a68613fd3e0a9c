//! On systems other than Linux no samples can be taken, and [`look`] says so.
//!
//! Called by: tools that look at a program.

use std::convert::Infallible;
use std::time::Duration;

use crate::{Error, Seen};

/// The result of a look, which does not exist on this system.
#[derive(Debug)]
pub struct Look(Infallible);

/// Samples of a program, which can be taken only on Linux.
///
/// # Errors
/// Always; the text gives advice.
pub fn look(
    _process: u32,
    _threads: Option<&[i32]>,
    _begun: impl FnOnce(),
    _stop: &dyn Fn(Duration) -> bool,
) -> Result<Look, Error> {
    Err(Error("the budget needs samples that only Linux takes: run it there".to_owned()))
}

impl Look {
    /// Samples of time.
    pub fn samples(&self) -> u64 {
        match self.0 {}
    }

    /// The figures.
    ///
    /// # Errors
    /// There are none.
    pub fn seen(self) -> Result<Seen, Error> {
        match self.0 {}
    }
}
