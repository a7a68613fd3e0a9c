//! Benchmarks of wirespeed against smoltcp, gVisor's netstack and the kernel, side by side in one
//! run.
//!
//! The modules `core`, `outside`, `tcp`, `proof`, `devices`, `ip`, `router`, `filter`, `gateway`,
//! `frr`, `rpc`, `lab`, `programs`, `build` and `strangers` (bench `peers`) contain the rows of
//! these benches. `ours` measures our side of the rows of `core`, and `peers` the other sides.
//! `harness` measures a row and `report` prints it. The stack does not depend on this crate. `cargo
//! xtask bench NAME` runs it.

pub mod build;
pub mod command_line;
pub mod core;
pub mod delay;
pub mod devices;
pub mod drive;
pub mod filter;
pub mod forwarded;
pub mod frr;
pub mod gateway;
pub mod harness;
pub mod hot;
pub mod ip;
pub mod isolate;
pub mod lab;
pub mod learned;
pub mod measure;
pub mod memory;
pub mod namespace;
pub mod ours;
pub mod outside;
pub mod outstanding;
pub mod peers;
pub mod programs;
pub mod proof;
pub mod readme;
pub mod recorded;
pub mod report;
pub mod router;
pub mod rpc;
pub mod strangers;
pub mod tcp;

#[cfg(test)]
mod tests;
