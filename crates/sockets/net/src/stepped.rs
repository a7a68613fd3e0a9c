//! A stack that its program polls by steps, from an event loop of its own or in virtual time:
//! no thread and no task.
//!
//! Called by: programs, by [`Net::stepped`]; `virtual-time`, `capi` and the Python module. Each
//! step is one round of the driver (`driver.rs`).

use core::task::Waker;
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
use std::sync::Arc;

use base::Instant;
use stack::{Stack, VirtualClock};

use crate::Net;
use crate::clock::Clock;
use crate::driver::{Driver, Turn};
use crate::inner::Shared;

/// The clock of a stack that is polled by steps.
#[derive(Clone, Debug, Default)]
pub enum StepClock {
    /// The system's clock.
    #[default]
    System,
    /// A clock that the program advances. Devices that need a clock have to use the same one.
    Virtual(VirtualClock),
}

impl From<VirtualClock> for StepClock {
    fn from(clock: VirtualClock) -> StepClock {
        StepClock::Virtual(clock)
    }
}

/// When to call [`Stepped::step`] again. A call that comes earlier does no harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// At once, before the clock is advanced: there is more work.
    Again,
    /// At this time of the stack's clock, or when the waker is woken, whatever comes first.
    At(Instant),
    /// Only when the waker is woken.
    WhenWoken,
    /// Never: the stack has ended, as a [`crate::Driver`] ends. Its sockets fail.
    Ended,
}

/// The right to poll a stack that has sockets. Dropping it ends the stack: all sockets fail.
///
/// # Calls of programs
/// Nonblocking and async calls do the same as with a [`crate::Driver`]: they send what they write
/// before they return, and a step wakes the tasks that wait. A blocking call waits until another
/// thread steps; on the thread that steps it waits forever, so sockets of that thread are set to
/// nonblocking. The timeouts of blocking calls are times of the system's clock. All other times,
/// also `connect_host`'s and those of lookups, are times of the stack's clock.
#[must_use = "a stack that nobody steps does nothing"]
pub struct Stepped {
    driver: Driver,
    #[cfg(target_os = "linux")]
    descriptor: Option<Arc<OwnedFd>>,
}

impl Net {
    /// Share a stack that the program polls itself. If the stack was polled before, its clock goes
    /// on from there; a virtual clock that is behind the stack is advanced to the stack's time.
    ///
    /// A round trip in virtual time. Two stacks are joined by a wire in memory:
    /// ```
    /// # mod wirespeed { pub use {base::*, stack::*, wirespeed_net as net}; }
    /// use std::task::Waker;
    ///
    /// use wirespeed::net::{Net, Next, UdpSocket};
    /// use wirespeed::pair::{PairConfig, pair};
    /// use wirespeed::{Duration, VirtualClock};
    ///
    /// let (here, there) = pair(&PairConfig::new([1, 2]));
    /// let clock = VirtualClock::default();
    /// let to = std::net::SocketAddr::new(there.addr, 7);
    /// let (a, mut steps_a) = Net::stepped(here.stack, clock.clone());
    /// let (b, mut steps_b) = Net::stepped(there.stack, clock.clone());
    /// let sender = UdpSocket::bind(&a, "0.0.0.0:0".parse()?)?;
    /// let receiver = UdpSocket::bind(&b, to)?;
    ///
    /// assert_eq!(sender.try_send_to(b"hello", to)?, 5); // the frame has left
    /// steps_b.step(Waker::noop()); // and arrives
    /// let mut buffer = [0; 16];
    /// assert_eq!(receiver.try_recv_from(&mut buffer)?.0, 5);
    ///
    /// // Nothing else happens before the next deadline, so the time may pass at once.
    /// if let Next::At(at) = steps_a.step(Waker::noop()) {
    ///     clock.advance_to(at);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stepped(stack: Stack, clock: impl Into<StepClock>) -> (Net, Stepped) {
        let clock = match clock.into() {
            StepClock::System => Clock::from_now(stack.now()),
            StepClock::Virtual(clock) => {
                clock.advance_to(stack.now());
                Clock::Virtual(clock)
            }
        };
        let (net, driver) = Net::of(Shared::new(stack, None, clock), None);
        if let Ok(mut call) = net.shared().call() {
            call.driver.stepped = true;
        }
        let stepped = Stepped {
            driver,
            #[cfg(target_os = "linux")]
            descriptor: None,
        };
        (net, stepped)
    }
}

impl Shared {
    /// Does a program poll this stack by steps?
    ///
    /// # Errors
    /// As [`Shared::call`].
    pub(crate) fn is_stepped(&self) -> io::Result<bool> {
        Ok(self.call()?.driver.stepped)
    }
}

impl Stepped {
    /// Receive and send what is pending, run the timers that are due, and wake the tasks and
    /// threads that have news, all at the clock's present time. Returns when to step again.
    ///
    /// `waker` stays registered until the next step. A device that receives a frame wakes it, and
    /// so does a call that needs an earlier step than this one said. A device that can do neither
    /// is polled after [`crate::LOOK_INTERVAL`] of the stack's clock.
    pub fn step(&mut self, waker: &Waker) -> Next {
        match self.driver.turn(waker) {
            Turn::Again => Next::Again,
            #[cfg_attr(not(target_os = "linux"), allow(unused_variables, reason = "never some"))]
            Turn::Sleep(until, descriptor) => {
                #[cfg(target_os = "linux")]
                {
                    self.descriptor = descriptor;
                }
                match until {
                    Instant::NEVER => Next::WhenWoken,
                    until => Next::At(until),
                }
            }
            Turn::Done => {
                self.driver.end();
                Next::Ended
            }
        }
    }

    /// The present time of the stack's clock.
    pub fn now(&self) -> Instant {
        self.driver.shared().now()
    }

    /// A descriptor to wait on besides the waker, since the last step: readable when a device with
    /// a descriptor, such as a TUN device, has a frame. `None` if the stack has no such device.
    #[cfg(target_os = "linux")]
    pub fn descriptor(&self) -> Option<&Arc<OwnedFd>> {
        self.descriptor.as_ref()
    }
}
