//! The timer of a driver that runs as a future: the runtime's timer, or a thread of this crate.
//!
//! Called by: `DriverFuture`. When the deadline becomes later, the timer keeps the earlier time,
//! and the driver is woken once too early. That is cheaper than setting the timer again for each
//! segment.

use core::task::{Context, Poll, Waker};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

/// One timer, whose time can be set again.
pub trait Timer: Send + Unpin + 'static {
    /// `Ready` if the time `at` has come. Otherwise the task is woken at that time or earlier, and
    /// polls again.
    fn poll_at(&mut self, at: Instant, cx: &mut Context<'_>) -> Poll<()>;

    /// `Some(Ready)`: `descriptor` may be readable, so use it and then poll again. `Some(Pending)`:
    /// the task will be woken when it is readable. `None`, the default: this timer does not support
    /// descriptors, and devices that have one are polled every [`crate::LOOK_INTERVAL`]. All calls
    /// pass the same descriptor.
    #[cfg(target_os = "linux")]
    fn poll_descriptor(
        &mut self,
        descriptor: Arc<std::os::fd::OwnedFd>,
        cx: &mut Context<'_>,
    ) -> Option<Poll<()>> {
        let _ = (descriptor, cx);
        None
    }
}

/// tokio's timer, and its reactor for devices with descriptors. Polling this timer in a runtime
/// without them panics, as tokio documents.
#[cfg(feature = "tokio")]
#[derive(Default)]
pub struct TokioTimer {
    sleep: Option<core::pin::Pin<Box<tokio::time::Sleep>>>,
    /// The waker that `sleep` wakes.
    waker: Option<Waker>,
    #[cfg(target_os = "linux")]
    descriptor: Option<tokio::io::unix::AsyncFd<Arc<std::os::fd::OwnedFd>>>,
}

#[cfg(feature = "tokio")]
impl Timer for TokioTimer {
    fn poll_at(&mut self, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let at = tokio::time::Instant::from_std(at);
        // A busy driver polls often, and mostly with the same deadline as before.
        if let (Some(sleep), Some(waker)) = (&self.sleep, &self.waker)
            && sleep.deadline() <= at
            && !sleep.is_elapsed()
            && waker.will_wake(cx.waker())
        {
            return Poll::Pending;
        }
        self.waker = Some(cx.waker().clone());
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
        // A deadline in the past is reset as well, because an expired timer does not fire again.
        if sleep.deadline() > at || sleep.is_elapsed() {
            sleep.as_mut().reset(at);
        }
        match sleep.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) if tokio::time::Instant::now() >= at => Poll::Ready(()),
            Poll::Ready(()) => {
                sleep.as_mut().reset(at);
                sleep.as_mut().poll(cx)
            }
        }
    }

    #[cfg(target_os = "linux")]
    fn poll_descriptor(
        &mut self,
        descriptor: Arc<std::os::fd::OwnedFd>,
        cx: &mut Context<'_>,
    ) -> Option<Poll<()>> {
        use tokio::io::{Interest, unix::AsyncFd};
        if self.descriptor.is_none() {
            // Deprecated, because a type may return a different or a closed descriptor each time.
            // An owned descriptor does neither, and the replacement is an unsafe function.
            #[allow(deprecated, reason = "an owned descriptor stays the same")]
            let registered = AsyncFd::with_interest(descriptor, Interest::READABLE);
            self.descriptor = registered.ok();
        }
        Some(match self.descriptor.as_ref()?.poll_read_ready(cx) {
            Poll::Pending => Poll::Pending,
            // The stack is polled after this, and epoll reports later events again.
            Poll::Ready(Ok(mut ready)) => {
                ready.clear_ready();
                Poll::Ready(())
            }
            // The runtime is shutting down.
            Poll::Ready(Err(_)) => Poll::Pending,
        })
    }
}

/// A thread that keeps the time of one driver, for runtimes whose timer this crate does not know.
pub struct ThreadTimer {
    shared: Arc<Alarm>,
}

struct Alarm {
    set: Mutex<Set>,
    changed: Condvar,
}

#[derive(Default)]
struct Set {
    at: Option<(Instant, Waker)>,
    ended: bool,
}

impl ThreadTimer {
    /// Start the thread.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn new() -> std::io::Result<ThreadTimer> {
        let alarm = Alarm { set: Mutex::new(Set::default()), changed: Condvar::new() };
        let shared = Arc::new(alarm);
        let thread = shared.clone();
        std::thread::Builder::new()
            .name("wirespeed-timer".to_owned())
            .spawn(move || thread.run())?;
        Ok(ThreadTimer { shared })
    }
}

impl Alarm {
    fn run(&self) {
        let mut set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        while !set.ended {
            let now = Instant::now();
            match &set.at {
                None => {
                    set = self.changed.wait(set).unwrap_or_else(PoisonError::into_inner);
                }
                Some((at, _)) if *at > now => {
                    let wait = *at - now;
                    let waited = self.changed.wait_timeout(set, wait);
                    set = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                Some(_) => {
                    let rung = set.at.take();
                    drop(set);
                    if let Some((_, waker)) = rung {
                        waker.wake();
                    }
                    set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

impl Timer for ThreadTimer {
    fn poll_at(&mut self, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        if at <= Instant::now() {
            return Poll::Ready(());
        }
        let mut set = self.shared.set.lock().unwrap_or_else(PoisonError::into_inner);
        let later = set.at.as_ref().is_none_or(|(old, _)| *old > at);
        let known = set.at.as_ref().is_some_and(|(_, waker)| waker.will_wake(cx.waker()));
        if later || !known {
            let earliest = set.at.as_ref().map_or(at, |(old, _)| at.min(*old));
            let old = set.at.replace((earliest, cx.waker().clone()));
            drop(set);
            drop(old);
            if later {
                self.shared.changed.notify_one();
            }
        }
        Poll::Pending
    }
}

impl Drop for ThreadTimer {
    fn drop(&mut self) {
        self.shared.set.lock().unwrap_or_else(PoisonError::into_inner).ended = true;
        self.shared.changed.notify_one();
    }
}
