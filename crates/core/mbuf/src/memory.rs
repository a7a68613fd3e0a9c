//! Memory that a device provides for buffers.
//!
//! Called by: devices implement it, `frames` lays buffers into it, `store` keeps it.
#![allow(unsafe_code)]

use core::ptr::NonNull;

/// Memory for buffers: `bytes` from `start` on, aligned to a cache line.
///
/// # Safety
/// Until it is dropped, the memory stays valid at the same address and length, and nothing else in
/// this program accesses it.
pub unsafe trait Memory: Send + 'static {
    /// Its address.
    fn start(&self) -> NonNull<u8>;
    /// Its length in bytes.
    fn bytes(&self) -> usize;
}
