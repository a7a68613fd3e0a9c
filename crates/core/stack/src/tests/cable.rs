//! A device for tests: its link can be cut, and its peer can go away while the driver thread arms
//! it.

use core::any::Any;
use core::error::Error;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::task::Waker;
use std::sync::Arc;

use base::Instant;
use device::{Burst, Device, Limits};
use mbuf::Pool;

/// A device whose cable the test can cut.
pub(super) struct Cable {
    device: Box<dyn Device>,
    end: End,
    /// The peer, dropped between the driver thread's last check and its sleep.
    leaving: Option<Box<dyn Any + Send>>,
}

/// The test's control of the cable.
#[derive(Clone)]
pub(super) struct End {
    is_whole: Arc<AtomicBool>,
    asked: Arc<AtomicU64>,
}

impl End {
    pub(super) fn set(&self, is_whole: bool) {
        self.is_whole.store(is_whole, Ordering::Relaxed);
    }

    /// How many times the state of the link was read.
    pub(super) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    fn is_whole(&self) -> bool {
        self.is_whole.load(Ordering::Relaxed)
    }
}

impl Cable {
    pub(super) fn new(device: impl Device + 'static) -> (Cable, End) {
        let end = End { is_whole: Arc::new(AtomicBool::new(true)), asked: Arc::default() };
        (Cable { device: Box::new(device), end: end.clone(), leaving: None }, end)
    }

    /// A device whose peer goes away between the driver thread's last check and its sleep.
    pub(super) fn leaving(device: impl Device + 'static, peer: impl Any + Send + 'static) -> Cable {
        Cable { leaving: Some(Box::new(peer)), ..Cable::new(device).0 }
    }
}

impl Device for Cable {
    fn limits(&self) -> Limits {
        self.device.limits()
    }

    fn rx_burst(&mut self, pool: &mut Pool, into: &mut Burst) -> usize {
        if self.end.is_whole() {
            return self.device.rx_burst(pool, into);
        }
        let mut lost = Burst::new();
        while self.device.rx_burst(pool, &mut lost) > 0 {
            lost.drain(..).for_each(|frame| pool.free(frame));
        }
        0
    }

    fn tx_burst(&mut self, pool: &mut Pool, from: &mut Burst) -> usize {
        if self.end.is_whole() {
            return self.device.tx_burst(pool, from);
        }
        let count = from.len();
        from.drain(..).for_each(|frame| pool.free(frame));
        count
    }

    fn rx_ready(&self) -> bool {
        self.device.rx_ready()
    }

    fn tx_ready(&self) -> bool {
        !self.end.is_whole() || self.device.tx_ready()
    }

    fn link_up(&self) -> bool {
        self.end.is_whole() && self.device.link_up()
    }

    fn check_link(&mut self) -> bool {
        self.end.asked.fetch_add(1, Ordering::Relaxed);
        self.link_up()
    }

    fn is_gone(&self) -> bool {
        self.device.is_gone()
    }

    fn failure(&self) -> Option<&(dyn Error + 'static)> {
        self.device.failure()
    }

    fn arm(&mut self, waker: &Waker) -> bool {
        drop(self.leaving.take());
        self.device.arm(waker)
    }

    fn wakes_at(&self) -> Instant {
        self.device.wakes_at()
    }
}
