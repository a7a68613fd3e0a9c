//! Memory with machine code: written first, then readable and executable, never both at once.
//!
//! Called by: `jit`. Given back when it is dropped.

use core::ffi::c_void;
use core::ptr;

use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// A mapping of its own. It begins with the code and cannot be written any more.
#[derive(Debug)]
pub(super) struct Page {
    start: *mut c_void,
    len: usize,
}

// SAFETY: no code writes to the mapping after `new`, and it belongs to no thread.
unsafe impl Send for Page {}
// SAFETY: as above; shared, it is only read and executed.
unsafe impl Sync for Page {}

impl Page {
    /// A mapping that holds `code`.
    pub(super) fn new(code: &[u8]) -> Result<Page, Errno> {
        let len = code.len().max(1);
        let (flags, writable) = (MapFlags::PRIVATE, ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: the system chooses a place where nothing is; nothing else is touched.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), len, writable, flags)? };
        let page = Page { start, len };
        // SAFETY: the mapping is new, writable, at least as long as the code, and ours alone.
        unsafe { ptr::copy_nonoverlapping(code.as_ptr(), page.start.cast::<u8>(), code.len()) };
        // SAFETY: the mapping is ours, and no reference points into it.
        unsafe { mprotect(page.start, page.len, MprotectFlags::READ | MprotectFlags::EXEC)? };
        Ok(page)
    }

    /// Where the code begins.
    #[inline]
    pub(super) fn start(&self) -> *const u8 {
        self.start.cast::<u8>().cast_const()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and who could run it has borrowed `self`. It cannot fail
        // for a mapping that is there; if it did, the memory would stay and do no harm.
        let _ = unsafe { munmap(self.start, self.len) };
    }
}
