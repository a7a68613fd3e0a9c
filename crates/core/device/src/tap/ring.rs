//! Makes several writes by one system call. io_uring is used only as a list of calls.
//!
//! Called by: `tap/transmit.rs`. After a write of one frame the kernel may run the receiver before
//! the next frame is written: there are 1.55 context switches for each super-segment. With one call
//! per burst the bulk throughput per CPU-second is 1.07 to 1.09 times as high
//! (docs/decisions/0023-io-uring-for-writes.md).
#![allow(unsafe_code)]

use std::io::IoSlice;
use std::os::fd::{AsRawFd, BorrowedFd};

use arrayvec::ArrayVec;
use io_uring::{IoUring, opcode, types};
use rustix::io::Errno;

use crate::BURST;

/// A queue of system calls, empty between two calls of [`Ring::write`].
pub(super) struct Ring {
    ring: IoUring,
    broken: bool,
}

/// The result of each write.
pub(super) type Results = ArrayVec<Result<usize, Errno>, BURST>;

impl Ring {
    /// Makes a ring. `None` if the kernel has no io_uring or forbids it
    /// (`kernel.io_uring_disabled`, seccomp); then frames are sent by plain writes.
    pub(super) fn new() -> Option<Ring> {
        let ring = IoUring::new(BURST as u32).ok()?;
        Some(Ring { ring, broken: false })
    }

    /// Does the kernel take no more submissions, for example because of a later seccomp filter?
    /// Queued writes are discarded when the ring is dropped.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Submit all `writes` in order and wait until they complete; the descriptor is non-blocking.
    /// The result of a write that was not submitted is `AGAIN`.
    pub(super) fn write(
        &mut self,
        fd: BorrowedFd<'_>,
        writes: &ArrayVec<[IoSlice<'_>; 2], BURST>,
    ) -> Results {
        let mut results: Results = writes.iter().map(|_| Err(Errno::AGAIN)).collect();
        for (number, parts) in writes.iter().enumerate() {
            // An IoSlice is a `struct iovec`, by its contract.
            let parts: *const libc::iovec = parts.as_ptr().cast();
            let entry = opcode::Writev::new(types::Fd(fd.as_raw_fd()), parts, 2)
                .build()
                .user_data(number as u64);
            // SAFETY: the descriptor, the slices and what they point at outlive this call, which
            // does not return before each entry that the kernel took has completed. An entry that
            // it did not take is never submitted: the ring is broken then, and its owner drops it.
            if unsafe { self.ring.submission().push(&entry) }.is_err() {
                break;
            }
        }
        self.complete(&mut results);
        results
    }

    /// Submit the queued writes and wait for all of them.
    fn complete(&mut self, results: &mut Results) {
        let mut open = self.ring.submission().len();
        while open > 0 {
            let submitted = self.ring.submit_and_wait(open);
            for done in self.ring.completion() {
                open -= 1;
                if let Some(result) = results.get_mut(done.user_data() as usize) {
                    *result = usize::try_from(done.result())
                        .map_err(|_| Errno::from_raw_os_error(-done.result()));
                }
            }
            if let Err(error) = submitted
                && error.kind() != std::io::ErrorKind::Interrupted
            {
                // Entries that the kernel has taken read our memory, so wait for them. If all open
                // entries are still in the queue, give up; they are dropped together with the ring.
                if self.ring.submission().len() == open {
                    self.broken = true;
                    return;
                }
                std::thread::yield_now();
            }
        }
    }
}
