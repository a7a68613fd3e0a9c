//! How a call waits: in real time the stack's own blocking calls, in slices, so that Ctrl-C and
//! `close` are noticed; in virtual time the world, which lets time pass.
//!
//! Called by: sockets, lookups of names.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::io;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant as SystemTime};

use pyo3::prelude::*;
use wirespeed::Instant;

use crate::error;
use crate::shared::{Shared, Time};
use crate::world::after;

/// How long a call waits before it lets Python handle signals.
pub(crate) const SLICE: Duration = Duration::from_millis(100);

/// How long calls of a socket wait: `None` without limit, zero not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timeout(pub(crate) Option<Duration>);

impl Timeout {
    pub(crate) const NONE: Timeout = Timeout(None);

    pub(crate) fn from_nanos(ns: Option<u64>) -> Timeout {
        Timeout(ns.map(Duration::from_nanos))
    }

    pub(crate) fn is_nonblocking(self) -> bool {
        self.0 == Some(Duration::ZERO)
    }

    /// The time that one call of the stack may wait. The timeout is a multiple of it.
    pub(crate) fn slice(self) -> Duration {
        match self.0 {
            None => SLICE,
            Some(time) => {
                let count = time.as_nanos().div_ceil(SLICE.as_nanos()).max(1);
                let count = u32::try_from(count).unwrap_or(u32::MAX);
                (time / count).max(Duration::from_nanos(1))
            }
        }
    }

    fn deadline(self) -> Option<SystemTime> {
        self.0.and_then(|time| SystemTime::now().checked_add(time))
    }

    pub(crate) fn virtual_deadline(self, now: Instant) -> Option<Instant> {
        self.0.map(|time| after(now, u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// The result of one attempt.
pub(crate) enum Try<T> {
    Done(PyResult<T>),
    Wait,
}

impl<T> From<io::Result<T>> for Try<T> {
    fn from(result: io::Result<T>) -> Try<T> {
        match result {
            Ok(done) => Try::Done(Ok(done)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Try::Wait,
            Err(error) => Try::Done(Err(error::raise(&error))),
        }
    }
}

/// Call `attempt` until it has a result, at most for `timeout`. In real time an attempt itself
/// waits, for a slice of that time.
pub(crate) fn wait<T: Send>(
    py: Python<'_>,
    shared: &Shared,
    timeout: Timeout,
    mut attempt: impl FnMut() -> Try<T> + Send,
) -> PyResult<T> {
    if timeout.is_nonblocking() {
        return match py.detach(&mut attempt) {
            Try::Done(answer) => answer,
            Try::Wait => Err(error::raise(&io::ErrorKind::WouldBlock.into())),
        };
    }
    match &shared.time {
        Time::Virtual(world) => {
            world.get().wait(py, timeout, &mut attempt)?.ok_or_else(error::timed_out)
        }
        Time::Real => {
            let deadline = timeout.deadline();
            loop {
                if let Try::Done(answer) = py.detach(&mut attempt) {
                    return answer;
                }
                py.check_signals()?;
                if deadline.is_some_and(|at| at <= SystemTime::now()) {
                    return Err(error::timed_out());
                }
            }
        }
    }
}

/// A future that a socket keeps: its connection attempt, or its wait for a datagram.
pub(crate) type Waiting<T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send>>;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Unpark>) {
        self.0.unpark();
    }
}

/// Poll by `poll` until there is a result, at most for `timeout`.
pub(crate) fn wait_polled<T: Send>(
    py: Python<'_>,
    shared: &Shared,
    timeout: Timeout,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<PyResult<T>> + Send,
) -> PyResult<T> {
    let slice = match shared.time {
        Time::Real if !timeout.is_nonblocking() => timeout.slice(),
        _ => Duration::ZERO,
    };
    wait(py, shared, timeout, move || {
        let until = SystemTime::now() + slice;
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        loop {
            if let Poll::Ready(answer) = poll(&mut Context::from_waker(&waker)) {
                return Try::Done(answer);
            }
            let left = until.saturating_duration_since(SystemTime::now());
            if left.is_zero() {
                return Try::Wait;
            }
            thread::park_timeout(left);
        }
    })
}
