//! One change of an object at a time, so that the attributes before it and after it are those of
//! that change alone (RFC 1813 section 2.6, `wcc_data`).
//!
//! Called by: `files.rs`, `names.rs`, `attributes.rs`. What other programs of the machine change
//! meanwhile is not kept away. Limit: `CHANGES` locks, which objects share by their number.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use super::handles::FileId;
use crate::limits::CHANGES;

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
