//! Port numbers of an outside address: which are of this shard, and which are in use.
//!
//! Called by: `mappings.rs` and the files below it; the steering of frames asks
//! [`Shards::of_outside`]. A free port is found in a bitmap of two levels, by at most 34 words of
//! memory, whether the address is empty or nearly full. RFC 4787 REQ-3, RFC 6056 section 3.

use wire::protocol;

/// Ports of sockets that a search passes over before it gives up.
const BOUND_TRIES: usize = 64;

/// Ports of a word of a bitmap; a shard's ports come in runs of at least as many.
const WORD: u32 = 64;

/// The shards of a router, and which of them this one is.
///
/// A packet from the inside comes to the shard of its source address, because all flows of an
/// inside endpoint have one mapping (RFC 4787 REQ-1), and all endpoints of a host one outside
/// address (REQ-2). A packet from the outside shows only the outside endpoint. So the port number
/// says which shard made the mapping: port numbers are dealt to the shards in runs of equal length,
/// in turn, and each shard takes from its own. Both directions of a flow meet in one shard, and no
/// shard asks another. A port can be kept only if it is one of the shard's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shards {
    index: u16,
    count: u16,
    /// Ports of a run, as a power of two, 6 to 12.
    run_bits: u8,
}

impl Shards {
    /// The longest block of ports that a source can get.
    pub const BLOCK_MAX: u16 = 4_096;

    /// One shard that has all ports.
    pub const ALONE: Shards = Shards { index: 0, count: 1, run_bits: 12 };

    /// Shard `index` of `count`, where each shard has at least eight runs of ports, of 4,096 at
    /// most. `None` as for [`Shards::new`].
    #[must_use]
    pub fn of_count(index: usize, count: usize) -> Option<Shards> {
        let runs = count.checked_mul(8)?.checked_next_power_of_two()?;
        let run = (1_usize << 16).checked_div(runs)?.clamp(WORD as usize, 4_096);
        Shards::new(index, count, run as u16)
    }

    /// Which shard this one is.
    #[must_use]
    pub fn index(&self) -> usize {
        usize::from(self.index)
    }

    /// How many shards there are.
    #[must_use]
    pub fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// The longest block that a source can get here.
    #[must_use]
    pub fn block_max(&self) -> u16 {
        self.run_len()
    }

    /// The least number of ports in a row of which each shard has some, whichever they are.
    #[must_use]
    pub fn range_min(&self) -> u32 {
        u32::from(self.run_len()) * u32::from(self.count)
    }

    /// Shard `index` of `count`, where blocks of a source have up to `block` ports. All shards need
    /// the same `count` and `block`. `None` if `index` is not below `count`, or if there are more
    /// shards than runs of ports.
    pub fn new(index: usize, count: usize, block: u16) -> Option<Shards> {
        let run_bits = match u32::from(block.max(WORD as u16)).next_power_of_two() {
            run if run <= u32::from(Shards::BLOCK_MAX) => run.ilog2() as u8,
            _ => return None,
        };
        let shards = Shards { index: index as u16, count: count as u16, run_bits };
        (index < count && count <= 1 << (16 - run_bits)).then_some(shards)
    }

    /// The shard of packets from the outside for this port or echo identifier. An ICMP error goes
    /// by the source port of the packet that it quotes, because that one is the outside port.
    /// Protocols without ports go to the first shard, in both directions.
    #[inline]
    pub fn of_outside(&self, protocol: u8, port: u16) -> usize {
        if !has_ports(protocol) {
            return 0;
        }
        usize::from(port >> self.run_bits) % usize::from(self.count)
    }

    /// Is a protocol without ports handled here?
    pub(super) fn is_first(&self) -> bool {
        self.index == 0
    }

    /// The number of a port among the shard's own.
    #[inline]
    pub(super) fn local(&self, port: u16) -> Option<u16> {
        let run = port >> self.run_bits;
        let in_run = port & self.run_mask();
        (run % self.count == self.index).then(|| (run / self.count) << self.run_bits | in_run)
    }

