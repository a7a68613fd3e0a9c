//! Two ways to wait: a future that cleans up when it is dropped, and a thread that drives the stack
//! while it waits.
//!
//! Called by: all calls that may have to wait. To wait, a call tries once, enters the wait queue,
//! and tries again after the wake-up.

use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::{Context, Poll};
use std::io;
use std::time::Instant as SystemTime;

use base::Instant;

use crate::bell::LOOK_INTERVAL;
use crate::bell::ThreadBell;
use crate::driver_state::Watch;
use crate::inner::{Inner, Shared};
use crate::waiting::Readiness;

thread_local! {
    static BELL: ThreadBell = ThreadBell::new();
}

/// Block until `look` is ready; `Ok(None)` if `until` comes first.
pub(crate) fn block_on<T>(
    shared: &Shared,
    readiness: Readiness,
    until: Option<SystemTime>,
    mut look: impl FnMut(&mut Inner) -> Poll<io::Result<T>>,
) -> io::Result<Option<T>> {
    // Fast path: `look` is ready at once, and no wait queue is touched.
    if let Poll::Ready(answer) = look(&mut *shared.call_at(readiness)?) {
        return answer.map(Some);
    }
    BELL.with(|bell| {
        let mut waiter = Waiter { shared, readiness, bell, id: None, drives: false };
        loop {
            if let Some(answer) = waiter.round(until, &mut look)? {
                return answer.map(Some);
            }
            if until.is_some_and(|at| at <= SystemTime::now()) {
                return Ok(None);
            }
        }
    })
}

/// Block until `future` is ready; `Ok(None)` if `until` comes first. The thread does not drive the
/// stack.
pub(crate) fn block_on_future<T>(
    until: Option<SystemTime>,
    future: impl Future<Output = io::Result<T>>,
) -> io::Result<Option<T>> {
    let mut future = pin!(future);
    BELL.with(|bell| {
        loop {
            bell.arm();
            if let Poll::Ready(answer) =
                future.as_mut().poll(&mut Context::from_waker(bell.waker()))
            {
                bell.disarm();
                return answer.map(Some);
            }
            if until.is_some_and(|at| at <= SystemTime::now()) {
                bell.disarm();
                return Ok(None);
            }
            bell.sleep(until, None);
        }
    })
}

/// A future that waits until one of several waits is ready. It polls them in order, beginning with
/// number `from`.
pub(crate) async fn wait_for_any<T, F>(mut waits: Vec<Wait<'_, F>>, from: usize) -> io::Result<T>
where
    F: FnMut(&mut Inner) -> Poll<io::Result<T>> + Unpin,
{
    let count = waits.len();
    poll_fn(|cx| {
        for number in 0..count {
            let polled = Pin::new(&mut waits[(from + number) % count]).poll(cx);
            if polled.is_ready() {
                return polled;
            }
        }
        Poll::Pending
    })
    .await
}

/// A thread that waits. Dropping this removes the thread's wakers and gives the devices back to the
/// driver.
struct Waiter<'a> {
    shared: &'a Shared,
    readiness: Readiness,
    bell: &'a ThreadBell,
    id: Option<u64>,
    drives: bool,
}

impl Waiter<'_> {
    /// Call `look` once; if it is pending, sleep.
    fn round<T>(
        &mut self,
        until: Option<SystemTime>,
        look: &mut impl FnMut(&mut Inner) -> Poll<io::Result<T>>,
    ) -> io::Result<Option<io::Result<T>>> {
        self.bell.arm();
        let (mut sleep_until, mut at) = (until, None);
        {
            let mut call = self.shared.call()?;
            // A waiting thread drives the stack if the driver sleeps, no other thread drives it,
            // and no program polls it by steps.
            if !self.drives && !call.driver.caller_drives && !call.driver.stepped {
                self.drives = call.driver.asleep_until.is_some();
                call.driver.caller_drives = self.drives;
            }
            if self.drives {
                let now = self.shared.now();
                call.drive(now);
                // The next call of `look` sees the events reported so far, so this thread need not
                // be woken for them. It does not see events that the end of this call reports.
                call.forget_own(self.bell.waker());
            }
            if let Poll::Ready(answer) = look(&mut call) {
                self.bell.disarm();
                self.end(&mut call);
                return Ok(Some(answer));
            }
            call.wait(self.readiness, &mut self.id, self.bell.waker());
            if self.drives {
                let watch = call.watch(self.bell.waker());
                let look = match watch {
                    Watch::Ready => {
                        self.bell.disarm();
                        return Ok(None);
                    }
                    Watch::Sleep => None,
                    Watch::Look => Some(SystemTime::now() + LOOK_INTERVAL),
                    Watch::Until(look) | Watch::UntilOrDescriptor(look) => {
                        self.shared.system_time(look)
                    }
                };
                sleep_until = until.into_iter().chain(look).min();
                if !matches!(watch, Watch::Until(_)) {
                    at = call.callers_descriptor();
                }
            }
        }
        self.bell.sleep(sleep_until, at.as_ref());
        Ok(None)
    }
}

impl Waiter<'_> {
    fn end(&mut self, inner: &mut Inner) {
        inner.leave(self.readiness, self.id.take());
        if core::mem::take(&mut self.drives) {
            inner.hand_back();
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if (self.drives || self.id.is_some())
            && let Ok(mut call) = self.shared.call()
        {
            self.end(&mut call);
        }
    }
}

/// A future that waits until `look` is ready; it may be dropped at any time.
pub(crate) struct Wait<'a, F> {
    shared: &'a Shared,
    readiness: Readiness,
    look: F,
    /// The number of this wait in the wait queue.
    id: Option<u64>,
}

/// A future that waits for `readiness`.
pub(crate) fn wait<T, F>(shared: &Shared, readiness: Readiness, look: F) -> Wait<'_, F>
where
    F: FnMut(&mut Inner) -> Poll<io::Result<T>> + Unpin,
{
    Wait { shared, readiness, look, id: None }
}

impl<T, F> Future for Wait<'_, F>
where
    F: FnMut(&mut Inner) -> Poll<io::Result<T>> + Unpin,
{
    type Output = io::Result<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        let this = self.get_mut();
        let mut call = this.shared.call_at(this.readiness)?;
        let polled = (this.look)(&mut call);
        if polled.is_pending() {
            call.wait(this.readiness, &mut this.id, cx.waker());
        } else {
            call.leave(this.readiness, this.id.take());
        }
        polled
    }
}

impl<F> Drop for Wait<'_, F> {
    fn drop(&mut self) {
        if self.id.is_some()
            && let Ok(mut call) = self.shared.call()
        {
            call.leave(self.readiness, self.id.take());
        }
    }
}

/// A time that a task waits for; dropping it cancels the alarm.
pub(crate) struct Alarm<'a> {
    shared: &'a Shared,
    at: Instant,
    key: Option<(Instant, u64)>,
}

impl<'a> Alarm<'a> {
    /// With `None` the time never comes.
    pub(crate) fn new(shared: &'a Shared, at: Option<Instant>) -> Alarm<'a> {
        Alarm { shared, at: at.unwrap_or(Instant::NEVER), key: None }
    }

    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let mut call = self.shared.call()?;
        if let Some(key) = self.key.take() {
            call.cancel_alarm(key);
        }
        if self.shared.now() >= self.at {
            return Poll::Ready(Ok(()));
        }
        self.key = Some(call.alarm(self.at, cx.waker()));
        Poll::Pending
    }
}

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take()
            && let Ok(mut call) = self.shared.call()
        {
            call.cancel_alarm(key);
        }
    }
}

#[cfg(test)]
mod tests;
