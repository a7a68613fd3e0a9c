//! What the sockets of a stack share: the stack itself, and the clock of its calls.
//!
//! Called by: `stack.rs`, which makes it; sockets.

use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::prelude::*;
use wirespeed::net::Net;

use crate::error;
use crate::world::World;

/// How many forks are between this process and the one that imported the package.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Called in the child after a fork.
#[pyfunction]
pub(crate) fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// The clock of the calls that wait.
pub(crate) enum Time {
    /// The system's clock; a thread drives the stack.
    Real,
    /// The clock of a world, which waiting calls advance.
    Virtual(Py<World>),
}

/// A stack with sockets.
pub(crate) struct Shared {
    /// `None` only while it is dropped.
    net: Option<Net>,
    pub(crate) time: Time,
    forks: u32,
}

impl Shared {
    pub(crate) fn new(net: Net, time: Time) -> Shared {
        Shared { net: Some(net), time, forks: FORKS.load(Ordering::Relaxed) }
    }

    /// Does the stack belong to a parent of this process? The thread that drives it is there, and
    /// may have held its lock at the fork, so that nobody here must touch it.
    pub(crate) fn is_of_parent(&self) -> bool {
        matches!(self.time, Time::Real) && self.forks != FORKS.load(Ordering::Relaxed)
    }

    /// The stack.
    ///
    /// # Errors
    /// It belongs to a parent of this process.
    pub(crate) fn net(&self) -> PyResult<&Net> {
        let net = self.net.as_ref().filter(|_| !self.is_of_parent());
        net.ok_or_else(error::of_parent)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.is_of_parent() {
            core::mem::forget(self.net.take());
        }
    }
}
