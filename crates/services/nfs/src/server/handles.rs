//! Maps handles to files, and files to the place where each was found last: a table of directories
//! and names.
//!
//! Called by: `tree.rs`. A handle contains the device, the inode and the birth time of a file, so
//! that a new file with a reused inode is another file. The handle also contains a keyed hash that
//! only this server can make. The key is the same in each run, so handles stay valid when the
//! server restarts. The server searches for a file that is not in the table, or no longer at its
//! place; failed searches are remembered. Limits: `HANDLES_MAX`, `DEPTH_MAX`, `GONE_MAX`,
//! `GONE_AGE`. Decision: 0120.

use std::collections::{HashMap, VecDeque};

use base::{Instant, KeyedHash};

use crate::limits::{DEPTH_MAX, GONE_AGE, GONE_MAX, HANDLES_MAX};
use crate::proto::Handle;

/// The identity of a file, independent of its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileId {
    pub(super) device: u64,
    pub(super) inode: u64,
    /// The birth time in nanoseconds; 0 if the file system does not report it.
    pub(super) born: u64,
}

impl FileId {
    fn words(self) -> [u64; 3] {
        [self.device, self.inode, self.born]
    }
}

#[derive(Debug)]
struct Entry {
    dir: FileId,
    name: Box<[u8]>,
    /// The file's current identity in the system. overlayfs gives a file another birth time when
    /// the file is changed for the first time.
    now: FileId,
    /// Was the entry used since it was last considered for eviction?
    is_used: bool,
}

#[derive(Debug)]
pub(super) struct Handles {
    secret: KeyedHash,
    root: FileId,
    entries: HashMap<FileId, Entry>,
    order: VecDeque<FileId>,
    most: usize,
    /// Files that a search did not find anywhere, and the time of the search.
    gone: HashMap<FileId, Instant>,
    gone_order: VecDeque<FileId>,
}

/// A constant that is part of the hash in a handle, and of no other hash.
const MARK: u64 = u64::from_be_bytes(*b"handle 1");

impl Handles {
    /// `secret` has to be the same in each run.
    pub(super) fn new(root: FileId, secret: KeyedHash) -> Handles {
        let (entries, order) = (HashMap::new(), VecDeque::new());
        let (gone, gone_order) = (HashMap::new(), VecDeque::new());
        Handles { secret, root, entries, order, most: HANDLES_MAX, gone, gone_order }
    }

    #[cfg(test)]
    pub(super) fn with_most(mut self, most: usize) -> Handles {
        self.most = most;
        self
    }

    fn mark(&self, of: FileId) -> u64 {
        let ([a, b, c], [d, e, f]) = (self.root.words(), of.words());
        self.secret.hash([MARK, a, b, c, d, e, f])
    }

    /// The handle of a file.
    pub(super) fn handle(&self, of: FileId) -> Option<Handle> {
        let [device, inode, born] = of.words();
        let words = [self.mark(of), device, inode, born];
        let mut bytes = [0; 32];
        bytes.chunks_exact_mut(8).zip(words).for_each(|(b, w)| b.copy_from_slice(&w.to_be_bytes()));
        Handle::new(&bytes)
    }

    /// The file of a handle. `None` if another server made the handle, or if it is for another
    /// directory. `Err` if the bytes cannot be a handle.
    pub(super) fn file(&self, handle: &Handle) -> Result<Option<FileId>, ()> {
        let (words, []) = handle.bytes().as_chunks::<8>() else { return Err(()) };
        let &[mark, device, inode, born] = words else { return Err(()) };
        let [mark, device, inode, born] = [mark, device, inode, born].map(u64::from_be_bytes);
        let file = FileId { device, inode, born };
        Ok((mark == self.mark(file)).then_some(file))
    }

    pub(super) fn root(&self) -> FileId {
        self.root
    }

    /// Note that a file was found under a name.
    pub(super) fn insert(&mut self, file: FileId, dir: FileId, name: &[u8]) {
        if file == self.root {
            return;
        }
        self.gone.remove(&file);
        if let Some(entry) = self.entries.get_mut(&file) {
            (entry.is_used, entry.now) = (true, file);
            if entry.dir != dir || *entry.name != *name {
                (entry.dir, entry.name) = (dir, name.into());
            }
            return;
        }
        while self.entries.len() >= self.most {
            let Some(oldest) = self.order.pop_front() else { break };
            match self.entries.get_mut(&oldest) {
                // An entry that was used gets another chance, so entries that were not used are
                // evicted first.
                Some(entry) if entry.is_used => {
                    entry.is_used = false;
                    self.order.push_back(oldest);
                }
                _ => drop(self.entries.remove(&oldest)),
            }
        }
        self.entries.insert(file, Entry { dir, name: name.into(), now: file, is_used: false });
        self.order.push_back(file);
    }

