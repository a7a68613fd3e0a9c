//! Memory for machine code: first writable, then executable, never both at once.
//!
//! Called by: `jit`. It is unmapped on drop.

use core::ffi::c_void;
use core::ptr;

use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// A mapping that begins with the code and is no longer writable.
#[derive(Debug)]
pub(super) struct Page {
    start: *mut c_void,
    len: usize,
}

// SAFETY: nothing writes to the mapping after `new`, and it is not bound to a thread.
unsafe impl Send for Page {}
// SAFETY: as above; shared, it is only read and executed.
unsafe impl Sync for Page {}

impl Page {
    /// Make a mapping that holds `code`.
    pub(super) fn new(code: &[u8]) -> Result<Page, Errno> {
        let len = code.len().max(1);
        let (flags, writable) = (MapFlags::PRIVATE, ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: the system chooses a free place; no other mapping is touched.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), len, writable, flags)? };
        let page = Page { start, len };
        // SAFETY: the mapping is new, writable, at least as long as the code, and ours alone.
        unsafe { ptr::copy_nonoverlapping(code.as_ptr(), page.start.cast::<u8>(), code.len()) };
        // SAFETY: the mapping is ours, and no reference points into it.
        unsafe { mprotect(page.start, page.len, MprotectFlags::READ | MprotectFlags::EXEC)? };
        Ok(page)
    }

    /// The address of the code.
    #[inline]
    pub(super) fn start(&self) -> *const u8 {
        self.start.cast::<u8>().cast_const()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and code that runs it borrows `self`. This cannot fail for
        // an existing mapping; if it did, the memory would only leak.
        let _ = unsafe { munmap(self.start, self.len) };
    }
}
