//! The native half of the Python package `wirespeed`: stacks, sockets, a bad link between two
//! stacks, and virtual time. The package's Python files add what is easier there: `makefile`,
//! asyncio transports, units.
//!
//! Called by: `python/wirespeed`, which is typed by `_native.pyi`. No call holds the interpreter's
//! lock while it may wait, and no code here takes that lock while it holds one of its own.

mod address;
mod buffer;
mod error;
mod open;
mod options;
mod pair;
mod poller;
mod shared;
mod socket;
mod stack;
mod state;
mod transfer;
mod turns;
mod wait;
mod world;

use pyo3::prelude::*;

/// Stacks, sockets and virtual time.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::error::Deadlock;
    #[pymodule_export]
    use super::pair::{Path, pair};
    #[pymodule_export]
    use super::poller::Poller;
    #[pymodule_export]
    use super::shared::forked;
    #[pymodule_export]
    use super::socket::{Connection, Socket};
    #[pymodule_export]
    use super::stack::Stack;
    #[pymodule_export]
    use super::world::World;
}
