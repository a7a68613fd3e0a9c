//! CoDel, RFC 8289: drops from the head of a queue that has been standing for an interval, at a
//! rate that grows while it stands.
//!
//! Called by: `direction`, for each packet at the head of the queue, when its transmission would
//! begin.

use base::{Duration, Instant};

/// The largest packet: a backlog of one packet or less is never too long (section 4.2).
const ONE_PACKET: usize = 1_514;

/// State of section 5.2, named as there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CoDel {
    /// When the sojourn time will have been above the target for a whole interval; `None` while the
    /// sojourn time is below the target.
    first_above_time: Option<Instant>,
    drop_next: Instant,
    count: u32,
    last_count: u32,
    dropping: bool,
    /// The packet after the one that began a dropping episode is never dropped.
    pass_next: bool,
}

impl CoDel {
    /// Section 5.5, one packet per call: whether to drop the packet at the head of the queue. It
    /// has waited for `sojourn`, and `backlog` bytes wait after it.
    pub(crate) fn drops(
        &mut self,
        (target, interval): (Duration, Duration),
        sojourn: Duration,
        backlog: usize,
        now: Instant,
    ) -> bool {
        let ok_to_drop = self.stands(target, interval, sojourn, backlog, now);
        if core::mem::take(&mut self.pass_next) {
            return false;
        }
        if self.dropping {
            if !ok_to_drop {
                self.dropping = false;
            } else if now >= self.drop_next {
                self.count += 1;
                self.drop_next = control_law(self.drop_next, interval, self.count);
                return true;
            }
            return false;
        }
        if !ok_to_drop {
            return false;
        }
        self.dropping = true;
        self.pass_next = true;
        // If the last episode has ended only recently, resume at its drop rate.
        let delta = self.count.saturating_sub(self.last_count);
        let soon = now.since(self.drop_next) < interval.saturating_mul(16);
        self.count = if delta > 1 && soon { delta } else { 1 };
        self.drop_next = control_law(now, interval, self.count);
        self.last_count = self.count;
        true
    }

    /// Section 5.4: has the sojourn time been above the target for an interval?
    fn stands(
        &mut self,
        target: Duration,
        interval: Duration,
        sojourn: Duration,
        backlog: usize,
        now: Instant,
    ) -> bool {
        if sojourn < target || backlog <= ONE_PACKET {
            self.first_above_time = None;
            return false;
        }
        match self.first_above_time {
            None => {
                self.first_above_time = Some(now + interval);
                false
            }
            Some(at) => now >= at,
        }
    }
}

/// Section 5.3: the interval between drops is inversely proportional to the square root of `count`.
fn control_law(from: Instant, interval: Duration, count: u32) -> Instant {
    let ns = interval.as_nanos() as f64 / f64::from(count.max(1)).sqrt();
    from + Duration::from_nanos(ns as u64)
}
