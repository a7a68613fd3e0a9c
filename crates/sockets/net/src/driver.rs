//! The driver of a stack, which polls the stack: a thread, a task of any runtime, or a thread that
//! waits in a blocking call.
//!
//! Called by: `Net::new`, which makes a [`Driver`]; the end of each `Call`, which checks whether to
//! wake the driver. The driver polls the stack while there is work, registers its waker with the
//! devices and sleeps until a device, a timer or a call wakes it. A thread that waits in a blocking
//! call while the driver sleeps registers its own waker with the devices instead, and only that
//! thread is woken (`wait.rs`). Why: docs/decisions/0019-who-drives.md.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use base::Instant;
use stack::Armed;

use crate::Net;
use crate::bell::{Descriptor, LOOK_INTERVAL, ThreadBell};
use crate::driver_state::Watch;
use crate::inner::{Inner, Shared};
use crate::timer::Timer;

/// What the driver does next.
pub(crate) enum Turn {
    /// Run again, after yielding the processor.
    Again,
    /// Sleep until woken, until this time, or until the descriptor is readable.
    Sleep(Instant, Option<Descriptor>),
    /// The driver ends.
    Done,
}

impl Inner {
    /// At the end of a call: wake the driver if it sleeps and has to run.
    pub(crate) fn call_driver_if_needed(&mut self) {
        let new_push_back = self.stack.is_newly_pushed_back();
        let other_ports = self.driver.saw_epoch != self.stack.ports_epoch();
        if (new_push_back || other_ports)
            && let Some(watcher) = self.driver.watcher.take()
        {
            // The owner of that waker (the driver, or a thread that drives) arms the devices again.
            // Then a device that pushed back reports room, and new ports get the waker.
            self.wake(watcher);
        }
        if let Some(until) = self.driver.asleep_until
            && self.next_deadline() < until
        {
            self.wake_driver();
        }
    }

    /// Wake the driver, if it sleeps.
    pub(crate) fn wake_driver(&mut self) {
        if self.driver.asleep_until.take().is_some()
            && let Some(waker) = self.driver.background.clone()
        {
            self.wake(waker);
        }
    }

    /// Receive and send all pending packets.
    pub(crate) fn drive(&mut self, now: Instant) {
        // One poll takes all that a device has received, up to eight bursts. Frames that come later
        // are found when the devices are armed.
        self.stack.poll(now);
        // `Stack::settle` is called here because a busy stack never has a poll without work.
        self.stack.settle();
        self.dispatch();
    }

    /// Let the devices wake `waker`, which is the driver's or that of the thread that drives.
    pub(crate) fn watch(&mut self, waker: &Waker) -> Watch {
        let watch = match self.stack.arm(waker) {
            _ if self.turns.as_ref().is_some_and(|turns| !turns.arm(waker)) => Watch::Ready,
            Armed::Ready => Watch::Ready,
            Armed::All => {
                // The device of a removed port may still have its descriptor open and registered.
                self.update_descriptors();
                Watch::Sleep
            }
            Armed::Descriptors if self.update_descriptors() => Watch::Sleep,
            Armed::Descriptors => Watch::Look,
            Armed::NotAll => {
                self.update_descriptors();
                Watch::Look
            }
            // No thread waits on descriptors, so the descriptors of ports that coalesce frames can
            // stay registered.
            Armed::Until(at) if !self.awaits_descriptors() => Watch::Until(at),
            Armed::Until(at) if self.update_descriptors() => Watch::UntilOrDescriptor(at),
            Armed::Until(at) => {
                let soon = self.stack.now() + base::Duration::from(LOOK_INTERVAL);
                Watch::Until(at.min(soon))
            }
        };
        self.driver.saw_epoch = self.stack.ports_epoch();
        if !self.driver.watcher.as_ref().is_some_and(|old| old.will_wake(waker)) {
            let old = self.driver.watcher.replace(waker.clone());
            self.discard(old);
        }
        watch
    }

