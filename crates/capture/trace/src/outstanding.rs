//! The segments of one direction that are not acknowledged yet, in the order of their sequence
//! numbers. Round trips are measured from them.
//!
//! Called by: `side`. Positions are those of [`crate::SegmentPoint`], which do not wrap.

use std::collections::VecDeque;

use crate::limits::{OUTSTANDING_MAX, OUTSTANDING_TOTAL};

#[derive(Clone, Copy, Debug)]
struct Sent {
    start: i64,
    end: i64,
    time_ns: u64,
    /// The segment was sent more than once, so that an ACK may answer any of the transmissions.
    again: bool,
}

/// The segments, sorted by `start`.
#[derive(Debug, Default)]
pub(crate) struct Outstanding {
    sent: VecDeque<Sent>,
    /// The length of the longest segment so far.
    longest: i64,
}

impl Outstanding {
    /// Add a segment that was sent. `time_ns` is `None` if the rules say that the segment had been
    /// sent before. `total` is the number of remembered segments of all connections.
    pub(crate) fn add(&mut self, [start, end]: [i64; 2], time_ns: Option<u64>, total: &mut usize) {
        if self.sent.len() >= OUTSTANDING_MAX || *total >= OUTSTANDING_TOTAL {
            return;
        }
        let at = match self.sent.back() {
            Some(last) if last.start > start => self.sent.partition_point(|s| s.start <= start),
            _ => self.sent.len(),
        };
        let mut again = time_ns.is_none();
        let time_ns = time_ns.unwrap_or(0);
        let near = self.sent.iter_mut().take(at).rev();
        for sent in near.take_while(|sent| sent.start + self.longest > start) {
            if sent.end > start {
                (sent.again, again) = (true, true);
            }
        }
        for sent in self.sent.iter_mut().skip(at).take_while(|sent| sent.start < end) {
            (sent.again, again) = (true, true);
        }
        self.sent.insert(at, Sent { start, end, time_ns, again });
        self.longest = self.longest.max(end - start);
        *total += 1;
    }

    /// Remove the segments before `ack`, which have arrived, and return when the last of them was
    /// sent. `None` if one of them was sent more than once, because the ACK may have waited for the
    /// repetition.
    pub(crate) fn acked(&mut self, ack: i64, total: &mut usize) -> Option<u64> {
        let (mut newest, mut clear) = (None::<Sent>, true);
        while let Some(first) = self.sent.front().copied().filter(|first| first.end <= ack) {
            self.sent.pop_front();
            *total -= 1;
            clear &= !first.again;
            newest = newest.filter(|newest| newest.end > first.end).or(Some(first));
        }
        if self.sent.is_empty() && self.sent.capacity() > 64 {
            self.sent = VecDeque::new();
        }
        newest.filter(|_| clear).map(|newest| newest.time_ns)
    }

    /// Forget all segments.
    pub(crate) fn clear(&mut self, total: &mut usize) {
        *total -= self.sent.len();
        self.sent = VecDeque::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ack_of_segments_sent_once_tells_a_round_trip() {
        let (mut all, mut total) = (Outstanding::default(), 0);
        all.add([0, 100], Some(1), &mut total);
        all.add([100, 200], Some(2), &mut total);
        all.add([200, 300], Some(3), &mut total);
        assert_eq!(
            all.acked(200, &mut total),
            Some(2),
            "not the time of the last segment that the ACK covers"
        );
        all.add([200, 300], Some(9), &mut total);
        all.add([300, 400], Some(10), &mut total);
        assert_eq!(
            all.acked(400, &mut total),
            None,
            "a round trip of a segment that was sent twice"
        );
        all.add([400, 500], None, &mut total);
        assert_eq!(
            all.acked(500, &mut total),
            None,
            "a round trip of a segment that was sent before the capture"
        );
        assert_eq!(total, 0);
    }

    #[test]
    fn no_more_are_remembered_than_the_limit() {
        let (mut all, mut total) = (Outstanding::default(), 0);
        for start in 0..OUTSTANDING_MAX as i64 + 5 {
            all.add([start, start + 1], Some(1), &mut total);
        }
        assert_eq!(total, OUTSTANDING_MAX);
        all.clear(&mut total);
        assert_eq!(total, 0);
    }
}
