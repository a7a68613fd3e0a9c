//! Arrays of atomic words that grow while other threads read them. They contain records of a fixed
//! size, named by index. A record never moves, and an index is used again only after every reader
//! has stopped using it (`epoch.rs`).
//!
//! Called by: `fib.rs`, `trie.rs`, `update.rs` and `group.rs`. A page of a chunk takes no memory
//! before something is written to it.

use core::sync::atomic::AtomicU32;
use std::sync::OnceLock;

use mbuf::zeroed_words;

/// Records in the first chunk, as a power of two. Each further chunk has twice as many records as
/// the previous one.
const FIRST: u32 = 4;
/// The number of chunks: together they hold 2^30 records, as many as a slot of a trie can name.
const CHUNKS: usize = 27;

/// Records of `WORDS` words each.
pub(super) struct Arena<const WORDS: usize> {
    chunks: [OnceLock<Box<[AtomicU32]>>; CHUNKS],
}

impl<const WORDS: usize> Default for Arena<WORDS> {
    fn default() -> Self {
        Arena { chunks: [const { OnceLock::new() }; CHUNKS] }
    }
}

impl<const WORDS: usize> Arena<WORDS> {
    /// The record with this index, if its chunk exists.
    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<&[AtomicU32; WORDS]> {
        let (chunk, at) = position(index);
        self.chunks.get(chunk)?.get()?.get(at * WORDS..)?.first_chunk()
    }

    /// The record with this index. Its chunk is allocated if it does not exist.
    pub(super) fn make(&self, index: u32) -> Option<&[AtomicU32; WORDS]> {
        let (chunk, at) = position(index);
        let words =
            self.chunks.get(chunk)?.get_or_init(|| zeroed_words(WORDS << (FIRST + chunk as u32)));
        words.get(at * WORDS..)?.first_chunk()
    }
}

/// The chunk of a record, and the record's number in the chunk.
#[inline]
fn position(index: u32) -> (usize, usize) {
    let number = u64::from(index) + (1 << FIRST);
    let log = number.ilog2();
    ((log - FIRST) as usize, (number - (1 << log)) as usize)
}

/// Which indices of an arena are free. Only the writer has this.
#[derive(Debug)]
pub(super) struct Indices {
    next: u32,
    free: Vec<u32>,
}

impl Indices {
    /// Begin with all indices from `first` on free.
    pub(super) fn new(first: u32) -> Indices {
        Indices { next: first, free: Vec::new() }
    }

    /// Take a free index. There are 2^30, more than routes within [`super::ROUTES_MAX`] can use.
    pub(super) fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }

    /// Make an index free again.
    pub(super) fn give_back(&mut self, index: u32) {
        self.free.push(index);
    }

    /// The number of indices that are in use, or wait until no reader uses them.
    pub(super) fn used(&self) -> usize {
        self.next as usize - self.free.len()
    }
}