    /// Does any port have a descriptor to wait on?
    #[cfg(unix)]
    fn awaits_descriptors(&self) -> bool {
        self.stack.descriptors().any(|(_, _, awaited)| awaited != stack::Awaited::Nothing)
    }

    #[cfg(not(unix))]
    fn awaits_descriptors(&self) -> bool {
        false
    }

    /// Register the devices' descriptors with epoll; `false` if that failed and the devices have to
    /// be polled.
    #[cfg(target_os = "linux")]
    fn update_descriptors(&mut self) -> bool {
        let driver_hears = !self.driver.caller_drives;
        self.driver.descriptors.update(&self.stack, driver_hears).is_ok()
    }

    #[cfg(not(target_os = "linux"))]
    fn update_descriptors(&mut self) -> bool {
        false
    }

    /// The descriptor that the driver waits on.
    #[cfg(target_os = "linux")]
    fn drivers_descriptor(&self) -> Option<Descriptor> {
        self.driver.descriptors.of_driver()
    }

    /// The descriptor that a thread waits on while it drives the stack.
    #[cfg(target_os = "linux")]
    pub(crate) fn callers_descriptor(&self) -> Option<Descriptor> {
        self.driver.descriptors.of_caller()
    }

    #[cfg(not(target_os = "linux"))]
    fn drivers_descriptor(&self) -> Option<Descriptor> {
        None
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn callers_descriptor(&self) -> Option<Descriptor> {
        None
    }

    /// A thread that drove the stack while it waited has finished: the devices wake the driver
    /// again.
    pub(crate) fn hand_back(&mut self) {
        self.driver.caller_drives = false;
        let Some(waker) = self.driver.background.clone() else { return };
        // Wake the driver if frames have come in the meantime, or if a device cannot wake it. A
        // driver that went to sleep before there were descriptors has to wake too, so that it waits
        // on them from now on.
        if self.driver.asleep_until.is_some()
            && (self.watch(&waker) != Watch::Sleep
                || (!self.driver.at_descriptors && self.drivers_descriptor().is_some()))
        {
            self.wake_driver();
        }
        self.discard(Some(waker));
    }

    fn turn(&mut self, now: Instant, waker: &Waker) -> Turn {
        self.driver.asleep_until = None;
        if self.driver.stop || (self.driver.abandoned && self.stack.connection_count() == 0) {
            return Turn::Done;
        }
        self.drive(now);
        self.ring_alarms(now);
        let mut until = self.next_deadline();
        let mut at = None;
        if self.driver.caller_drives {
            at = self.drivers_descriptor();
        } else {
            match self.watch(waker) {
                Watch::Ready => return Turn::Again,
                Watch::Until(look) => until = until.min(look),
                Watch::UntilOrDescriptor(look) => {
                    until = until.min(look);
                    at = self.drivers_descriptor();
                }
                Watch::Look => {
                    until = until.min(now + base::Duration::from(LOOK_INTERVAL));
                    at = self.drivers_descriptor();
                }
                Watch::Sleep => at = self.drivers_descriptor(),
            }
        }
        if !self.driver.background.as_ref().is_some_and(|old| old.will_wake(waker)) {
            let old = self.driver.background.replace(waker.clone());
            self.discard(old);
        }
        self.driver.asleep_until = Some(until);
        self.driver.at_descriptors = at.is_some();
        Turn::Sleep(until, at)
    }
}

/// The code that drives a stack. Without it no socket makes progress; when it is dropped, all
/// sockets fail.
///
/// The driver ends by itself when the last [`crate::Net`] and socket have been dropped and the
/// stack has finished the connections of dropped sockets.
#[must_use = "a stack without a driver does nothing"]
pub struct Driver {
    shared: Arc<Shared>,
    /// The first shard lives as long as another shard has connections, because the first shard
    /// holds the host's routes, addresses and neighbours.
    _first: Option<Net>,
}

impl Driver {
    pub(crate) fn new(shared: Arc<Shared>, first: Option<Net>) -> Driver {
        Driver { shared, _first: first }
    }

