//! The index: from the hash of a key to records, by buckets of one cache line.
//!
//! Called by: `states.rs`. A bucket has ten tags of 16 bits and ten entries of 32 bits. A key has
//! two buckets; a new entry goes to the first unless that is full, so that nearly all look-ups read
//! one line. If both are full, one entry moves to its other bucket. Pagh and Rodler, "Cuckoo
//! hashing", 2001; Dietzfelbinger and Weidling for buckets, 2005.
//!
//! It grows by linear hashing (Litwin, 1980): an insertion beyond the load splits one bucket, so no
//! packet ever waits for the whole table. Entries have no hash, so a split asks for the keys of a
//! bucket's records. Buckets are in chunks of 32 KB, which never move.

use mbuf::equal_lanes;

use super::record::Slot;

/// Entries of a bucket.
const WAYS: usize = 10;
/// A bit for each of them.
const PLACES: u32 = (1 << WAYS) - 1;
/// Buckets of a chunk.
const CHUNK: usize = 512;
/// Buckets of an empty index.
const COUNT_MIN: u32 = 64;
/// More would take bits of the tag.
const COUNT_MAX: u32 = 1 << 24;
/// The load, in entries of ten buckets, from which on the index grows. A bucket that is not yet
/// split holds up to twice as many entries as one that is, so this is far below 100. At 45 some 5 %
/// of a million random keys are in their second bucket, and 0.3 % of insertions move an entry.
const LOAD: u64 = 45;

/// A record and which of its keys the entry stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry(u32);

impl Entry {
    /// The entry of the original (0) or the reply (1) key of a record.
    pub(super) const fn new(slot: Slot, which: usize) -> Entry {
        Entry(slot << 1 | which as u32 & 1)
    }

    pub(super) const fn slot(self) -> Slot {
        self.0 >> 1
    }

    pub(super) const fn which(self) -> usize {
        (self.0 & 1) as usize
    }
}

/// Ten tags, four a word, and an entry for each. The last two lanes of the tags are always 0;
/// another tag of 0 is a free place.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Bucket {
    tags: [u64; 3],
    entries: [u32; WAYS],
}

const _: () = assert!(size_of::<Bucket>() == 64);

impl Bucket {
    const EMPTY: Bucket = Bucket { tags: [0; 3], entries: [0; WAYS] };

    /// The entry at a place.
    #[inline(always)]
    fn entry(&self, place: u32) -> Entry {
        Entry(self.entries.get(place as usize).copied().unwrap_or_default())
    }

    fn set(&mut self, place: u32, tag: u16, entry: Entry) {
        let (word, shift) = (place as usize / 4, place % 4 * 16);
        self.tags[word] = self.tags[word] & !(0xffff << shift) | u64::from(tag) << shift;
        self.entries[place as usize] = entry.0;
    }

    fn tag(&self, place: u32) -> u16 {
        (self.tags[place as usize / 4] >> (place % 4 * 16)) as u16
    }

    fn free(&self) -> u32 {
        equal_lanes(&self.tags, 0) & PLACES
    }

    fn insert(&mut self, tag: u16, entry: Entry) -> bool {
        let free = self.free();
        if free != 0 {
            self.set(free.trailing_zeros(), tag, entry);
        }
        free != 0
    }
}

/// The index of one table.
pub(super) struct Index {
    chunks: Vec<Box<[Bucket; CHUNK]>>,
    /// Buckets in use.
    count: u32,
    /// The power of two at or below `count`, less one.
    mask: u32,
    entries: u64,
}

/// The tag of a hash: bits that choose no bucket.
#[inline(always)]
fn tag_of(hash: u64) -> u16 {
    let tag = (hash >> 24) as u8 as u16 | ((hash >> 56) as u16) << 8;
    tag.max(1)
}

impl Index {
    pub(super) fn new() -> Index {
        let mut index =
            Index { chunks: Vec::new(), count: COUNT_MIN, mask: COUNT_MIN - 1, entries: 0 };
        let has_room = index.add_chunk();
        debug_assert!(has_room, "a chunk has the length of a chunk");
        index
    }

    fn add_chunk(&mut self) -> bool {
        match vec![Bucket::EMPTY; CHUNK].try_into() {
            Ok(chunk) => {
                self.chunks.push(chunk);
                true
            }
            Err(_) => false,
        }
    }

    /// The bucket of 32 bits of a hash.
    #[inline(always)]
    fn address(&self, bits: u32) -> u32 {
        let wide = bits & (self.mask << 1 | 1);
        if wide < self.count { wide } else { bits & self.mask }
    }

    #[inline(always)]
    fn addresses(&self, hash: u64) -> [u32; 2] {
        [self.address(hash as u32), self.address((hash >> 32) as u32)]
    }

    #[inline(always)]
    fn bucket(&self, at: u32) -> &Bucket {
        &self.chunks[at as usize / CHUNK][at as usize % CHUNK]
    }

    #[inline(always)]
    fn bucket_mut(&mut self, at: u32) -> &mut Bucket {
        &mut self.chunks[at as usize / CHUNK][at as usize % CHUNK]
    }

