//! Wait queues, which hold wakers by socket and direction, and the per-socket state that the stack
//! does not keep. Queues and state are small, because a program may have a hundred thousand idle
//! connections.
//!
//! Called by: `inner.rs`. The code here neither drops nor wakes wakers: dropping and waking may run
//! arbitrary code, and the stack is locked.

use core::num::NonZeroU32;
use core::task::Waker;
use core::time::Duration;

use stack::{ListenerHandle, TcpHandle, UdpHandle};

/// An event that a call can wait for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Readiness {
    /// Data to read, or the end of the stream.
    Read(TcpHandle),
    /// Room to write, the end of the handshake, or the end of the connection.
    Write(TcpHandle),
    /// A connection that can be accepted.
    Accept(ListenerHandle),
    /// A datagram.
    Datagram(UdpHandle),
    /// Room in a device.
    Room,
    /// A datagram for the socket of any lookup of a name.
    Lookup,
}

/// The wakers that wait for one readiness.
#[derive(Default)]
pub(crate) struct WaitQueue {
    /// The waker of the last poll: a poll function has one waiter at a time, as in tokio.
    polled: Option<Waker>,
    /// The wakers of futures and threads, any number; each removes its own when it stops waiting.
    others: Option<Box<Others>>,
}

#[derive(Default)]
struct Others {
    /// Wakers by the number of the wait: one task may wait more than once.
    wakers: Vec<(u64, Waker)>,
}

impl WaitQueue {
    /// Set the waker of a poll function; returns the previous one.
    pub(crate) fn set_polled(&mut self, waker: &Waker) -> Option<Waker> {
        match &self.polled {
            Some(old) if old.will_wake(waker) => None,
            _ => self.polled.replace(waker.clone()),
        }
    }

    /// Set the waker of wait `id`; returns the previous one.
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

    /// Remove wait `id`; returns its waker.
    pub(crate) fn remove(&mut self, id: u64) -> Option<Waker> {
        let wakers = &mut self.others.as_mut()?.wakers;
        let at = wakers.iter().position(|(other, _)| *other == id)?;
        Some(wakers.swap_remove(at).1)
    }

    /// Move all wakers into `wakers`.
    pub(crate) fn take_into(&mut self, wakers: &mut Vec<Waker>) {
        wakers.extend(self.polled.take());
        if let Some(others) = &mut self.others {
            wakers.extend(others.wakers.drain(..).map(|(_, waker)| waker));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.polled.is_none() && self.others.as_ref().is_none_or(|o| o.wakers.is_empty())
    }
}

/// The state of a TCP socket beside the stack's connection.
#[derive(Default)]
pub(crate) struct Socket {
    pub(crate) read: WaitQueue,
    pub(crate) write: WaitQueue,
    /// The connection's error was reported. As on Linux, it is reported once.
    pub(crate) error_reported: bool,
    /// SO_LINGER; with zero, dropping the socket resets the connection.
    pub(crate) linger: Linger,
    /// A forwarder accepted the connection, which therefore counts against the limit `forwarded`.
    pub(crate) forwarded: bool,
}

/// SO_LINGER in hundredths of a second; 4 bytes, because every socket has one.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Linger(Option<NonZeroU32>);

impl Linger {
    const UNIT_NS: u128 = 10_000_000;

    /// `None` turns lingering off. A time is rounded up, so that only a time of zero becomes zero.
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
