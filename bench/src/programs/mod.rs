//! The rows of bench `programs`: the stack as programs in other languages and of other libraries
//! use it. Called by `main.rs`. Each row has a file.

mod c;
mod python;
mod smoltcp;
mod virtual_time;

use crate::harness::Spec;

/// The table.
pub const ROWS: &[Spec] = &[c::ROW, python::ROW, smoltcp::ROW, virtual_time::ROW];