    /// The bucket that has the entries of this hash, most likely.
    #[inline(always)]
    pub(super) fn first(&self, hash: u64) -> &Bucket {
        self.bucket(self.address(hash as u32))
    }

    /// The first entry whose tag fits, most likely the one that is meant; `first` is the bucket of
    /// [`Index::first`].
    #[inline(always)]
    pub(super) fn candidate(&self, hash: u64, first: &Bucket) -> Option<Entry> {
        let tag = tag_of(hash);
        let found = equal_lanes(&first.tags, tag);
        if found != 0 {
            return Some(first.entry(found.trailing_zeros()));
        }
        let second = self.bucket(self.address((hash >> 32) as u32));
        let found = equal_lanes(&second.tags, tag);
        (found != 0).then(|| second.entry(found.trailing_zeros()))
    }

    /// The first answer of `check` to the entries whose tags fit.
    #[inline]
    pub(super) fn find<T>(
        &self,
        hash: u64,
        mut check: impl FnMut(Entry) -> Option<T>,
    ) -> Option<T> {
        let tag = tag_of(hash);
        for at in self.addresses(hash) {
            let bucket = self.bucket(at);
            let mut found = equal_lanes(&bucket.tags, tag);
            while found != 0 {
                let answer = check(bucket.entry(found.trailing_zeros()));
                if answer.is_some() {
                    return answer;
                }
                found &= found - 1;
            }
        }
        None
    }

    /// Add an entry. `hash_of` has the hash of any entry in the index. `false` if both buckets are
    /// full, and no entry of them can move.
    pub(super) fn insert(
        &mut self,
        hash: u64,
        entry: Entry,
        hash_of: impl Fn(Entry) -> u64,
    ) -> bool {
        if self.entries * 10 >= u64::from(self.count) * LOAD {
            self.split(&hash_of);
        }
        let [first, second] = self.addresses(hash);
        let is_full = |index: &Index, at| index.bucket(at).free() == 0;
        let at = if !is_full(self, first) {
            first
        } else if !is_full(self, second) {
            second
        } else if self.relocate(first, &hash_of) {
            first
        } else if self.relocate(second, &hash_of) {
            second
        } else {
            return false;
        };
        let inserted = self.bucket_mut(at).insert(tag_of(hash), entry);
        self.entries += u64::from(inserted);
        inserted
    }

    /// Move one entry of a full bucket to its other bucket, if one of them has room there.
    #[cold]
    fn relocate(&mut self, from: u32, hash_of: &impl Fn(Entry) -> u64) -> bool {
        let mut rest = PLACES;
        while rest != 0 {
            let place = rest.trailing_zeros();
            rest &= rest - 1;
            let (entry, tag) = (self.bucket(from).entry(place), self.bucket(from).tag(place));
            let [first, second] = self.addresses(hash_of(entry));
            let to = if first == from { second } else { first };
            if to != from && self.bucket_mut(to).insert(tag, entry) {
                self.bucket_mut(from).set(place, 0, Entry(0));
                return true;
            }
        }
        false
    }

    /// Remove an entry.
    pub(super) fn remove(&mut self, hash: u64, entry: Entry) {
        let tag = tag_of(hash);
        for at in self.addresses(hash) {
            let bucket = self.bucket_mut(at);
            let mut found = equal_lanes(&bucket.tags, tag);
            while found != 0 {
                let place = found.trailing_zeros();
                if bucket.entry(place) == entry {
                    bucket.set(place, 0, Entry(0));
                    self.entries -= 1;
                    return;
                }
                found &= found - 1;
            }
        }
        debug_assert!(false, "every record is in the index");
    }

    /// Split the next bucket: its entries stay, or go to the new last one.
    fn split(&mut self, hash_of: &impl Fn(Entry) -> u64) {
        let is_full = self.chunks.len() * CHUNK <= self.count as usize;
        if self.count >= COUNT_MAX || is_full && !self.add_chunk() {
            return;
        }
        let size = self.mask + 1;
        let (from, to) = (self.count - size, self.count);
        self.count += 1;
        let mut rest = !self.bucket(from).free() & PLACES;
        while rest != 0 {
            let place = rest.trailing_zeros();
            rest &= rest - 1;
            let (entry, tag) = (self.bucket(from).entry(place), self.bucket(from).tag(place));
            let hash = hash_of(entry);
            // Half of the entries move, those that are here as their first choice by its next bit.
            let here = |bits: u32| bits & self.mask == from;
            let bits = if here(hash as u32) { hash as u32 } else { (hash >> 32) as u32 };
            if bits & size != 0 && self.bucket_mut(to).insert(tag, entry) {
                self.bucket_mut(from).set(place, 0, Entry(0));
            }
        }
        if self.count == size * 2 {
            self.mask = self.mask << 1 | 1;
        }
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.chunks.len() * size_of::<[Bucket; CHUNK]>()
            + self.chunks.capacity() * size_of::<usize>()
    }
}
