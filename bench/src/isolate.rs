//! The one unsafe call of this crate: a network namespace for the calling thread.
//! Called by `namespace.rs`. rustix marks `unshare` unsafe because of flags not used here.
#![allow(unsafe_code)]

use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Moves the calling thread into a new network namespace. The namespace lasts until no thread is in
/// it and no descriptor refers to it.
pub fn unshare_network() -> rustix::io::Result<()> {
    // SAFETY: the condition of `unshare_unsafe` concerns CLONE_FILES, which would separate this
    // thread's descriptors from the process's. CLONE_NEWNET changes only the network of the sockets
    // that this thread opens later.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }
}
