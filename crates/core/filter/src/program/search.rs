//! From a value of a field to the class of its interval: a table, an index in front of a short
//! search, and a tree whose nodes are cache lines.
//!
//! Called by: `matcher`, for each packet. Cost, with random keys among a million networks: `Split`
//! reads its index (256 KB for IPv4), then the boundaries of one /16, which are 16 bits each, so
//! that a cache line has 32. `Tree` reads one line for each three bits of the number of its
//! boundaries; all but the last three levels fit in a second-level cache.

use super::sweep::Intervals;
use crate::packet::ROUTER;

/// Ports of the router and TCP flags: a class for each value.
#[derive(Debug)]
pub(super) struct Direct {
    /// By value; the last one is also that of all values behind.
    table: Vec<u16>,
    router: u16,
}

impl Direct {
    pub(super) fn new(intervals: &Intervals<u32>) -> Direct {
        let mut table = Vec::new();
        let mut router = 0;
        let values = intervals.begins.iter().filter(|(begin, _)| *begin <= u32::from(ROUTER));
        for &(begin, class) in values {
            router = class;
            if begin < u32::from(ROUTER) {
                let before = table.last().copied().unwrap_or(class);
                table.resize(begin as usize, before);
                table.push(class);
            }
        }
        Direct { table, router }
    }

    #[inline]
    pub(super) fn find(&self, value: u16) -> u16 {
        match value {
            ROUTER => self.router,
            _ => {
                let last = self.table.len().saturating_sub(1);
                self.table.get(usize::from(value).min(last)).copied().unwrap_or(0)
            }
        }
    }
}

/// Of an entry of the index: the class is in it, because no interval begins behind the first value.
const UNIFORM: u32 = 1 << 31;

/// Of a part: only two classes alternate in it, as where nothing but a set begins and ends.
const ALTERNATE: u16 = 1 << 15;
/// Of a part: there are two classes, and they change at multiples of 256 only, as in a set of /24s.
const BITS: u16 = 1 << 14;
/// The most intervals that a part may have to be short.
const SHORT: usize = BITS as usize - 1;
/// Beginnings that take more than the bits do.
const BITS_MIN: usize = 16;

/// Values of up to 32 bits: an index by their upper bits, and for each entry the lower 16 bits at
/// which intervals begin.
#[derive(Debug)]
pub(super) struct Split {
    /// `UNIFORM` and a class, or where in `data` the entry's part begins.
    index: Vec<u32>,
    /// For each entry that is not uniform a part: the number n of intervals that begin behind its
    /// first value, and behind it
    /// - with `BITS`: two classes, and for each 256 values a bit that says which;
    /// - with `ALTERNATE`: two classes in turn, and n beginnings;
    /// - with neither: n beginnings, and n + 1 classes. From `SHORT` on, the number is `SHORT`, and
    ///   the real one is in the next two words.
    data: Vec<u16>,
}

impl Split {
    /// `entries` × 65,536 values in all.
    pub(super) fn new(intervals: &Intervals<u32>, entries: u32) -> Split {
        let mut split = Split { index: Vec::with_capacity(entries as usize), data: Vec::new() };
        let mut rest = intervals.begins.iter().copied().peekable();
        let mut class = 0;
        let (mut lows, mut classes) = (Vec::new(), Vec::new());
        for upper in 0..entries {
            if let Some((_, first)) = rest.next_if(|&(begin, _)| begin == upper << 16) {
                class = first;
            }
            lows.clear();
            classes.clear();
            classes.push(class);
            while let Some((begin, next)) = rest.next_if(|&(begin, _)| begin >> 16 == upper) {
                lows.push(begin as u16);
                classes.push(next);
                class = next;
            }
            if lows.is_empty() {
                split.index.push(UNIFORM | u32::from(class));
            } else {
                split.index.push(split.data.len() as u32);
                split.add(&lows, &classes);
            }
        }
        split.data.shrink_to_fit();
        split
    }

