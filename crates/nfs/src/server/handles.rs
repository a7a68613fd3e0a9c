//! Which file a handle is: a table of the files that clients have a handle of, with the directory
//! and the name under which each was found last.
//!
//! Called by: `tree.rs`. A handle has the number of this run, and the device, the inode and the
//! time of birth of the file, so that a new file with an old inode is another one. Limits:
//! `HANDLES_MAX`; a file whose entry was evicted is stale, as is one whose path no longer leads to
//! it. `DEPTH_MAX`.

use std::collections::{HashMap, VecDeque};

use crate::limits::{DEPTH_MAX, HANDLES_MAX};
use crate::proto::Handle;

/// A file, whatever its names are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileId {
    pub(super) device: u64,
    pub(super) inode: u64,
    /// When it was made, in nanoseconds; 0 where the file system does not say.
    pub(super) born: u64,
}

#[derive(Debug)]
struct Entry {
    dir: FileId,
    name: Box<[u8]>,
    /// Used since it was looked at for eviction.
    is_used: bool,
}

#[derive(Debug)]
pub(super) struct Handles {
    run: u64,
    root: FileId,
    entries: HashMap<FileId, Entry>,
    order: VecDeque<FileId>,
    most: usize,
}

impl Handles {
    /// `run` is a number that nobody can guess.
    pub(super) fn new(root: FileId, run: u64) -> Handles {
        let (entries, order) = (HashMap::new(), VecDeque::new());
        Handles { run, root, entries, order, most: HANDLES_MAX }
    }

    #[cfg(test)]
    pub(super) fn with_most(mut self, most: usize) -> Handles {
        self.most = most;
        self
    }

    /// The handle of a file.
    pub(super) fn handle(&self, of: FileId) -> Option<Handle> {
        let words = [self.run, of.device, of.inode, of.born];
        let mut bytes = [0; 32];
        bytes.chunks_exact_mut(8).zip(words).for_each(|(b, w)| b.copy_from_slice(&w.to_be_bytes()));
        Handle::new(&bytes)
    }

    /// The file of a handle of this run; `None` if it is one of another run. `Err` if it is none at
    /// all.
    pub(super) fn file(&self, handle: &Handle) -> Result<Option<FileId>, ()> {
        let (words, []) = handle.bytes().as_chunks::<8>() else { return Err(()) };
        let &[run, device, inode, born] = words else { return Err(()) };
        let [run, device, inode, born] = [run, device, inode, born].map(u64::from_be_bytes);
        Ok((run == self.run).then_some(FileId { device, inode, born }))
    }

    pub(super) fn root(&self) -> FileId {
        self.root
    }

    /// A file was found under a name.
    pub(super) fn insert(&mut self, file: FileId, dir: FileId, name: &[u8]) {
        if file == self.root {
            return;
        }
        if let Some(entry) = self.entries.get_mut(&file) {
            entry.is_used = true;
            if entry.dir != dir || *entry.name != *name {
                (entry.dir, entry.name) = (dir, name.into());
            }
            return;
        }
        while self.entries.len() >= self.most {
            let Some(oldest) = self.order.pop_front() else { break };
            match self.entries.get_mut(&oldest) {
                // Every other one that was not used goes first.
                Some(entry) if entry.is_used => {
                    entry.is_used = false;
                    self.order.push_back(oldest);
                }
                _ => drop(self.entries.remove(&oldest)),
            }
        }
        self.entries.insert(file, Entry { dir, name: name.into(), is_used: false });
        self.order.push_back(file);
    }

    /// The directory in which a file was found; the root is in itself.
    pub(super) fn dir(&self, of: FileId) -> Option<FileId> {
        if of == self.root { Some(of) } else { Some(self.entries.get(&of)?.dir) }
    }

    /// The directory in which a file was found, and its name there.
    pub(super) fn name(&self, of: FileId) -> Option<(FileId, &[u8])> {
        self.entries.get(&of).map(|entry| (entry.dir, &*entry.name))
    }

    /// The path from the root to a file, `.` for the root itself; `None` if it is not known.
    pub(super) fn path(&mut self, to: FileId) -> Option<Vec<u8>> {
        let mut at = to;
        let mut parts: Vec<&[u8]> = Vec::new();
        let mut seen = Vec::new();
        while at != self.root {
            // Directories that others have moved may seem to be in each other.
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

    #[test]
    fn handles_lead_to_paths_and_back() {
        let mut table = Handles::new(file(0), 77);
        table.insert(file(1), file(0), b"a");
        table.insert(file(2), file(1), b"b c");
        assert_eq!(table.path(file(2)).as_deref(), Some(&b"a/b c"[..]));
        assert_eq!(table.path(file(0)).as_deref(), Some(&b"."[..]));
        let handle = table.handle(file(2)).expect("32 bytes");
        assert_eq!(table.file(&handle), Ok(Some(file(2))));
        let other = Handles::new(file(0), 78);
        assert_eq!(other.file(&handle), Ok(None), "of another run");
        assert_eq!(other.file(&Handle::new(b"short").expect("fits")), Err(()));
        table.insert(file(2), file(0), b"moved");
        assert_eq!(table.path(file(2)).as_deref(), Some(&b"moved"[..]));
    }

    #[test]
    fn the_table_is_bounded_and_forgets_what_is_not_used() {
        let mut table = Handles::new(file(0), 77).with_most(100);
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
        let mut table = Handles::new(file(0), 77);
        table.insert(file(1), file(2), b"a");
        table.insert(file(2), file(1), b"b");
        assert_eq!(table.path(file(1)), None);
    }
}
