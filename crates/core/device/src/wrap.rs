//! Shared parts of the wrappers: the methods of [`crate::Device`] that they forward, counters that
//! other threads may read, and a copy of a frame with its metadata.
//!
//! Called by: `counted`, `fault`, `capture`; the queues of the stack's shards.

use core::sync::atomic::{AtomicU64, Ordering};

use mbuf::{Flags, Mbuf, Pool};

/// The methods of `Device` that a wrapper forwards to its inner device, `self.device`. The
/// wrapper's crate must import crate `base` by this name.
#[macro_export]
macro_rules! pass_through {
    () => {
        fn limits(&self) -> $crate::Limits {
            self.device.limits()
        }

        fn link_up(&self) -> bool {
            self.device.link_up()
        }

        fn check_link(&mut self) -> bool {
            self.device.check_link()
        }

        fn is_gone(&self) -> bool {
            self.device.is_gone()
        }

        #[cfg(unix)]
        fn as_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
            self.device.as_fd()
        }

        fn is_unfinished(&self) -> bool {
            self.device.is_unfinished()
        }

        fn wakes_at(&self) -> base::Instant {
            self.device.wakes_at()
        }

        fn rx_depth(&self) -> usize {
            self.device.rx_depth()
        }

        fn tags(&self) -> $crate::vlan::Tags {
            self.device.tags()
        }

        fn failure(&self) -> Option<&(dyn core::error::Error + 'static)> {
            self.device.failure()
        }
    };
}
pub(crate) use pass_through;

/// The methods for sleeping, for a wrapper that holds no frames back. The inner device knows what
/// is waiting and whether the threshold is reached.
macro_rules! pass_sleep {
    () => {
        fn arm(&mut self, waker: &core::task::Waker) -> bool {
            self.device.arm(waker)
        }

        fn coalesce(&mut self, threshold: $crate::mitigation::Threshold) -> bool {
            self.device.coalesce(threshold)
        }
    };
}
pub(crate) use pass_sleep;

/// A counter that one thread writes and any thread may read.
#[derive(Debug, Default)]
pub(crate) struct Tally(AtomicU64);

impl Tally {
    /// There is one writer, so no locked instruction is needed.
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }

    pub(crate) fn total(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A copy of a frame in another buffer, with its offload requests and other metadata, which
/// [`Pool::copy_of`] leaves out. `None` if the pool is exhausted.
pub fn copy_of(pool: &mut Pool, frame: &Mbuf) -> Option<Mbuf> {
    const KEPT: [u8; 5] =
        [Flags::CSUM_VERIFIED, Flags::CSUM_PARTIAL, Flags::LINK_GROUP, Flags::PUSH, Flags::VLAN];
    let mut copy = pool.copy_of(frame.as_slice())?;
    KEPT.into_iter().filter(|&flag| frame.has(flag)).for_each(|flag| copy.set(flag));
    copy.set_csum(frame.csum());
    copy.set_segment_size(frame.segment_size());
    copy.set_vlan(frame.vlan());
    copy.set_mark(frame.mark());
    copy.set_flow_hash(frame.flow_hash());
    copy.set_in_port(frame.in_port());
    Some(copy)
}
