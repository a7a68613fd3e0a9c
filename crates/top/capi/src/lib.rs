//! The C interface. It has one part: [`packetdrill`], the shared object that google's packetdrill
//! loads to run its scripts against this stack instead of the kernel's.
//!
//! Called by: programs written in C, through symbols with C linkage. It calls `stack` directly,
//! because virtual time needs no driver thread.

#[cfg(target_os = "linux")]
pub mod packetdrill;
