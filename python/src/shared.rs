//! What the sockets of a stack share: the stack itself, and the clock of its calls.
//!
//! Called by: `stack.rs`, which makes it; sockets.

use pyo3::prelude::*;
use wirespeed::net::Net;

use crate::world::World;

/// The clock of the calls that wait.
pub(crate) enum Time {
    /// The system's clock; a thread drives the stack.
    Real,
    /// The clock of a world, which waiting calls advance.
    Virtual(Py<World>),
}

/// A stack with sockets.
pub(crate) struct Shared {
    pub(crate) net: Net,
    pub(crate) time: Time,
}
