//! The tests of devices that need no root, in one program, so that they are linked once.

#![cfg(not(loom))]

#[cfg(feature = "capture")]
mod capture;
mod channel;
mod gather;
mod mem;
#[path = "nic/main.rs"]
mod nic;
#[cfg(target_os = "linux")]
mod vm;
mod wrappers;
