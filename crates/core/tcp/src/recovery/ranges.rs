//! A set of sequence numbers as sorted ranges that do not touch, with its size in bytes.
//!
//! Called by: scoreboard, which contains two sets, and the files that read those. Plain data. A
//! lookup is a binary search; most changes are at one of the ends.

use std::collections::VecDeque;

use base::SeqNumber;

/// From the first number up to the one past the last.
pub(crate) type Range = (SeqNumber, SeqNumber);

#[derive(Clone, Debug)]
pub(crate) struct Ranges {
    list: VecDeque<Range>,
    bytes: u32,
}

/// Bytes of a range.
fn len((left, right): Range) -> u32 {
    right.since(left) as u32
}

impl Ranges {
    pub(crate) const EMPTY: Ranges = Ranges { list: VecDeque::new(), bytes: 0 };

    /// Bytes in all ranges.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> u32 {
        self.bytes
    }

    /// The number of ranges.
    pub(crate) fn count(&self) -> usize {
        self.list.len()
    }

    /// The lowest range.
    pub(crate) fn first(&self) -> Option<Range> {
        self.list.front().copied()
    }

    /// The range that contains `seq`.
    pub(crate) fn holding(&self, seq: SeqNumber) -> Option<Range> {
        let index = self.list.partition_point(|&(_, right)| right.le(seq));
        self.list.get(index).copied().filter(|&(left, _)| left.le(seq))
    }

    /// The first part of `left..right` that is in no range.
    pub(crate) fn next_gap(&self, left: SeqNumber, right: SeqNumber) -> Option<Range> {
        let index = self.list.partition_point(|&(_, r)| r.le(left));
        let (left, next) = match self.list.get(index) {
            Some(&(l, r)) if l.le(left) => (r, self.list.get(index + 1)),
            next => (left, next),
        };
        let right = next.map_or(right, |&(l, _)| l.min(right));
        left.lt(right).then_some((left, right))
    }

    /// Add `left..right`, merged with the ranges it touches.
    pub(crate) fn add(&mut self, mut left: SeqNumber, mut right: SeqNumber) {
        if left.ge(right) {
            return;
        }
        let first = self.list.partition_point(|&(_, r)| r.lt(left));
        let mut behind = first;
        while let Some(&(l, r)) = self.list.get(behind)
            && l.le(right)
        {
            left = left.min(l);
            right = right.max(r);
            self.bytes -= len((l, r));
            behind += 1;
        }
        self.bytes += len((left, right));
        if first == behind {
            self.list.insert(first, (left, right));
        } else {
            self.list[first] = (left, right);
            self.list.drain(first + 1..behind);
        }
    }

    /// Remove `left..right`.
    pub(crate) fn remove(&mut self, left: SeqNumber, right: SeqNumber) {
        if left.ge(right) {
            return;
        }
        let mut index = self.list.partition_point(|&(_, r)| r.le(left));
        while let Some(&(l, r)) = self.list.get(index)
            && l.lt(right)
        {
            let (below, above) = ((l, left), (right, r));
            self.bytes -= len((l, r));
            self.list.remove(index);
            for kept in [above, below] {
                if kept.0.lt(kept.1) {
                    self.bytes += len(kept);
                    self.list.insert(index, kept);
                }
            }
            index += usize::from(l.lt(left));
            if right.lt(r) {
                break;
            }
        }
    }

    /// Remove everything before `seq`.
    pub(crate) fn drop_below(&mut self, seq: SeqNumber) {
        while let Some(first) = self.list.front_mut()
            && first.0.lt(seq)
        {
            let end = first.1.min(seq);
            self.bytes -= len((first.0, end));
            first.0 = end;
            if first.0 == first.1 {
                self.list.pop_front();
            }
        }
    }

    /// Remove everything.
    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First number of the reference set, just below where sequence numbers wrap.
    const BASE: SeqNumber = SeqNumber(u32::MAX - 40);

    fn plain(ranges: &Ranges) -> Vec<bool> {
        let mut set = vec![false; 100];
        for &(l, r) in &ranges.list {
            assert!(l.lt(r));
            for n in l.since(BASE)..r.since(BASE) {
                assert!(!set[n as usize]);
                set[n as usize] = true;
            }
        }
        assert_eq!(set.iter().filter(|x| **x).count() as u32, ranges.bytes());
        let list: Vec<Range> = ranges.list.iter().copied().collect();
        for pair in list.windows(2) {
            assert!(pair[0].1.le(pair[1].0));
        }
        set
    }

    #[test]
    fn ranges_do_what_a_set_does() {
        let (mut ranges, mut set) = (Ranges::EMPTY, vec![false; 100]);
        let mut x = 7u64;
        let mut random = |n: u64| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (x >> 33) % n
        };
        for step in 0..20_000 {
            let left = random(90) as usize;
            let right = left + random(10) as usize;
            let (l, r) = (BASE + left as u32, BASE + right as u32);
            match random(8) {
                0..4 => {
                    ranges.add(l, r);
                    set[left..right].fill(true);
                }
                4..7 => {
                    ranges.remove(l, r);
                    set[left..right].fill(false);
                }
                _ if step % 16 == 0 => {
                    ranges.drop_below(l);
                    set[..left].fill(false);
                }
                _ => {}
            }
            assert_eq!(plain(&ranges), set, "step {step}");
            let gap = (left..right).find(|&n| !set[n]);
            let end = gap.map(|g| (g..right).find(|&n| set[n]).unwrap_or(right));
            let expected = gap.zip(end).map(|(a, b)| (BASE + a as u32, BASE + b as u32));
            assert_eq!(ranges.next_gap(l, r), expected, "step {step}");
            assert_eq!(ranges.holding(l).is_some(), set[left]);
        }
    }
}
