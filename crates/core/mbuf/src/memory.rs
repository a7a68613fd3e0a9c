//! Memory that a device provides for buffers.
//!
//! Called by: `frames`, which lays out buffers in it; `store`, which keeps it. Devices implement
//! it.
#![allow(unsafe_code)]

use core::ptr::NonNull;

/// Memory for buffers: `bytes` bytes from `start` on, aligned to a cache line.
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
