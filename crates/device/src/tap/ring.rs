//! Several writes by one system call: io_uring as a list of calls, and nothing else of it.
//!
//! Called by: `tap/transmit.rs`. A frame written by a call of its own lets the kernel run its
//! receiver before the next one is there: with super-segments that was two changes of thread a
//! frame. A burst by one call is one: 1.07 to 1.09 of the bulk throughput
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

/// What each write returned.
pub(super) type Results = ArrayVec<Result<usize, Errno>, BURST>;

impl Ring {
    /// `None` where the kernel has none, or lets us have none (`kernel.io_uring_disabled`,
    /// seccomp): then there are plain writes.
    pub(super) fn new() -> Option<Ring> {
        let ring = IoUring::new(BURST as u32).ok()?;
        Some(Ring { ring, broken: false })
    }

    /// The kernel takes no more calls: a filter of system calls that came later, for one. What is
    /// in the queue goes when this is dropped.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Begin all `writes` in order and wait until they have ended; the descriptor does not block.
    /// What was not begun has `AGAIN`.
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
            // does not return before each entry that the kernel took in has completed. What it
            // took not is never submitted: the ring is broken then, and its owner drops it.
            if unsafe { self.ring.submission().push(&entry) }.is_err() {
                break;
            }
        }
        self.complete(&mut results);
        results
    }

    /// Submit what is queued and wait for all of it.
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
                // What the kernel took in reads our memory, and ends by itself; what it did not
                // goes with the ring.
                if self.ring.submission().len() == open {
                    self.broken = true;
                    return;
                }
                std::thread::yield_now();
            }
        }
    }
}
