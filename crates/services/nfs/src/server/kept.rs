//! What the server keeps between calls: files that are open, so that a READ or a WRITE is not an
//! open(2) as well; addresses from which a MOUNT over TCP was completed; which objects are being
//! changed, so that the attributes before a change and after it are of that change alone.
//!
//! Called by: `tree.rs`, and whoever runs the server, every second. Limits: `OPEN_FILES_MAX`,
//! `OPEN_FILE_AGE`, `OPEN_FILE_CHECK`, `CALLERS_MAX`, `CHANGES`.
//!
//! What is no longer kept is returned: to close a file may take long, and the caller holds no lock
//! by then.

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
    /// Where it was when it was opened.
    pub(super) place: Arc<[u8]>,
    /// Is it to be seen whether it is still there?
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

    /// A file that is open. Before each WRITE the caller sees whether it is where it was, before a
    /// READ unless that was seen a moment ago.
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

    /// Take out what was not used for a while: a file that was removed by someone else keeps its
    /// space for as long as it is open here.
    pub(super) fn take_unused(&mut self, now: Instant) -> Vec<Arc<OwnedFd>> {
        let unused = self.files.extract_if(|_, entry| now.since(entry.used) > OPEN_FILE_AGE);
        unused.map(|(_, entry)| entry.kept.open).collect()
    }

    /// Close a file: it has lost a name, and its space is to be free if that was the last.
    pub(super) fn close(&mut self, file: FileId) -> [Option<Arc<OwnedFd>>; 2] {
        [For::Reading, For::Writing].map(|what| Some(self.files.remove(&(file, what))?.kept.open))
    }
}

/// Addresses.
#[derive(Debug, Default)]
pub(super) struct Callers(Mutex<(HashSet<IpAddr>, VecDeque<IpAddr>)>);

impl Callers {
    /// It has completed a MOUNT.
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

    /// Has it? Packets from a loopback address come from this machine alone.
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
        // Inodes of files that were made together count up.
        (file.inode % CHANGES as u64) as usize
    }

    /// Change an object; only what takes no such right may be done meanwhile.
    pub(super) fn begin(&self, file: FileId) -> Changing<'_> {
        self.begin_both(file, file)
    }

    /// Change two.
    pub(super) fn begin_both(&self, one: FileId, other: FileId) -> Changing<'_> {
        let (one, other) = (Changes::of(one), Changes::of(other));
        // In one order, so that two that change the same do not wait for each other.
        let first = self.0[one.min(other)].lock().unwrap_or_else(PoisonError::into_inner);
        let second = (one != other)
            .then(|| self.0[one.max(other)].lock().unwrap_or_else(PoisonError::into_inner));
        Changing { _guards: [Some(first), second] }
    }

    /// Change an object if nobody else does.
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
