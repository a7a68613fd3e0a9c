//! Wakes the router's thread, which waits at descriptors, when a driver's thread has news for it.
//!
//! Called by: `engine.rs`; rung by the drivers of its stacks.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::{Wake, Waker};

use anyhow::{Context, Result};
use rustix::event::{EventfdFlags, eventfd};

/// A counter that is readable once it was rung.
#[derive(Clone)]
pub(super) struct Bell(Arc<Counter>);

struct Counter(OwnedFd);

impl Wake for Counter {
    fn wake(self: Arc<Counter>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Counter>) {
        // The write fails only if the counter is full; then it is readable as well.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

impl Bell {
    pub(super) fn new() -> Result<Bell> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        Ok(Bell(Arc::new(Counter(fd.context("cannot make an event descriptor")?))))
    }

    /// Rings it.
    pub(super) fn waker(&self) -> Waker {
        Waker::from(self.0.clone())
    }

    /// For poll(2): readable once it was rung.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.0.as_fd()
    }

    /// It was heard.
    pub(super) fn silence(&self) {
        // Nobody rang: there is nothing to read.
        let _ = rustix::io::read(&self.0.0, &mut [0; 8]);
    }
}
