//! Memory of slabs. On Linux large slabs are mapped from the system directly, so that they are the
//! system's again once they are freed: an allocator keeps what it gets back for its own next
//! requests (glibc kept all of 45 MB), for the whole life of a program.
//!
//! Called by: `store.rs` and `reclaim.rs`, with the same layout for both calls.
#![allow(unsafe_code)]

use core::ptr::NonNull;
use std::alloc::{Layout, alloc_zeroed, dealloc};

/// Layouts of at least this many bytes are mapped. Tools that look at each allocation see them all,
/// because they use no slabs (`wirespeed_unpooled`).
const MAPPED_MIN: usize = 128 << 10;

#[cfg(target_os = "linux")]
fn is_mapped(layout: Layout) -> bool {
    layout.size() >= MAPPED_MIN && !cfg!(any(miri, loom, wirespeed_unpooled))
}

/// Zeroed memory of this layout, whose size is not zero; `None` if the system has none.
pub(crate) fn take(layout: Layout) -> Option<NonNull<u8>> {
    #[cfg(target_os = "linux")]
    if is_mapped(layout) {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the system chooses overlaps nothing. Pages are
        // aligned to more than the line that a slab asks for.
        let mapped = unsafe {
            mmap_anonymous(core::ptr::null_mut(), layout.size(), rights, MapFlags::PRIVATE)
        };
        return NonNull::new(mapped.ok()?.cast());
    }
    // SAFETY: the layout does not have zero size, by contract.
    NonNull::new(unsafe { alloc_zeroed(layout) })
}

/// Give memory back.
///
/// # Safety
/// `start` is from [`take`] with the same layout, and nothing points into it any more.
pub(crate) unsafe fn give_back(start: NonNull<u8>, layout: Layout) {
    #[cfg(target_os = "linux")]
    if is_mapped(layout) {
        // SAFETY: by contract it is a whole mapping of this size that nobody uses.
        let unmapped = unsafe { rustix::mm::munmap(start.as_ptr().cast(), layout.size()) };
        debug_assert!(unmapped.is_ok(), "a whole mapping can be removed");
        return;
    }
    // SAFETY: by contract it was allocated with this layout.
    unsafe { dealloc(start.as_ptr(), layout) }
}
