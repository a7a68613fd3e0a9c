//! The driver of a stack: a thread, a task of any runtime, or a thread that waits in a blocking
//! call.
//!
//! Called by: `Net::new` makes a [`Driver`]; `call` ends ask here whether it must be woken.
//! The driver polls the stack while there is something to do, leaves its waker with the devices
//! and sleeps until one of them, a timer or a call wakes it. While a thread waits in a blocking
//! call and the driver sleeps, that thread leaves its own waker with the devices instead, and only
//! that thread is woken (see `wait.rs`). docs/decisions/0019-who-drives.md says why.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use base::Instant;
use stack::Armed;

use crate::bell::{Descriptor, LOOK_INTERVAL, ThreadBell};
use crate::inner::{Inner, Shared};
use crate::timer::Timer;

/// What the driver does next.
pub(crate) enum Turn {
    /// Run again, after yielding the processor.
    Again,
    /// Sleep until woken, until this time, or until the descriptor is readable.
    Sleep(Instant, Option<Descriptor>),
    /// Nothing, ever.
    Done,
}

/// The result of [`Inner::watch`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watch {
    /// There is something to poll for at once.
    Ready,
    /// Sleep: all devices wake, or have descriptors to sleep at.
    Sleep,
    /// Sleep, but poll again after [`LOOK_INTERVAL`].
    Look,
    /// Sleep until this time, and ignore descriptors: frames are coalesced.
    Until(Instant),
    /// The same, but wait for other ports' descriptors meanwhile.
    UntilOrDescriptor(Instant),
}

impl Inner {
    /// At the end of a call: does the sleeping driver have to be woken?
    pub(crate) fn call_driver_if_needed(&mut self) {
        let new_push_back = self.stack.is_newly_pushed_back();
        let other_ports = self.driver.saw_epoch != self.stack.ports_epoch();
        if (new_push_back || other_ports)
            && let Some(watcher) = self.driver.watcher.take()
        {
            // The devices will report room for what was pushed back before.
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

    /// Receive and send what there is.
    pub(crate) fn drive(&mut self, now: Instant) {
        // One poll takes all that a device has, or eight bursts; later frames are found when the
        // devices are armed.
        self.stack.poll(now);
        // On a busy stack no poll is without work.
        self.stack.settle();
        self.dispatch();
    }

    /// Have the devices wake `waker`, of the driver or of the caller that drives.
    pub(crate) fn watch(&mut self, waker: &Waker) -> Watch {
        let watch = match self.stack.arm(waker) {
            Armed::Ready => Watch::Ready,
            Armed::All => {
                // A port that is gone may have left its descriptor with its owner.
                self.update_descriptors();
                Watch::Sleep
            }
            Armed::Descriptors if self.update_descriptors() => Watch::Sleep,
            Armed::Descriptors => Watch::Look,
            Armed::NotAll => {
                self.update_descriptors();
                Watch::Look
            }
            // No thread waits on descriptors, and those of coalescing ports need not be switched
            // off.
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

    /// Is there a descriptor at which something is awaited?
    #[cfg(unix)]
    fn awaits_descriptors(&self) -> bool {
        self.stack.descriptors().any(|(_, _, awaited)| awaited != stack::Awaited::Nothing)
    }

    #[cfg(not(unix))]
    fn awaits_descriptors(&self) -> bool {
        false
    }

    /// Register the devices' descriptors with epoll; `false` if that failed, and devices have to be
    /// polled.
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

    /// The descriptor that a caller waits on which drives the stack.
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

    /// A thread that drove while it waited is done: the driver has the devices again.
    pub(crate) fn hand_back(&mut self) {
        self.driver.caller_drives = false;
        let Some(waker) = self.driver.background.clone() else { return };
        // The driver has to handle what came meanwhile, and devices that cannot wake; and a driver
        // that slept before there were descriptors is not woken by them.
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

/// Drives a stack; without it no socket makes progress, and when it is dropped all of them fail.
///
/// It ends by itself when the last [`crate::Net`] and socket are gone and the stack has finished
/// the connections they left behind.
#[must_use = "a stack without a driver does nothing"]
pub struct Driver {
    shared: Arc<Shared>,
}

impl Driver {
    pub(crate) fn new(shared: Arc<Shared>) -> Driver {
        Driver { shared }
    }

    /// Drive from a thread of its own.
    ///
    /// # Errors
    /// The system has no thread for us.
    pub fn spawn_thread(self) -> io::Result<DriverThread> {
        let shared = self.shared.clone();
        let thread =
            std::thread::Builder::new().name("wirespeed".to_owned()).spawn(move || self.run())?;
        Ok(DriverThread { shared, thread })
    }

    /// Drive as a future; `timer` wakes it for deadlines.
    pub fn with_timer<T: Timer>(self, timer: T) -> DriverFuture<T> {
        DriverFuture { driver: self, timer }
    }

    /// Drive as a task of tokio's runtime, which must have its timer on.
    #[cfg(feature = "tokio")]
    pub fn with_tokio(self) -> DriverFuture<crate::timer::TokioTimer> {
        self.with_timer(crate::timer::TokioTimer::default())
    }

    fn run(self) {
        let bell = ThreadBell::new();
        loop {
            // Before polling: events after this ring.
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

    fn turn(&self, waker: &Waker) -> Turn {
        let Ok(mut call) = self.shared.call() else { return Turn::Done };
        let now = call.stack.now();
        call.mine = None;
        call.turn(now, waker)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.shared.driver_ended();
    }
}

/// The thread that drives a stack. Dropping this lets it run on.
pub struct DriverThread {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

impl DriverThread {
    /// End it, and wait until it has; every socket of the stack fails from then on.
    ///
    /// # Errors
    /// It had panicked.
    pub fn stop(self) -> io::Result<()> {
        if let Ok(mut call) = self.shared.call() {
            call.driver.stop = true;
            call.wake_driver();
        }
        self.join()
    }

    /// Wait until it ends by itself (see [`Driver`]).
    ///
    /// # Errors
    /// It had panicked.
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
