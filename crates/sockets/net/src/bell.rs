//! How a thread sleeps and is woken. Without descriptors of devices it sleeps on a doorbell. With
//! descriptors it sleeps in poll(2), which the same doorbell interrupts through an
//! [`device::Alarm`].
//!
//! Called by: `wait.rs` for threads in blocking calls, `driver.rs` for the driver's thread.

use core::time::Duration;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Instant;

#[cfg(target_os = "linux")]
use device::Alarm;
use device::Doorbell;
#[cfg(target_os = "linux")]
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How often a device is polled that cannot wake a sleeper (see `Device::arm`).
pub const LOOK_INTERVAL: Duration = Duration::from_millis(1);

#[cfg(target_os = "linux")]
pub(crate) use crate::descriptors::Descriptor;

/// On systems other than Linux no descriptor is waited on: devices that have one are polled at
/// [`LOOK_INTERVAL`].
#[cfg(not(target_os = "linux"))]
#[derive(Clone)]
pub(crate) enum Descriptor {}

/// A doorbell that a thread sleeps on, and the waker that rings it.
pub(crate) struct ThreadBell {
    bell: Doorbell,
    waker: Waker,
    #[cfg(target_os = "linux")]
    alarm: core::cell::OnceCell<Option<Alarm>>,
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

    /// Sleep until the first of three: a ring since [`ThreadBell::arm`], `at` becomes readable,
    /// `until` has come. With `until` `None` there is no time limit.
    pub(crate) fn sleep(&self, until: Option<Instant>, at: Option<&Descriptor>) {
        let timeout = until.map(|until| until.saturating_duration_since(Instant::now()));
        let Some(at) = at else { return self.bell.sleep(timeout) };
        #[cfg(not(target_os = "linux"))]
        match *at {}
        #[cfg(target_os = "linux")]
        match self.alarm.get_or_init(|| Alarm::new().ok()) {
            Some(alarm) => {
                if self.bell.hand_over(alarm.waker()) {
                    sleep_at(alarm, at, timeout);
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

/// Sleep until a ring, until `at` is readable or until `timeout` has passed. A signal may end the
/// sleep earlier.
#[cfg(target_os = "linux")]
fn sleep_at(alarm: &Alarm, at: &Descriptor, timeout: Option<Duration>) {
    let timeout = timeout.and_then(|t| Timespec::try_from(t).ok());
    let mut fds = [PollFd::new(alarm, PollFlags::IN), PollFd::new(at, PollFlags::IN)];
    let polled = poll(&mut fds, timeout.as_ref());
    if polled.is_ok() && !fds[0].revents().is_empty() {
        alarm.silence();
    }
}
