//! From a value of a field to the class of its interval: tables, and for addresses a trie.
//!
//! Called by: `matcher`, for each packet. Cost with random addresses among a million networks: the
//! trie reads its root (256 KB), and for each 16 bits more a node, whose boundaries are 16 bits
//! each, so that a cache line has 32 of them. An IPv4 address takes one node at most; an IPv6
//! address as many as the longest prefix around it has digits behind the first.

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

/// Services: for each protocol a class, or a table of ports.
#[derive(Debug)]
pub(super) struct Services {
    /// By protocol: where its part of `table` begins, and its length. The last class of a part is
    /// that of all ports behind, so that few ports take little memory.
    parts: Vec<(u32, u32)>,
    table: Vec<u16>,
}

impl Services {
    /// Of intervals of `protocols` × 65,536 values.
    pub(super) fn new(intervals: &Intervals<u32>, protocols: u32) -> Services {
        let mut services = Services { parts: Vec::new(), table: Vec::new() };
        let mut rest = intervals.begins.iter().copied().peekable();
        let mut class = 0;
        for protocol in 0..protocols {
            let start = services.table.len();
            if let Some((_, first)) = rest.next_if(|&(begin, _)| begin == protocol << 16) {
                class = first;
            }
            services.table.push(class);
            while let Some((begin, next)) = rest.next_if(|&(begin, _)| begin >> 16 == protocol) {
                services.table.resize(start + usize::from(begin as u16), class);
                services.table.push(next);
                class = next;
            }
            services.parts.push((start as u32, (services.table.len() - start) as u32));
        }
        services
    }

    #[inline]
    pub(super) fn find(&self, value: u32) -> u16 {
        let &(start, len) = self.parts.get((value >> 16) as usize).unwrap_or(&(0, 1));
        let at = start + (value & 0xffff).min(len.wrapping_sub(1));
        self.table.get(at as usize).copied().unwrap_or(0)
    }
}

/// Of an entry: it is a class, not a node.
const CLASS: u32 = 1 << 31;

/// The kind of a node, above the number of its boundaries: two classes in turn.
const ALTERNATE: u16 = 0 << KIND_SHIFT;
/// Two classes that change at multiples of 256 only, as in a set of /24s: a bit for each 256.
const BITS: u16 = 1 << KIND_SHIFT;
/// Classes.
const CLASSES: u16 = 2 << KIND_SHIFT;
/// Entries, of two words each.
const ENTRIES: u16 = 3 << KIND_SHIFT;
/// An entry for each digit.
const TABLE: u16 = 4 << KIND_SHIFT;
/// Classes, behind an index by the upper 8 bits.
const INDEXED_CLASSES: u16 = 5 << KIND_SHIFT;
/// Entries, behind the same index.
const INDEXED_ENTRIES: u16 = 6 << KIND_SHIFT;
const KIND_SHIFT: u32 = 13;
const COUNT_MASK: u16 = (1 << KIND_SHIFT) - 1;

/// Boundaries that take more than the bits do.
const BITS_MIN: usize = 16;
/// Boundaries from which on they have an index: it takes 8 bytes for each of them at most.
const INDEX_MIN: usize = 64;
/// Boundaries from which on a node is a table: it takes 32 bytes for each of them at most.
const TABLE_MIN: usize = 1 << KIND_SHIFT;

/// Addresses: a trie by digits of 16 bits.
#[derive(Debug)]
pub(super) struct Trie {
    /// By the first digit an entry: `CLASS` and a class, or where in `nodes` a node begins.
    root: Vec<u32>,
    /// Nodes: kind and number n of boundaries, and behind it
    /// - `ALTERNATE`: two classes, n boundaries in order;
    /// - `BITS`: two classes, 256 bits;
    /// - `CLASSES`: n boundaries, n + 1 classes;
    /// - `ENTRIES`: n boundaries, n + 1 entries, the high word first;
    /// - `INDEXED_CLASSES`, `INDEXED_ENTRIES`: how many boundaries lie before each multiple of 256,
    ///   then the same;
    /// - `TABLE`: 65,536 entries.
    nodes: Vec<u16>,
}

