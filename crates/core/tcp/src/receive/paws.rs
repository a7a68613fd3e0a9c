//! Protection against wrapped sequence numbers (PAWS), RFC 7323 section 5: does a segment belong to
//! the current pass through the sequence space, or to an earlier one?
//!
//! Called by: tcb, which holds it, and input, for segments that prediction refused.
//!
//! The RFC's test drops every segment with a timestamp before TS.Recent. After a retransmission has
//! set TS.Recent, segments that were sent before it and arrive late would be dropped. But sequence
//! numbers repeat only after 4 GB. So here a timestamp is too old only if it is older than
//! TS.Recent was some hundreds of megabytes ago (decision 0032).

use base::SeqNumber;

/// A timestamp, and how many whole megabytes had been received when it was TS.Recent.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    value: u32,
    megabytes: u32,
}

impl Mark {
    fn new(value: u32, bytes: u64) -> Mark {
        Mark { value, megabytes: (bytes >> 20) as u32 }
    }

    /// Bytes received since, rounded up by less than a megabyte, now that `bytes` have been
    /// received.
    fn age(self, bytes: u64) -> u64 {
        bytes - (u64::from(self.megabytes) << 20)
    }
}

/// Two marks; `last` is the later one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Paws {
    before: Mark,
    last: Mark,
}

/// Bytes between two marks: an eighth of the sequence space.
const APART: u64 = 1 << 29;
/// Bytes after which a mark proves nothing: half of the sequence space.
const TOO_OLD: u64 = 1 << 31;

impl Paws {
    /// The timestamp of the peer's SYN.
    pub(crate) fn new(value: u32) -> Paws {
        let mark = Mark::new(value, 0);
        Paws { before: mark, last: mark }
    }

    /// `recent` is TS.Recent after `bytes` received. To be called often; each call may set a mark.
    pub(crate) fn note(&mut self, recent: u32, bytes: u64) {
        let mark = Mark::new(recent, bytes);
        if self.before.age(bytes) >= TOO_OLD {
            *self = Paws { before: mark, last: mark };
        } else if self.last.age(bytes) >= APART {
            *self = Paws { before: self.last, last: mark };
        }
    }

    /// `value` is older than TS.Recent: was the segment nevertheless sent recently enough that its
    /// sequence number cannot have wrapped, now that `bytes` have been received?
    pub(crate) fn is_of_this_life(&self, value: u32, bytes: u64) -> bool {
        SeqNumber(value).ge(SeqNumber(self.before.value)) && self.before.age(bytes) < TOO_OLD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1 << 30;

    #[test]
    fn what_is_late_is_of_this_life_and_what_is_four_gigabytes_old_is_not() {
        let mut paws = Paws::new(1000);
        assert!(paws.is_of_this_life(1000, 0) && !paws.is_of_this_life(999, 0));
        // One millisecond per 100 KB: 4 GB take 43 s.
        for step in 1..400_000u64 {
            let (value, bytes) = (1000 + step as u32, step * 100_000);
            if step % 50 == 0 {
                paws.note(value, bytes);
            }
            assert!(step < 100 || paws.is_of_this_life(value - 100, bytes), "{step}");
            let wrapped = value.wrapping_sub(22_000);
            assert!(step < 22_000 || !paws.is_of_this_life(wrapped, bytes), "{step}");
        }
    }

    #[test]
    fn after_a_long_time_unobserved_nothing_old_is_believed_until_it_is_newer() {
        let mut paws = Paws::new(1000);
        assert!(!paws.is_of_this_life(5000, 3 * GB));
        paws.note(6000, 3 * GB);
        assert!(!paws.is_of_this_life(5000, 3 * GB) && paws.is_of_this_life(6000, 3 * GB + 1));
    }
}
