//! State of the server between calls: open files, so that a READ or a WRITE needs no open(2);
//! addresses from which a MOUNT over TCP was completed; and locks of the objects that are being
//! changed, so that the attributes before and after a change differ by that change alone.
//!
//! Called by: `tree.rs`, and the program that runs the server, every second. Limits:
//! `OPEN_FILES_MAX`, `OPEN_FILE_AGE`, `OPEN_FILE_CHECK`, `CALLERS_MAX`, `CHANGES`.
//!
//! Files that are no longer kept are returned: closing a file may take long, and the caller does it
//! without a lock.

use core::net::IpAddr;
use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use base::Instant;

use super::handles::FileId;
use super::tree::locked;
use crate::limits::{CALLERS_MAX, CHANGES, OPEN_FILE_AGE, OPEN_FILE_CHECK, OPEN_FILES_MAX};

/// The use that a file is open for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum For {
    Reading,
    Writing,
}

/// A file that is open.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) open: Arc<OwnedFd>,
    /// Its path when it was opened.
    pub(super) place: Arc<[u8]>,
    /// Does the caller have to check that it is still there?
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

    /// A file that is open. The caller checks that it is still where it was: before each WRITE, and
    /// before a READ unless that was checked a moment ago.
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

    /// Keep a file open; the one that was not used for the longest time makes room.
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

    /// Take out files that were not used for a while: a file that another program removed keeps its
    /// space while it is open here.
    pub(super) fn take_unused(&mut self, now: Instant) -> Vec<Arc<OwnedFd>> {
        let unused = self.files.extract_if(|_, entry| now.since(entry.used) > OPEN_FILE_AGE);
        unused.map(|(_, entry)| entry.kept.open).collect()
    }

    /// Close a file that has lost a name, so that its space is freed if that was the last one.
    pub(super) fn close(&mut self, file: FileId) -> [Option<Arc<OwnedFd>>; 2] {
        [For::Reading, For::Writing].map(|what| Some(self.files.remove(&(file, what))?.kept.open))
    }
}

/// Addresses that have completed a MOUNT.
#[derive(Debug, Default)]
pub(super) struct Callers(Mutex<(HashSet<IpAddr>, VecDeque<IpAddr>)>);

impl Callers {
    /// This address has completed a MOUNT.
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

    /// Has this address completed a MOUNT? Packets from a loopback address come from this machine
    /// alone.
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

/// The right to change one or two objects.
pub(super) struct Changing<'a> {
    _guards: [Option<MutexGuard<'a, ()>>; 2],
}

impl Changes {
    fn of(file: FileId) -> usize {
        // Files that were made together mostly have consecutive inodes, and so different locks.
        (file.inode % CHANGES as u64) as usize
    }

    /// Begin to change an object; meanwhile only actions that need no such right are possible.
    pub(super) fn begin(&self, file: FileId) -> Changing<'_> {
        self.begin_both(file, file)
    }

    /// Begin to change two objects.
    pub(super) fn begin_both(&self, one: FileId, other: FileId) -> Changing<'_> {
        let (one, other) = (Changes::of(one), Changes::of(other));
        // Always in the same order, so that two calls that change the same objects do not deadlock.
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
