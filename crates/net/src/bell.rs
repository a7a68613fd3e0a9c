//! How a thread sleeps and is woken: a doorbell, or, where devices have descriptors, a poll(2) that
//! the same doorbell interrupts through an eventfd.
//!
//! Called by: `wait.rs` for callers, `driver.rs` for the driver's thread.

use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Instant;

use device::Doorbell;

/// Polling interval of a device that cannot wake (see `Device::arm`).
pub const LOOK_INTERVAL: core::time::Duration = core::time::Duration::from_millis(1);

#[cfg(target_os = "linux")]
pub(crate) use crate::descriptors::Descriptor;

/// On other systems devices with descriptors are polled at an interval.
#[cfg(not(target_os = "linux"))]
#[derive(Clone)]
pub(crate) enum Descriptor {}

/// A doorbell that a thread sleeps on, and the waker that rings it.
pub(crate) struct ThreadBell {
    bell: Doorbell,
    waker: Waker,
    #[cfg(target_os = "linux")]
    alarm: core::cell::OnceCell<Option<alarm::Alarm>>,
}

struct Ring(Doorbell);

impl Wake for Ring {
    fn wake(self: Arc<Ring>) {
        self.0.ring();
    }

    fn wake_by_ref(self: &Arc<Ring>) {
        self.0.ring();
    }
}

impl ThreadBell {
    pub(crate) fn new() -> ThreadBell {
        let bell = Doorbell::new();
        let waker = Waker::from(Arc::new(Ring(bell.clone())));
        ThreadBell {
            bell,
            waker,
            #[cfg(target_os = "linux")]
            alarm: core::cell::OnceCell::new(),
        }
    }

    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    pub(crate) fn arm(&self) {
        self.bell.arm();
    }

    pub(crate) fn disarm(&self) {
        self.bell.disarm();
    }

    /// Sleep until a ring since [`ThreadBell::arm`], until `at` is readable or until `until`,
    /// whichever is first; `None` is no time limit.
    pub(crate) fn sleep(&self, until: Option<Instant>, at: Option<&Descriptor>) {
        let timeout = until.map(|until| until.saturating_duration_since(Instant::now()));
        let Some(at) = at else { return self.bell.sleep(timeout) };
        #[cfg(not(target_os = "linux"))]
        match *at {}
        #[cfg(target_os = "linux")]
        match self.alarm.get_or_init(alarm::Alarm::new) {
            Some(alarm) => {
                if self.bell.hand_over(alarm.waker()) {
                    alarm.sleep(at, timeout);
                }
                self.bell.disarm();
            }
            // The system has no descriptor left for an eventfd: poll at an interval.
            None => {
                let interval = LOOK_INTERVAL;
                self.bell.sleep(Some(timeout.map_or(interval, |t| t.min(interval))));
            }
        }
    }
}

#[cfg(target_os = "linux")]
mod alarm {
    //! An eventfd: a ring writes to it, which ends the poll(2).

    use core::time::Duration;
    use std::os::fd::OwnedFd;
    use std::sync::Arc;
    use std::task::{Wake, Waker};

    use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

    use super::Descriptor;

    pub(super) struct Alarm {
        counter: Arc<Counter>,
        waker: Waker,
    }

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

    impl Alarm {
        /// `None` if the system has no descriptor left.
        pub(super) fn new() -> Option<Alarm> {
            let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
            let counter = Arc::new(Counter(fd));
            Some(Alarm { waker: Waker::from(counter.clone()), counter })
        }

        pub(super) fn waker(&self) -> &Waker {
            &self.waker
        }

        /// Sleep until a ring, until `at` is readable or until `timeout` has passed. A signal may
        /// end it earlier.
        pub(super) fn sleep(&self, at: &Descriptor, timeout: Option<Duration>) {
            let timeout = timeout.and_then(|t| Timespec::try_from(t).ok());
            let mut fds =
                [PollFd::new(&self.counter.0, PollFlags::IN), PollFd::new(at, PollFlags::IN)];
            let polled = poll(&mut fds, timeout.as_ref());
            if polled.is_ok() && !fds[0].revents().is_empty() {
                let _ = rustix::io::read(&self.counter.0, &mut [0; 8]);
            }
        }
    }
}
