//! On other systems than Linux nothing samples threads for us, and a look says so.
//!
//! Called by: tools that look at a program.

use std::convert::Infallible;
use std::time::Duration;

use crate::{Error, Seen};

/// There is no look here.
#[derive(Debug)]
pub struct Look(Infallible);

/// Only Linux samples threads for us.
///
/// # Errors
/// Always; the text says what helps.
pub fn look(
    _process: u32,
    _threads: Option<&[i32]>,
    _begun: impl FnOnce(),
    _stop: &dyn Fn(Duration) -> bool,
) -> Result<Look, Error> {
    Err(Error("the budget is sampled by Linux: run it there".to_owned()))
}

impl Look {
    /// Samples of time.
    pub fn samples(&self) -> u64 {
        match self.0 {}
    }

    /// The figures.
    ///
    /// # Errors
    /// None.
    pub fn seen(self) -> Result<Seen, Error> {
        match self.0 {}
    }
}
