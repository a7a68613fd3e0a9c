//! Wakes a thread that waits at descriptors, in poll(2) or by epoll: an eventfd that becomes
//! readable when it is rung. A thread that waits at no descriptor sleeps on a [`crate::Doorbell`].
//!
//! Called by: drivers, real-time bridges, and programs with a loop of their own. Linux only.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::{Wake, Waker};

use rustix::event::{EventfdFlags, eventfd};

/// An alarm, and the waker that rings it.
pub struct Alarm {
    counter: Arc<Counter>,
    waker: Waker,
}

struct Counter(OwnedFd);

impl Wake for Counter {
    fn wake(self: Arc<Counter>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Counter>) {
        // The write fails only if the counter is full, and then the eventfd is readable too.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

impl Alarm {
    /// A new alarm, not rung yet.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new() -> io::Result<Alarm> {
        let counter = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let counter = Arc::new(Counter(counter));
        Ok(Alarm { waker: Waker::from(counter.clone()), counter })
    }

    /// The waker that rings this alarm, from any thread.
    pub fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Reset the alarm: it is not readable until it is rung again.
    pub fn silence(&self) {
        // The read fails if nobody has rung; then there is nothing to reset.
        let _ = rustix::io::read(&self.counter.0, &mut [0; 8]);
    }
}

impl AsFd for Alarm {
    /// Readable once it was rung.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.counter.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn is_rung(alarm: &Alarm) -> bool {
        let mut asked = [PollFd::new(alarm, PollFlags::IN)];
        poll(&mut asked, Some(&Timespec::default())).expect("a descriptor can be looked at") > 0
    }

    #[test]
    fn it_is_readable_from_a_ring_until_it_was_heard() {
        let alarm = Alarm::new().expect("the system has descriptors");
        alarm.silence();
        assert!(!is_rung(&alarm));
        let waker = alarm.waker().clone();
        std::thread::spawn(move || (waker.wake_by_ref(), waker.wake())).join().expect("it rings");
        assert!(is_rung(&alarm) && is_rung(&alarm));
        alarm.silence();
        assert!(!is_rung(&alarm));
    }
}
