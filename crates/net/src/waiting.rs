//! Wait queues: wakers by socket and direction, and the state that a socket has beside the stack's.
//! Small, because there is one for each of a hundred thousand idle connections.
//!
//! Called by: `inner.rs`. A waker is never dropped or woken here: both may run any code, and the
//! stack is locked.

use core::num::NonZeroU32;
use core::task::Waker;
use core::time::Duration;

use stack::{ListenerHandle, TcpHandle, UdpHandle};

/// What a call can wait for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Readiness {
    /// Something to read, or the end of it.
    Read(TcpHandle),
    /// Room to write, the end of a handshake, or the end of the connection.
    Write(TcpHandle),
    /// A connection to accept.
    Accept(ListenerHandle),
    /// A datagram.
    Datagram(UdpHandle),
    /// Room in a device.
    Room,
}

/// The wakers that wait for one readiness.
#[derive(Default)]
pub(crate) struct WaitQueue {
    /// Of the task that polled last: a poll function has one waiter at a time, as in tokio.
    polled: Option<Waker>,
    /// Of futures and threads, any number; each takes its own away when it stops waiting.
    others: Option<Box<Others>>,
}

#[derive(Default)]
struct Others {
    /// By the number of the wait: one task may wait here more than once.
    wakers: Vec<(u64, Waker)>,
}

impl WaitQueue {
    /// The one of a poll function; returns the one before.
    pub(crate) fn set_polled(&mut self, waker: &Waker) -> Option<Waker> {
        match &self.polled {
            Some(old) if old.will_wake(waker) => None,
            _ => self.polled.replace(waker.clone()),
        }
    }

    /// That of number `id`; returns the one before.
    pub(crate) fn set(&mut self, id: u64, waker: &Waker) -> Option<Waker> {
        let wakers = &mut self.others.get_or_insert_default().wakers;
        match wakers.iter_mut().find(|(other, _)| *other == id) {
            Some((_, old)) if old.will_wake(waker) => None,
            Some((_, old)) => Some(core::mem::replace(old, waker.clone())),
            None => {
                wakers.push((id, waker.clone()));
                None
            }
        }
    }

    /// Number `id` waits no more; returns what it left.
    pub(crate) fn remove(&mut self, id: u64) -> Option<Waker> {
        let wakers = &mut self.others.as_mut()?.wakers;
        let at = wakers.iter().position(|(other, _)| *other == id)?;
        Some(wakers.swap_remove(at).1)
    }

    /// Move all into `wakers`.
    pub(crate) fn take_into(&mut self, wakers: &mut Vec<Waker>) {
        wakers.extend(self.polled.take());
        if let Some(others) = &mut self.others {
            wakers.extend(others.wakers.drain(..).map(|(_, waker)| waker));
        }
    }

    /// Is it empty?
    pub(crate) fn is_empty(&self) -> bool {
        self.polled.is_none() && self.others.as_ref().is_none_or(|o| o.wakers.is_empty())
    }
}

/// What a TCP socket has beside the stack's connection.
#[derive(Default)]
pub(crate) struct Socket {
    pub(crate) read: WaitQueue,
    pub(crate) write: WaitQueue,
    /// Its error was reported: a connection reports it once, as Linux does.
    pub(crate) error_reported: bool,
    /// SO_LINGER: zero resets the peer when the socket is dropped.
    pub(crate) linger: Linger,
    /// A forwarder's: it counts for the limit on those.
    pub(crate) forwarded: bool,
}

/// How long closing waits, in hundredths of a second: small, because every socket has one.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Linger(Option<NonZeroU32>);

impl Linger {
    const UNIT_NS: u128 = 10_000_000;

    /// Not at all with `None`; a time is rounded up, so that only zero is zero.
    pub(crate) fn new(time: Option<Duration>) -> Linger {
        Linger(time.and_then(|time| {
            let units = time.as_nanos().div_ceil(Linger::UNIT_NS);
            let units = u32::try_from(units).unwrap_or(u32::MAX - 1);
            NonZeroU32::new(units.saturating_add(1))
        }))
    }

    pub(crate) fn time(self) -> Option<Duration> {
        self.0.map(|units| Duration::from_millis(u64::from(units.get() - 1) * 10))
    }
}

const _: () = assert!(core::mem::size_of::<Socket>() <= 56, "one for each idle connection");
