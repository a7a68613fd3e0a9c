//! Two interfaces, their pools, and a clock that the test advances.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;
use std::task::Wake;

use base::{Duration, Instant};
use mbuf::Pool;
use wirespeed_device::nic::{Config, Nic, pair};
use wirespeed_device::{BURST, Burst, Device};

/// Counts how often it was woken.
#[derive(Default)]
pub(crate) struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Woken>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Woken {
    pub(crate) fn take(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

/// One end, with its pool and its waker.
pub(crate) struct Host {
    pub(crate) nic: Nic,
    pub(crate) pool: Pool,
    pub(crate) woken: Arc<Woken>,
}

impl Host {
    fn new(nic: Nic) -> Host {
        Host { nic, pool: Pool::new(4 << 20), woken: Arc::default() }
    }

    /// Send `count` frames, each of which begins with its number. Returns how many were taken.
    pub(crate) fn send(&mut self, count: usize, len: usize) -> usize {
        let mut burst = Burst::new();
        for number in 0..count.min(BURST) {
            let mut frame = self.pool.alloc(len).expect("the test's pool is large enough");
            frame.extend(len);
            frame.as_mut_slice().expect("nobody else has it").fill(0xee);
            if let Some(first) = frame.as_mut_slice().and_then(|bytes| bytes.first_mut()) {
                *first = number as u8;
            }
            burst.push(frame);
        }
        let taken = self.nic.tx_burst(&mut self.pool, &mut burst);
        burst.drain(..).for_each(|frame| self.pool.free(frame));
        taken
    }

    /// Receive the frames that have arrived.
    pub(crate) fn receive(&mut self) -> Vec<Vec<u8>> {
        let (mut burst, mut all) = (Burst::new(), Vec::new());
        while self.nic.rx_burst(&mut self.pool, &mut burst) > 0 {
            for frame in burst.drain(..) {
                all.push(frame.as_slice().to_vec());
                self.pool.free(frame);
            }
        }
        all
    }

    /// Arm. Returns the time at which to wake without being woken; `None` if something is ready
    /// already.
    pub(crate) fn sleep(&mut self) -> Option<Instant> {
        self.nic.arm(&self.woken.clone().into()).then(|| self.nic.wakes_at())
    }
}

/// Two ends and the clock.
pub(crate) struct Link {
    pub(crate) a: Host,
    pub(crate) b: Host,
    pub(crate) clock: Arc<AtomicU64>,
}

impl Link {
    pub(crate) fn new(config: &Config) -> Link {
        let clock = Arc::new(AtomicU64::new(1_000));
        let read = clock.clone();
        let now = Arc::new(move || Instant::from_nanos(read.load(Ordering::Relaxed)));
        let (a, b) = pair(config, now).expect("there is such a link");
        Link { a: Host::new(a), b: Host::new(b), clock }
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::from_nanos(self.clock.load(Ordering::Relaxed))
    }

    pub(crate) fn later(&self, by: Duration) {
        self.clock.fetch_add(by.as_nanos(), Ordering::Relaxed);
    }

    pub(crate) fn at(&self, at: Instant) {
        assert!(at >= self.now(), "time does not go back");
        self.clock.store(at.as_nanos(), Ordering::Relaxed);
    }

    /// Advance time until nothing more will arrive at the second end. Returns the arrival time and
    /// the first byte of each frame.
    pub(crate) fn arrivals(&mut self) -> Vec<(Instant, u8)> {
        let mut all = Vec::new();
        loop {
            all.extend(self.b.receive().iter().map(|frame| (self.now(), frame[0])));
            match self.b.sleep() {
                None => {}
                Some(Instant::NEVER) => return all,
                Some(at) => self.at(at),
            }
        }
    }
}

/// 10 Mb/s: 100 ns per bit.
pub(crate) fn ten_megabit() -> Config {
    Config { rate_bps: 10_000_000, ..Config::default() }
}

/// The time of a frame of this many bytes at 10 Mb/s, without the gap.
pub(crate) fn frame_ns(len: u64) -> u64 {
    (8 + len + 4) * 800
}

pub(crate) const GAP_NS: u64 = 9_600;
