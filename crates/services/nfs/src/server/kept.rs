//! What the server keeps between calls: open files, so that a READ or a WRITE needs no open(2);
//! addresses that have completed a MOUNT over TCP; and locks of objects that are being changed, so
//! that the attributes before and after a change show that change only.
//!
//! Called by: `tree.rs`, and every second by the program that runs the server. Limits:
//! `OPEN_FILES_MAX`, `OPEN_FILE_AGE`, `OPEN_FILE_CHECK`, `CALLERS_MAX`, `CHANGES`.
//!
//! The functions return files that are no longer kept. Closing a file may take long, so the caller
//! closes it while it holds no lock.

use core::net::IpAddr;
use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use base::Instant;

use super::handles::FileId;
use super::tree::locked;
use crate::limits::{CALLERS_MAX, CHANGES, OPEN_FILE_AGE, OPEN_FILE_CHECK, OPEN_FILES_MAX};

/// What a file is open for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum For {
    Reading,
    Writing,
}

/// A file that is open.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) open: Arc<OwnedFd>,
    /// The path of the file when it was opened.
    pub(super) place: Arc<[u8]>,
    /// Does the caller have to check that the file is still at this path?
    pub(super) is_unchecked: bool,
}

#[derive(Debug)]
struct Entry {
    kept: Kept,
    used: Instant,
    checked: Instant,
}

#[derive(Debug)]
pub(super) struct OpenFiles {
    files: HashMap<(FileId, For), Entry>,
}

impl OpenFiles {
    pub(super) fn new() -> OpenFiles {
        OpenFiles { files: HashMap::new() }
    }

    /// Find an open file. The caller checks that the file is still at its path: before each WRITE,
    /// and before a READ unless that was checked a moment ago.
    pub(super) fn find(&mut self, file: FileId, what: For, now: Instant) -> Option<Kept> {
        let entry = self.files.get_mut(&(file, what))?;
        entry.used = now;
        let mut kept = entry.kept.clone();
        kept.is_unchecked = what == For::Writing || now.since(entry.checked) >= OPEN_FILE_CHECK;
        if kept.is_unchecked {
            entry.checked = now;
        }
        Some(kept)
    }

    /// Keep a file open. The file that was unused for the longest time makes room for it.
    pub(super) fn insert(
        &mut self,
        file: FileId,
        what: For,
        open: Arc<OwnedFd>,
        place: Arc<[u8]>,
        now: Instant,
    ) -> [Option<Arc<OwnedFd>>; 2] {
        let oldest = match self.files.len() >= OPEN_FILES_MAX {
            true => self.files.iter().min_by_key(|(_, entry)| entry.used).map(|(key, _)| *key),
            false => None,
        };
        let closed = oldest.and_then(|key| self.files.remove(&key));
        let kept = Kept { open, place, is_unchecked: false };
        let again = self.files.insert((file, what), Entry { kept, used: now, checked: now });
        [closed, again].map(|entry| Some(entry?.kept.open))
    }

    /// Take out the files that were not used for a while. If another program removes a file, its
    /// space is not freed while the file is open here.
    pub(super) fn take_unused(&mut self, now: Instant) -> Vec<Arc<OwnedFd>> {
        let unused = self.files.extract_if(|_, entry| now.since(entry.used) > OPEN_FILE_AGE);
        unused.map(|(_, entry)| entry.kept.open).collect()
    }

    /// Take out a file that has lost a name. If that was its last name, closing the file frees its
    /// space.
    pub(super) fn close(&mut self, file: FileId) -> [Option<Arc<OwnedFd>>; 2] {
        [For::Reading, For::Writing].map(|what| Some(self.files.remove(&(file, what))?.kept.open))
    }
}

/// The addresses that have completed a MOUNT over TCP.
#[derive(Debug, Default)]
pub(super) struct Callers(Mutex<(HashSet<IpAddr>, VecDeque<IpAddr>)>);

impl Callers {
    /// Note that this address has completed a MOUNT.
    pub(super) fn insert(&self, ip: IpAddr) {
        let (known, order) = &mut *locked(&self.0);
        let ip = ip.to_canonical();
        if !known.insert(ip) {
            return;
        }
        order.push_back(ip);
        if order.len() > CALLERS_MAX {
            order.pop_front().map(|oldest| known.remove(&oldest));
        }
    }

    /// Has this address completed a MOUNT? A loopback address counts as if it had, because packets
    /// from it come from this machine only.
    pub(super) fn has(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        ip.is_loopback() || locked(&self.0).0.contains(&ip)
    }
}

#[derive(Debug)]
pub(super) struct Changes([Mutex<()>; CHANGES]);

impl Default for Changes {
    fn default() -> Changes {
        Changes([const { Mutex::new(()) }; CHANGES])
    }
}

/// The right to change one or two objects, until this is dropped.
pub(super) struct Changing<'a> {
    _guards: [Option<MutexGuard<'a, ()>>; 2],
}

impl Changes {
    fn of(file: FileId) -> usize {
        // Files that were made one after the other mostly have consecutive inodes, and so different
        // locks.
        (file.inode % CHANGES as u64) as usize
    }

    /// Begin to change an object. Until the end, other calls cannot begin to change it.
    pub(super) fn begin(&self, file: FileId) -> Changing<'_> {
        self.begin_both(file, file)
    }

    /// Begin to change two objects.
    pub(super) fn begin_both(&self, one: FileId, other: FileId) -> Changing<'_> {
        let (one, other) = (Changes::of(one), Changes::of(other));
        // Lock in a fixed order, so that two calls that change the same objects do not deadlock.
        let first = self.0[one.min(other)].lock().unwrap_or_else(PoisonError::into_inner);
        let second = (one != other)
            .then(|| self.0[one.max(other)].lock().unwrap_or_else(PoisonError::into_inner));
        Changing { _guards: [Some(first), second] }
    }

    /// Begin to change an object, if no other call is changing it.
    pub(super) fn try_begin(&self, file: FileId) -> Option<Changing<'_>> {
        match self.0[Changes::of(file)].try_lock() {
            Ok(guard) => Some(Changing { _guards: [Some(guard), None] }),
            Err(TryLockError::Poisoned(guard)) => {
                Some(Changing { _guards: [Some(guard.into_inner()), None] })
            }
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_are_known_and_bounded() {
        let callers = Callers::default();
        let ip = |n: u32| IpAddr::from(n.to_be_bytes());
        (0..3 * CALLERS_MAX as u32).for_each(|n| callers.insert(ip(1 << 24 | n)));
        assert!(
            !callers.has(ip(1 << 24)) && callers.has(ip(1 << 24 | (3 * CALLERS_MAX as u32 - 1)))
        );
        assert_eq!(locked(&callers.0).0.len(), CALLERS_MAX);
        assert!(callers.has("::1".parse().expect("an address")));
        callers.insert("::ffff:192.0.2.1".parse().expect("an address"));
        assert!(callers.has("192.0.2.1".parse().expect("an address")));
    }
}