    /// The port with this number among the shard's own.
    #[inline]
    pub(super) fn port(&self, local: u16) -> u16 {
        let run = local >> self.run_bits;
        (run * self.count + self.index) << self.run_bits | (local & self.run_mask())
    }

    /// The shard's own numbers for `first` to `last`: the first and the last one.
    pub(super) fn range(&self, first: u16, last: u16) -> Option<(u16, u16)> {
        let (index, count) = (u32::from(self.index), u32::from(self.count));
        let run_of = |port: u16| u32::from(port >> self.run_bits);
        // The first own run at or behind that of `first`, the last one at or before that of `last`.
        let low = run_of(first) + (index + count - run_of(first) % count) % count;
        let high = run_of(last).checked_sub((run_of(last) % count + count - index) % count)?;
        let low_in = if low == run_of(first) { first & self.run_mask() } else { 0 };
        let high_in = if high == run_of(last) { last & self.run_mask() } else { self.run_mask() };
        let low = ((low / count) << self.run_bits) | u32::from(low_in);
        let high = ((high / count) << self.run_bits) | u32::from(high_in);
        (low <= high).then_some((low as u16, high as u16))
    }

    /// Has each shard one of the ports from `first` to `last`?
    #[must_use]
    pub fn all_have(&self, first: u16, last: u16) -> bool {
        let shard = |index| Shards { index, ..*self };
        (0..self.count).all(|index| shard(index).range(first, last).is_some())
    }

    /// Ports of a run, which is the longest block of a source.
    pub(super) fn run_len(&self) -> u16 {
        1 << self.run_bits
    }

    fn run_mask(&self) -> u16 {
        (1 << self.run_bits) - 1
    }

    /// Words of a bitmap of the shard's ports.
    fn words(&self) -> usize {
        let runs = (1_usize << (16 - self.run_bits)).div_ceil(usize::from(self.count));
        runs << (self.run_bits - 6)
    }
}

/// Protocols whose ports or identifiers are translated. Of all others the addresses alone are.
pub(super) fn has_ports(protocol: u8) -> bool {
    matches!(protocol, protocol::TCP | protocol::UDP | protocol::ICMP | protocol::ICMPV6)
}

/// A bit for each word of a bitmap.
pub(super) type Words = [u64; 16];

/// Is the bit of `word` set?
pub(super) fn has_word(words: &Words, word: usize) -> bool {
    words.get(word / 64).is_some_and(|bits| bits >> (word % 64) & 1 != 0)
}

/// Set or clear the bit of `word`.
pub(super) fn set_word(words: &mut Words, word: usize, is_set: bool) {
    if let Some(bits) = words.get_mut(word / 64) {
        *bits = *bits & !(1 << (word % 64)) | u64::from(is_set) << (word % 64);
    }
}

/// Which of a shard's ports are in use, for one outside address and protocol: 8 KB for all ports.
#[derive(Clone, Debug)]
pub(super) struct Bitmap {
    used: Box<[u64]>,
    /// Words without a free port.
    full: Words,
    /// Words with a used port.
    any: Words,
}

impl Bitmap {
    pub(super) fn new(shards: &Shards) -> Bitmap {
        Bitmap { used: vec![0; shards.words()].into(), full: [0; 16], any: [0; 16] }
    }

    /// Words with a used port.
    pub(super) fn any(&self) -> &Words {
        &self.any
    }

    pub(super) fn is_used(&self, local: u16) -> bool {
        let word = self.used.get(usize::from(local) / 64);
        word.is_none_or(|word| word >> (local % 64) & 1 != 0)
    }

    /// Mark a port as used or as free.
    pub(super) fn set(&mut self, local: u16, is_used: bool) {
        let at = usize::from(local) / 64;
        let Some(word) = self.used.get_mut(at) else { return };
        *word = *word & !(1 << (local % 64)) | u64::from(is_used) << (local % 64);
        let word = *word;
        set_word(&mut self.full, at, word == u64::MAX);
        set_word(&mut self.any, at, word != 0);
    }

