//! Memory that a device brings for buffers.
//!
//! Called by: devices implement it, `frames` lays buffers into it, `store` keeps it.
#![allow(unsafe_code)]

use core::ptr::NonNull;

/// Memory for buffers: from `start` on, aligned to a cache line, and so many bytes.
///
/// # Safety
/// It is there, stays where it is and as long, and nobody else in this program touches it, until it
/// is dropped.
pub unsafe trait Memory: Send + 'static {
    /// Where it begins.
    fn start(&self) -> NonNull<u8>;
    /// Its length.
    fn bytes(&self) -> usize;
}