    fn add(&mut self, lows: &[u16], classes: &[u16]) {
        let mut pairs = classes.iter().zip(classes.iter().skip(2));
        let alternate = pairs.all(|(one, next)| one == next);
        if alternate && lows.len() > BITS_MIN && lows.iter().all(|low| low % 256 == 0) {
            self.data.push(BITS);
            self.data.extend(classes.iter().take(2));
            let bit = |granule: u16| (rank(lows, granule * 256) % 2) as u16;
            let word = |first: u16| (0..16).fold(0, |bits, n| bits | bit(first + n) << n);
            self.data.extend((0..256).step_by(16).map(word));
            return;
        }
        if alternate && lows.len() < SHORT {
            self.data.push(ALTERNATE | lows.len() as u16);
            self.data.extend(classes.iter().take(2));
            self.data.extend(lows);
            return;
        }
        self.data.push(lows.len().min(SHORT) as u16);
        if lows.len() >= SHORT {
            self.data.extend([(lows.len() >> 16) as u16, lows.len() as u16]);
        }
        self.data.extend(lows);
        self.data.extend(classes);
    }

    #[inline]
    pub(super) fn find(&self, value: u32) -> u16 {
        let entry = self.index.get((value >> 16) as usize).copied().unwrap_or(UNIFORM);
        if entry & UNIFORM != 0 { entry as u16 } else { self.find_in(entry as usize, value as u16) }
    }

    #[inline]
    fn find_in(&self, at: usize, low: u16) -> u16 {
        let part = self.data.get(at..).unwrap_or(&[]);
        let Some((&head, rest)) = part.split_first() else { return 0 };
        let count = usize::from(head & !ALTERNATE);
        if head & (ALTERNATE | BITS) != 0 {
            let Some((classes, rest)) = rest.split_first_chunk::<2>() else { return 0 };
            if head & BITS != 0 {
                let word = rest.get(usize::from(low >> 12)).copied().unwrap_or(0);
                return classes[usize::from(word >> (low >> 8 & 15) & 1)];
            }
            let behind = rank(rest.get(..count).unwrap_or(&[]), low);
            return classes[behind % 2];
        }
        let (count, rest) = match rest.split_first_chunk::<2>() {
            Some((&[high, low], rest)) if count == SHORT => {
                (usize::from(high) << 16 | usize::from(low), rest)
            }
            _ => (count, rest),
        };
        let Some((lows, classes)) = rest.split_at_checked(count) else { return 0 };
        classes.get(rank(lows, low)).copied().unwrap_or(0)
    }
}

/// How many intervals begin up to `low`.
#[inline]
fn rank(lows: &[u16], low: u16) -> usize {
    lows.partition_point(|&begin| begin <= low)
}

/// Keys of a node: a cache line.
const KEYS: usize = 8;

#[derive(Clone, Debug)]
#[repr(align(64))]
struct Node([u64; KEYS]);

/// Keys of a leaf, which has their values beside them: a cache line too.
const LEAF: usize = 5;

#[derive(Clone, Debug)]
#[repr(align(64))]
struct Leaf {
    /// In order; filled up with the last one.
    keys: [u64; LEAF],
    /// Of each key a class, or `HALVES` and an index of `lists`.
    values: [u32; LEAF],
}

/// Of a leaf's value: the interval is one value of the upper half, whose lower halves differ.
const HALVES: u32 = 1 << 31;

/// IPv6 addresses: a tree of their upper halves, and for each upper half with longer prefixes than
/// 64 bits a sorted list of lower halves.
#[derive(Debug)]
pub(super) struct Tree {
    /// All levels above the leaves, the root first. A node has the first keys of its children, in
    /// order; the rest of the last node of a level is `u64::MAX`.
    nodes: Vec<Node>,
    /// For each level its first node, and how many keys it has.
    levels: Vec<(u32, u32)>,
    leaves: Vec<Leaf>,
    /// Where a list begins in `lows` and `low_classes`, and its length.
    lists: Vec<(u32, u32)>,
    lows: Vec<u64>,
    low_classes: Vec<u16>,
}

impl Tree {
    pub(super) fn new(intervals: &Intervals<u128>) -> Tree {
        let mut tree = Tree {
            nodes: Vec::new(),
            levels: Vec::new(),
            leaves: Vec::new(),
            lists: Vec::new(),
            lows: Vec::new(),
            low_classes: Vec::new(),
        };
        let keys = tree.halve(intervals);
        tree.plant(&keys);
        tree
    }