    /// A free port from `low` to `high`, outside of the words of `skip`. The search begins in a
    /// random word, and takes a random one of its free ports (RFC 6056).
    pub(super) fn find(&self, (low, high): (u16, u16), skip: &Words, random: u64) -> Option<u16> {
        let (low_word, high_word) = (usize::from(low) / 64, usize::from(high) / 64);
        let count = high_word.checked_sub(low_word)? + 1;
        let start = low_word + (((random & 0xffff_ffff) * count as u64) >> 32) as usize;
        let turn = (random >> 32) as u32 % 64;
        [(start, high_word + 1), (low_word, start)].into_iter().find_map(|(mut from, to)| {
            while let Some(word) = self.next_word(from, to, skip) {
                let mut free = !self.used.get(word).copied().unwrap_or(u64::MAX);
                if word == low_word {
                    free &= u64::MAX << (low % 64);
                }
                if word == high_word {
                    free &= u64::MAX >> (63 - high % 64);
                }
                if free != 0 {
                    let bit = (free.rotate_right(turn).trailing_zeros() + turn) % 64;
                    return Some((word * 64) as u16 | bit as u16);
                }
                from = word + 1;
            }
            None
        })
    }

    /// [`Bitmap::find`] for a port that no socket of the router has. Ports that sockets have are
    /// passed over, up to [`BOUND_TRIES`] of them, each time from another place on.
    pub(super) fn find_unbound(
        &mut self,
        range: (u16, u16),
        skip: &Words,
        random: u64,
        is_bound: &dyn Fn(u16) -> bool,
    ) -> Option<u16> {
        let (mut passed_over, mut random) = (Vec::new(), random);
        let found = loop {
            let Some(local) = self.find(range, skip, random) else { break None };
            if !is_bound(local) {
                break Some(local);
            }
            if passed_over.len() >= BOUND_TRIES {
                break None;
            }
            self.set(local, true);
            passed_over.push(local);
            random = random.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        };
        for local in passed_over {
            self.set(local, false);
        }
        found
    }

    /// The first word from `from` to below `to` that is not full and not in `skip`.
    fn next_word(&self, mut from: usize, to: usize, skip: &Words) -> Option<usize> {
        while from < to {
            let at = from / 64;
            let taken = *self.full.get(at)? | *skip.get(at)?;
            let open = !taken & (u64::MAX << (from % 64));
            if open != 0 {
                let word = at * 64 + open.trailing_zeros() as usize;
                return (word < to).then_some(word);
            }
            from = (at + 1) * 64;
        }
        None
    }

    /// The used ports, lowest first.
    pub(super) fn used(&self) -> impl Iterator<Item = u16> {
        let words = self.used.iter().enumerate().filter(|(_, word)| **word != 0);
        words.flat_map(|(at, word)| {
            let bits = (0..64_u16).filter(move |bit| word >> bit & 1 != 0);
            bits.map(move |bit| (at as u16 * 64) | bit)
        })
    }
}

/// The first of `len` words, a power of two up to 64 and its multiple, that are in none of `taken`,
/// within whole words from port `low` to `high`.
pub(super) fn find_run(taken: &Words, len: usize, (low, high): (u16, u16)) -> Option<usize> {
    let (first, end) = (usize::from(low).div_ceil(64), (usize::from(high) + 1) / 64);
    // One bit in `len`.
    let aligned = u64::MAX / if len >= 64 { u64::MAX } else { (1 << len) - 1 };
    let found = taken.iter().enumerate().find_map(|(at, taken)| {
        let below = first.saturating_sub(at * 64).min(64);
        let mut open = if below == 64 { 0 } else { !taken & u64::MAX << below };
        // A bit stays if all `len` bits from it on are open.
        for step in [1, 2, 4, 8, 16, 32].into_iter().take_while(|step| *step < len) {
            open &= open >> step;
        }
        let open = open & aligned;
        (open != 0).then(|| at * 64 + open.trailing_zeros() as usize)
    });
    found.filter(|word| word + len <= end)
}

#[cfg(test)]
mod tests;