impl Trie {
    /// Of addresses of `bits` bits.
    pub(super) fn new<K: Copy + Into<u128>>(intervals: &Intervals<K>, bits: u32) -> Trie {
        let mut trie = Trie { root: Vec::new(), nodes: Vec::new() };
        let begins: Vec<(u128, u16)> =
            intervals.begins.iter().map(|&(begin, class)| (begin.into(), class)).collect();
        let (lows, entries) = trie.digits(&begins, 0, bits.saturating_sub(16));
        let mut root = Vec::with_capacity(1 << 16);
        spread(&lows, &entries, |entry| root.push(entry));
        trie.root = root;
        trie.nodes.shrink_to_fit();
        trie
    }

    /// The boundaries of one digit, and the entries between them. `begins` agree in all digits
    /// before; `class` is that of the values before the first of them.
    fn digits(&mut self, begins: &[(u128, u16)], class: u16, shift: u32) -> (Vec<u16>, Vec<u32>) {
        let (mut lows, mut entries) = (Vec::new(), vec![CLASS | u32::from(class)]);
        let mut set = |low: u16, entry: u32| match low {
            0 => entries = vec![entry],
            _ => {
                lows.push(low);
                entries.push(entry);
            }
        };
        let (mut class, mut before) = (class, None);
        let digit = |begin: u128| (begin >> shift) as u16;
        for group in begins.chunk_by(|one, next| digit(one.0) == digit(next.0)) {
            let Some(&(first, first_class)) = group.first() else { continue };
            let low = digit(first);
            // Behind a digit with a node the class goes on that the node ends with.
            if let Some(next) = before.take().filter(|&next| next < low) {
                set(next, CLASS | u32::from(class));
            }
            let is_exact = first & ((1 << shift) - 1) == 0;
            let (inner, at_first) =
                if is_exact { (&group[1..], first_class) } else { (group, class) };
            if inner.is_empty() {
                set(low, CLASS | u32::from(at_first));
            } else {
                set(low, self.node(inner, at_first, shift.saturating_sub(16)));
                before = low.checked_add(1);
            }
            class = group.last().map_or(class, |&(_, last)| last);
        }
        if let Some(next) = before {
            set(next, CLASS | u32::from(class));
        }
        (lows, entries)
    }

    /// Add a node, and those below it.
    fn node(&mut self, begins: &[(u128, u16)], class: u16, shift: u32) -> u32 {
        let (lows, entries) = self.digits(begins, class, shift);
        let start = self.nodes.len() as u32;
        let count = lows.len() as u16;
        let have_classes = entries.iter().all(|entry| entry & CLASS != 0);
        let mut pairs = entries.iter().zip(entries.iter().skip(2));
        let alternate = have_classes && pairs.all(|(one, next)| one == next);
        let two = entries.iter().take(2).map(|&entry| entry as u16);
        if alternate && lows.len() > BITS_MIN && lows.iter().all(|low| low % 256 == 0) {
            self.nodes.push(BITS);
            self.nodes.extend(two);
            let bit = |granule: u16| (rank(&lows, granule * 256) % 2) as u16;
            let word = |first: u16| (0..16).fold(0, |bits, n| bits | bit(first + n) << n);
            self.nodes.extend((0..256).step_by(16).map(word));
        } else if lows.len() >= TABLE_MIN {
            self.nodes.push(TABLE);
            spread(&lows, &entries, |entry| self.nodes.extend(halves(entry)));
        } else if alternate && (1..INDEX_MIN).contains(&lows.len()) {
            self.nodes.push(ALTERNATE | count);
            self.nodes.extend(two.chain(lows));
        } else {
            let is_indexed = lows.len() >= INDEX_MIN;
            self.nodes.push(
                count
                    | match (have_classes, is_indexed) {
                        (true, true) => INDEXED_CLASSES,
                        (true, false) => CLASSES,
                        (false, true) => INDEXED_ENTRIES,
                        (false, false) => ENTRIES,
                    },
            );
            if is_indexed {
                let before = |upper: u16| lows.partition_point(|&low| low < upper << 8) as u16;
                self.nodes.extend((0..256).map(before));
            }
            self.nodes.extend(lows);
            match have_classes {
                true => self.nodes.extend(entries.iter().map(|&entry| entry as u16)),
                false => self.nodes.extend(entries.iter().flat_map(|&entry| halves(entry))),
            }
        }
        start
    }

