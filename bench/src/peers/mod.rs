//! The peers: each module moves bytes in its own best way and returns a measurement. Called by
//! `core.rs` for the rows and by `wirespeed-bench peer NAME CASE` for debugging. They know neither
//! our stack nor the rows.

pub mod gvisor;
pub mod kernel;
pub mod latency;
pub mod smoltcp;
pub mod veth;
