//! The one unsafe call of this crate: a network namespace for the calling thread.
//! Called by `namespace.rs`. rustix marks `unshare` unsafe because of flags not used here.
#![allow(unsafe_code)]

use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Moves the calling thread into a network namespace of its own. It ends with the last
/// thread and descriptor in it.
pub fn unshare_network() -> rustix::io::Result<()> {
    // SAFETY: what `unshare_unsafe` asks of its caller concerns CLONE_FILES, which would part
    // this thread's descriptors from the process's. CLONE_NEWNET changes only which network
    // the sockets this thread opens later belong to.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }
}
