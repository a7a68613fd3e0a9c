//! Access to parts of a stack that are not public: the timer wheel and the release queue, each by
//! itself.
//!
//! Called by: fuzz/, which compares both with a sorted list. Built only with the feature
//! `internals`; nothing else may use it.

use base::Instant;
use mbuf::{Mbuf, Pool};
use slotmap::{Key, KeyData};

use crate::handles::TcpHandle;

/// The timer wheel, with numbers in the place of connections.
#[derive(Default)]
pub struct Wheel(crate::timers::Wheel);

impl Wheel {
    /// Return `number` from [`Wheel::advance`] soon after `deadline`.
    pub fn insert(&mut self, number: u32, deadline: Instant, now: Instant) {
        // A key is a version, which is odd, and a place.
        let key = KeyData::from_ffi(1 << 32 | u64::from(number));
        self.0.insert(TcpHandle::from(key), deadline, now);
    }

    /// The numbers that are due at `now`, which never decreases.
    pub fn advance(&mut self, now: Instant) -> Vec<u32> {
        let mut due = Vec::new();
        self.0.advance(now, &mut due);
        due.into_iter().map(|handle| handle.data().as_ffi() as u32).collect()
    }

    /// A time before which no number is due.
    pub fn next_deadline(&self) -> Instant {
        self.0.next_deadline()
    }
}

/// The release queue.
#[derive(Default)]
pub struct Release(crate::release::Release);

impl Release {
    /// Keep a frame for `port` until its departure time.
    pub fn push(&mut self, port: u16, frame: Mbuf) {
        self.0.push(port, frame);
    }

    /// Returns the next frame whose time has come, with its port.
    pub fn pop(&mut self, now: Instant) -> Option<(u16, Mbuf)> {
        self.0.pop(now)
    }

    /// When the next frame may leave.
    pub fn next_departure(&self) -> Instant {
        self.0.next_departure()
    }

    /// Drop the frames of a port; returns how many.
    pub fn forget_port(&mut self, port: u16, pool: &mut Pool) -> u64 {
        self.0.forget_port(port, pool)
    }
}