    /// Drive the stack from a new thread.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn spawn_thread(self) -> io::Result<DriverThread> {
        self.spawn("wirespeed".to_owned(), || Ok(()))
    }

    /// Start a thread that first calls `first`; an error of `first` is returned.
    pub(crate) fn spawn(
        self,
        name: String,
        first: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> io::Result<DriverThread> {
        let shared = self.shared.clone();
        let (begun, begins) = std::sync::mpsc::sync_channel(1);
        let run = move || {
            let result = first();
            let is_begun = result.is_ok();
            // The call below waits for this result.
            let _ = begun.send(result);
            if is_begun {
                self.run();
            }
        };
        let thread = std::thread::Builder::new().name(name).spawn(run)?;
        begins.recv().map_err(|_| crate::error::poisoned())??;
        Ok(DriverThread { shared, thread })
    }

    /// The driver as a future; `timer` wakes the future for deadlines.
    pub fn with_timer<T: Timer>(self, timer: T) -> DriverFuture<T> {
        DriverFuture { driver: self, timer }
    }

    /// The driver as a task of tokio's runtime, whose timer must be enabled.
    #[cfg(feature = "tokio")]
    pub fn with_tokio(self) -> DriverFuture<crate::timer::TokioTimer> {
        self.with_timer(crate::timer::TokioTimer::default())
    }

    fn run(self) {
        let bell = ThreadBell::new();
        loop {
            // Arm the bell before polling, so that an event during the poll rings it.
            bell.arm();
            match self.turn(bell.waker()) {
                Turn::Again => bell.disarm(),
                Turn::Sleep(until, at) => {
                    bell.sleep(self.shared.system_time(until), at.as_ref());
                }
                Turn::Done => return,
            }
        }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// End the stack: all sockets fail from then on.
    pub(crate) fn end(&self) {
        self.shared.driver_ended();
    }

    pub(crate) fn turn(&self, waker: &Waker) -> Turn {
        let Ok(mut call) = self.shared.call_of_driver() else { return Turn::Done };
        let now = call.stack.now();
        call.turn(now, waker)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.end();
    }
}

/// The thread that drives a stack. Dropping this value does not stop the thread.
pub struct DriverThread {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

impl DriverThread {
    /// Stop the thread and wait until it has ended. All sockets of the stack fail from then on.
    ///
    /// # Errors
    /// The thread panicked.
    pub fn stop(self) -> io::Result<()> {
        if let Ok(mut call) = self.shared.call() {
            call.driver.stop = true;
            call.wake_driver();
        }
        self.join()
    }

    /// Wait until the thread ends by itself (see [`Driver`]).
    ///
    /// # Errors
    /// The thread panicked.
    pub fn join(self) -> io::Result<()> {
        self.thread.join().map_err(|_| crate::error::poisoned())
    }
}

/// A [`Driver`] for a runtime to poll.
#[must_use = "futures do nothing unless polled: spawn it"]
pub struct DriverFuture<T> {
    driver: Driver,
    timer: T,
}

impl<T: Timer> Future for DriverFuture<T> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match self.driver.turn(cx.waker()) {
            Turn::Done => return Poll::Ready(()),
            Turn::Again => cx.waker().wake_by_ref(),
            Turn::Sleep(until, descriptor) => {
                let mut at = self.driver.shared.system_time(until);
                let mut again = false;
                #[cfg(not(target_os = "linux"))]
                let _: Option<Descriptor> = descriptor;
                #[cfg(target_os = "linux")]
                if let Some(descriptor) = descriptor {
                    match self.timer.poll_descriptor(descriptor, cx) {
                        Some(readable) => again = readable.is_ready(),
                        None => {
                            let soon = std::time::Instant::now() + LOOK_INTERVAL;
                            at = Some(at.map_or(soon, |at| at.min(soon)));
                        }
                    }
                }
                if let Some(at) = at {
                    again |= self.timer.poll_at(at, cx).is_ready();
                }
                if again {
                    cx.waker().wake_by_ref();
                }
            }
        }
        Poll::Pending
    }
}