    /// Split intervals into those of upper halves, which are returned with their values, and lists
    /// of lower halves.
    fn halve(&mut self, intervals: &Intervals<u128>) -> Vec<(u64, u32)> {
        let mut keys: Vec<(u64, u32)> = Vec::new();
        let mut rest = intervals.begins.iter().copied().peekable();
        let mut class = 0;
        // The upper half behind one with a list begins with the class that the list ends with.
        let mut behind: Option<u64> = None;
        while let Some(&(begin, _)) = rest.peek() {
            let upper = (begin >> 64) as u64;
            if let Some(next) = behind.take().filter(|&next| next != upper) {
                keys.push((next, u32::from(class)));
            }
            if let Some((_, first)) = rest.next_if(|&(begin, _)| begin as u64 == 0) {
                class = first;
            }
            let is_same = |begin: u128| (begin >> 64) as u64 == upper;
            if rest.peek().is_none_or(|&(begin, _)| !is_same(begin)) {
                keys.push((upper, u32::from(class)));
                continue;
            }
            let start = self.lows.len();
            self.lows.push(0);
            self.low_classes.push(class);
            while let Some((begin, next)) = rest.next_if(|&(begin, _)| is_same(begin)) {
                self.lows.push(begin as u64);
                self.low_classes.push(next);
                class = next;
            }
            keys.push((upper, HALVES | self.lists.len() as u32));
            self.lists.push((start as u32, (self.lows.len() - start) as u32));
            behind = upper.checked_add(1);
        }
        if let Some(next) = behind {
            keys.push((next, u32::from(class)));
        }
        keys
    }

    /// The leaves of sorted keys, which begin with 0, and the levels above them.
    fn plant(&mut self, keys: &[(u64, u32)]) {
        for part in keys.chunks(LEAF) {
            let last = part.last().copied().unwrap_or((0, 0));
            let at = |n: usize| part.get(n).copied().unwrap_or(last);
            let keys = core::array::from_fn(|n| at(n).0);
            self.leaves.push(Leaf { keys, values: core::array::from_fn(|n| at(n).1) });
        }
        let mut levels = vec![self.leaves.iter().map(|leaf| leaf.keys[0]).collect::<Vec<u64>>()];
        while let Some(last) = levels.last().filter(|last| last.len() > KEYS) {
            let firsts: Vec<u64> = last.iter().step_by(KEYS).copied().collect();
            levels.push(firsts);
        }
        for level in levels.iter().rev() {
            self.levels.push((self.nodes.len() as u32, level.len() as u32));
            for keys in level.chunks(KEYS) {
                let mut node = Node([u64::MAX; KEYS]);
                node.0[..keys.len()].copy_from_slice(keys);
                self.nodes.push(node);
            }
        }
    }

    #[inline]
    pub(super) fn find(&self, value: u128) -> u16 {
        let upper = (value >> 64) as u64;
        let mut at = 0usize;
        for &(first, keys) in &self.levels {
            let Some(node) = self.nodes.get(first as usize + at) else { return 0 };
            let behind: usize = node.0.iter().map(|&key| usize::from(key <= upper)).sum();
            // Only `u64::MAX` finds the filling of the last node, and belongs to the last key.
            at = (at * KEYS + behind.saturating_sub(1)).min((keys as usize).saturating_sub(1));
        }
        let Some(leaf) = self.leaves.get(at) else { return 0 };
        let behind: usize = leaf.keys.iter().map(|&key| usize::from(key <= upper)).sum();
        let found = leaf.values.get(behind.saturating_sub(1)).copied().unwrap_or(0);
        if found & HALVES == 0 {
            found as u16
        } else {
            self.find_low(found & !HALVES, value as u64)
        }
    }

    fn find_low(&self, list: u32, low: u64) -> u16 {
        let &(start, len) = self.lists.get(list as usize).unwrap_or(&(0, 0));
        let (start, end) = (start as usize, start as usize + len as usize);
        let lows = self.lows.get(start..end).unwrap_or(&[]);
        let behind = lows.partition_point(|&begin| begin <= low).saturating_sub(1);
        self.low_classes.get(start + behind).copied().unwrap_or(0)
    }
}