    /// Would the next file evict an entry?
    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= self.most
    }

    /// Note that the identity of a file in the system has changed.
    pub(super) fn became(&mut self, file: FileId, now: FileId) {
        let Some(entry) = self.entries.get_mut(&file).filter(|entry| entry.now != now) else {
            return;
        };
        entry.now = now;
        let (dir, name) = (entry.dir, entry.name.clone());
        self.insert(now, dir, &name);
    }

    /// The current identity of a file in the system.
    pub(super) fn now(&self, file: FileId) -> FileId {
        self.entries.get(&file).map_or(file, |entry| entry.now)
    }

    /// Note that a file has no name any more, or was not found anywhere.
    pub(super) fn forget(&mut self, file: FileId, now: Instant) {
        while self.gone_order.len() >= GONE_MAX {
            self.gone_order.pop_front().map(|oldest| self.gone.remove(&oldest));
        }
        if self.gone.insert(file, now).is_none() {
            self.gone_order.push_back(file);
        }
    }

    /// Is it known that the file is nowhere?
    pub(super) fn is_gone(&self, file: FileId, now: Instant) -> bool {
        self.gone.get(&file).is_some_and(|&since| now.since(since) < GONE_AGE)
    }

    /// The directory in which a file was found. The root's directory is the root.
    pub(super) fn dir(&self, of: FileId) -> Option<FileId> {
        if of == self.root { Some(of) } else { Some(self.entries.get(&of)?.dir) }
    }

    /// The path from the root to a file, `.` for the root itself; `None` if it is not known.
    pub(super) fn path(&mut self, to: FileId) -> Option<Vec<u8>> {
        let mut at = to;
        let mut parts: Vec<&[u8]> = Vec::new();
        let mut seen = Vec::new();
        while at != self.root {
            // After other programs have moved directories, the noted directories may seem to
            // contain each other.
            if seen.len() >= DEPTH_MAX {
                return None;
            }
            seen.push(at);
            let entry = self.entries.get(&at)?;
            parts.push(&entry.name);
            at = entry.dir;
        }
        parts.reverse();
        let path = if parts.is_empty() { b".".to_vec() } else { parts.join(&b'/') };
        for file in seen {
            if let Some(entry) = self.entries.get_mut(&file) {
                entry.is_used = true;
            }
        }
        Some(path)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(inode: u64) -> FileId {
        FileId { device: 1, inode, born: 0 }
    }

    fn table() -> Handles {
        Handles::new(file(0), KeyedHash::new(7, 7))
    }

    #[test]
    fn handles_lead_to_paths_and_back() {
        let mut table = self::table();
        table.insert(file(1), file(0), b"a");
        table.insert(file(2), file(1), b"b c");
        assert_eq!(table.path(file(2)).as_deref(), Some(&b"a/b c"[..]));
        assert_eq!(table.path(file(0)).as_deref(), Some(&b"."[..]));
        let handle = table.handle(file(2)).expect("32 bytes");
        assert_eq!(table.file(&handle), Ok(Some(file(2))));
        assert_eq!(self::table().file(&handle), Ok(Some(file(2))), "of another run");
        let other = Handles::new(file(0), KeyedHash::new(7, 8));
        assert_eq!(other.file(&handle), Ok(None), "of another server");
        let other = Handles::new(file(9), KeyedHash::new(7, 7));
        assert_eq!(other.file(&handle), Ok(None), "of another directory");
        for bit in 0..32 * 8 {
            let mut bytes = handle.bytes().to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let forged = Handle::new(&bytes).expect("it fits");
            assert_eq!(table.file(&forged), Ok(None), "bit {bit}");
        }
        assert_eq!(other.file(&Handle::new(b"short").expect("fits")), Err(()));
        table.insert(file(2), file(0), b"moved");
        assert_eq!(table.path(file(2)).as_deref(), Some(&b"moved"[..]));
    }

    #[test]
    fn the_table_is_bounded_and_forgets_what_is_not_used() {
        let mut table = table().with_most(100);
        table.insert(file(1), file(0), b"kept");
        for n in 2..5_000 {
            table.insert(file(n), file(1), b"x");
            assert!(table.path(file(1)).is_some(), "the one that is used, after {n}");
            assert!(table.len() <= 100);
        }
        assert_eq!(table.path(file(2)), None);
    }

    #[test]
    fn directories_that_seem_to_be_in_each_other_are_stale() {
        let mut table = self::table();
        table.insert(file(1), file(2), b"a");
        table.insert(file(2), file(1), b"b");
        assert_eq!(table.path(file(1)), None);
    }

    #[test]
    fn what_is_gone_is_known_for_a_while_and_bounded() {
        let at = Instant::from_nanos(1);
        let mut table = self::table();
        table.forget(file(1), at);
        assert!(table.is_gone(file(1), at) && !table.is_gone(file(2), at));
        assert!(!table.is_gone(file(1), at + GONE_AGE), "it may be back");
        table.insert(file(1), file(0), b"back");
        assert!(!table.is_gone(file(1), at));
        for n in 0..3 * GONE_MAX as u64 {
            table.forget(file(n), at);
            table.insert(file(n), file(0), b"x");
            table.forget(file(n), at);
        }
        assert!(table.gone.len() <= GONE_MAX && table.gone_order.len() <= GONE_MAX);
    }

    #[test]
    fn a_file_that_the_system_calls_otherwise_keeps_its_handle() {
        let mut table = self::table();
        table.insert(file(1), file(0), b"a");
        table.became(file(1), file(2));
        assert_eq!((table.now(file(1)), table.now(file(2))), (file(2), file(2)));
        for id in [file(1), file(2)] {
            assert_eq!(table.path(id).as_deref(), Some(&b"a"[..]));
        }
    }
}
