//! Files that are open between calls, so that a READ or a WRITE is not an open(2) as well.
//!
//! Called by: `files.rs`, `names.rs` when a file is removed, and whoever runs the server, every
//! second. Limits: `OPEN_FILES_MAX`, `OPEN_FILE_AGE`.
//!
//! What is no longer kept is returned: to close a file may take long, and the caller holds no lock
//! by then.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use base::Instant;

use super::handles::FileId;
use crate::limits::{OPEN_FILE_AGE, OPEN_FILES_MAX};

/// What a file is open for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum For {
    Reading,
    Writing,
}

#[derive(Debug)]
pub(super) struct OpenFiles {
    files: HashMap<(FileId, For), (Arc<OwnedFd>, Instant)>,
}

impl OpenFiles {
    pub(super) fn new() -> OpenFiles {
        OpenFiles { files: HashMap::new() }
    }

    /// A file that is open.
    pub(super) fn find(&mut self, file: FileId, what: For, now: Instant) -> Option<Arc<OwnedFd>> {
        let (found, used) = self.files.get_mut(&(file, what))?;
        *used = now;
        Some(found.clone())
    }

    /// Keep a file open; the one that was not used for the longest time makes room.
    pub(super) fn insert(
        &mut self,
        file: FileId,
        what: For,
        open: Arc<OwnedFd>,
        now: Instant,
    ) -> Option<Arc<OwnedFd>> {
        let oldest = match self.files.len() >= OPEN_FILES_MAX {
            true => self.files.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| *key),
            false => None,
        };
        let closed = oldest.and_then(|key| self.files.remove(&key));
        let again = self.files.insert((file, what), (open, now));
        closed.or(again).map(|(open, _)| open)
    }

    /// Take out what was not used for a while: a file that was removed by someone else keeps its
    /// space for as long as it is open here.
    pub(super) fn take_unused(&mut self, now: Instant) -> Vec<Arc<OwnedFd>> {
        let unused = self.files.extract_if(|_, (_, used)| now.since(*used) > OPEN_FILE_AGE);
        unused.map(|(_, (open, _))| open).collect()
    }

    /// Close a file: it has lost a name, and its space is to be free if that was the last.
    pub(super) fn close(&mut self, file: FileId) -> [Option<Arc<OwnedFd>>; 2] {
        [For::Reading, For::Writing].map(|what| Some(self.files.remove(&(file, what))?.0))
    }
}