    #[inline]
    pub(super) fn find_v4(&self, addr: u32) -> u16 {
        let entry = self.root.get((addr >> 16) as usize).copied().unwrap_or(CLASS);
        if entry & CLASS != 0 { entry as u16 } else { self.step(entry, addr as u16) as u16 }
    }

    #[inline]
    pub(super) fn find_v6(&self, addr: u128) -> u16 {
        let mut entry = self.root.get((addr >> 112) as usize).copied().unwrap_or(CLASS);
        let mut rest = addr << 16;
        while entry & CLASS == 0 {
            entry = self.step(entry, (rest >> 112) as u16);
            rest <<= 16;
        }
        entry as u16
    }

    /// The entry of a digit in a node.
    #[inline]
    fn step(&self, at: u32, digit: u16) -> u32 {
        let none = CLASS;
        let node = self.nodes.get(at as usize..).unwrap_or(&[]);
        let Some((&head, rest)) = node.split_first() else { return none };
        let count = usize::from(head & COUNT_MASK);
        let class = |class: u16| CLASS | u32::from(class);
        match head & !COUNT_MASK {
            kind @ (ALTERNATE | BITS) => {
                let Some((classes, rest)) = rest.split_first_chunk::<2>() else { return none };
                if kind == BITS {
                    let word = rest.get(usize::from(digit >> 12)).copied().unwrap_or(0);
                    return class(classes[usize::from(word >> (digit >> 8 & 15) & 1)]);
                }
                class(classes[rank(rest.get(..count).unwrap_or(&[]), digit) % 2])
            }
            CLASSES => {
                let Some((lows, classes)) = rest.split_at_checked(count) else { return none };
                classes.get(rank(lows, digit)).map_or(none, |&found| class(found))
            }
            ENTRIES => {
                let Some((lows, entries)) = rest.split_at_checked(count) else { return none };
                joined(entries, rank(lows, digit))
            }
            kind @ (INDEXED_CLASSES | INDEXED_ENTRIES) => {
                let Some((index, rest)) = rest.split_first_chunk::<256>() else { return none };
                let Some((lows, entries)) = rest.split_at_checked(count) else { return none };
                let at = rank_by(index, lows, digit);
                match kind {
                    INDEXED_CLASSES => entries.get(at).map_or(none, |&found| class(found)),
                    _ => joined(entries, at),
                }
            }
            _ => joined(rest, usize::from(digit)),
        }
    }
}

/// How many boundaries are at or before `digit`.
#[inline]
fn rank(lows: &[u16], digit: u16) -> usize {
    lows.partition_point(|&low| low <= digit)
}

/// The same with an index.
#[inline]
fn rank_by(index: &[u16; 256], lows: &[u16], digit: u16) -> usize {
    let upper = usize::from(digit >> 8);
    let from = usize::from(index[upper]);
    let to = index.get(upper + 1).map_or(lows.len(), |&to| usize::from(to));
    from + rank(lows.get(from..to).unwrap_or(&[]), digit)
}

fn halves(entry: u32) -> [u16; 2] {
    [(entry >> 16) as u16, entry as u16]
}

/// Entry number `at` of entries in two words each.
#[inline]
fn joined(entries: &[u16], at: usize) -> u32 {
    match entries.get(at * 2..at * 2 + 2) {
        Some(&[high, low]) => u32::from(high) << 16 | u32::from(low),
        _ => CLASS,
    }
}

/// The entry of each of 65,536 digits.
fn spread(lows: &[u16], entries: &[u32], mut put: impl FnMut(u32)) {
    let ends = lows.iter().map(|&low| u32::from(low)).chain([1 << 16]);
    let mut at = 0;
    for (end, &entry) in ends.zip(entries) {
        (at..end).for_each(|_| put(entry));
        at = end;
    }
}
