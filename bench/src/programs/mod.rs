//! The rows of bench `programs`: the stack as programs in other languages and of other libraries
//! use it. Called by `main.rs`. Each row has a file.

mod c;
mod smoltcp;

use crate::harness::Better::Higher;
use crate::harness::{Spec, spec};

/// The table.
pub const ROWS: &[Spec] = &[
    spec(
        "bulk over memory from C through the library / from Rust, Gb per CPU-second",
        Higher,
        0.9,
        0.98,
        "x",
        c::bulk,
    ),
    spec(
        "the program built on smoltcp: ours / smoltcp, Gb per CPU-second",
        Higher,
        1.5,
        2.2,
        "x",
        smoltcp::forwarder,
    ),
];
