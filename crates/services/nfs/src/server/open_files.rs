//! Files that are open between calls, so that a READ or a WRITE is not an open(2) as well.
//!
//! Called by: `tree.rs`, and whoever runs the server, every second. Limits: `OPEN_FILES_MAX`,
//! `OPEN_FILE_AGE`, `OPEN_FILE_CHECK`.
//!
//! What is no longer kept is returned: to close a file may take long, and the caller holds no lock
//! by then.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use base::Instant;

use super::handles::FileId;
use crate::limits::{OPEN_FILE_AGE, OPEN_FILE_CHECK, OPEN_FILES_MAX};

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
