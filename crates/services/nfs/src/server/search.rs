//! Searches for a file: at the place where it was last, then in its directory, then in the whole
//! tree.
//!
//! Called by: `tree.rs`. A search finds files that other programs have renamed, files of which one
//! of several names was removed, and any file after a restart. It notes all files that it passes,
//! so that one search suffices for many files. Limits: `SEARCH_ENTRIES`, `SEARCH_AGE`. One search
//! runs at a time, and after a long one there is a pause of the same length. A call in the meantime
//! is answered with NFS3ERR_JUKEBOX, and the client repeats it later.

use std::collections::VecDeque;
use std::sync::PoisonError;

use base::{Duration, Instant};
use rustix::fs::{Dir, FileType, Mode, OFlags, openat2};

use super::handles::FileId;
use super::tree::{BENEATH, Node, Tree, id, locked, looked_at};
use crate::limits::{DEPTH_MAX, SEARCH_AGE, SEARCH_ENTRIES, SEARCH_SHORT, SEARCH_WAIT};
use crate::proto::Status;

/// Whether a search runs, and when the next search may begin.
#[derive(Debug)]
pub(super) struct Search {
    is_running: bool,
    not_before: Instant,
}

impl Default for Search {
    fn default() -> Search {
        Search { is_running: false, not_before: Instant::ZERO }
    }
}

/// The search that runs. It ends when this is dropped, even by a panic.
struct Running<'a>(&'a Tree, Instant);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let now = (self.0.clock)();
        let took = now.since(self.1);
        let pause = if took > SEARCH_SHORT { took } else { Duration::ZERO };
        *locked(&self.0.search) = Search { is_running: false, not_before: now + pause };
        self.0.searched.notify_all();
    }
}

/// A directory in which to search.
struct Subdir {
    path: Vec<u8>,
    id: FileId,
    depth: usize,
}

/// What is left to do in a search.
struct Walk {
    wanted: FileId,
    is_met: bool,
    /// How many more entries the search may look at.
    left: usize,
    subdirs: VecDeque<Subdir>,
}

impl Walk {
    fn new(wanted: FileId) -> Walk {
        Walk { wanted, is_met: false, left: SEARCH_ENTRIES, subdirs: VecDeque::new() }
    }
}

impl Tree {
    /// Find a file, wherever it is in the served directory.
    pub(super) fn find(&self, wanted: FileId) -> Result<Node, Status> {
        if let Some(node) = self.where_it_was(wanted)? {
            return Ok(node);
        }
        if locked(&self.handles).is_gone(wanted, (self.clock)()) {
            return Err(Status::Stale);
        }
        let running = self.begin()?;
        // Another search may have found the file in the meantime.
        if let Some(node) = self.where_it_was(wanted)? {
            return Ok(node);
        }
        if let Some(node) = self.beside(wanted)? {
            return Ok(node);
        }
        let root = Subdir { path: b".".to_vec(), id: locked(&self.handles).root(), depth: 0 };
        self.walk(root, wanted, running.1);
        let found = self.where_it_was(wanted)?;
        if found.is_none() {
            locked(&self.handles).forget(wanted, (self.clock)());
        }
        found.ok_or(Status::Stale)
    }

    /// Begin a search as soon as no other search runs.
    fn begin(&self) -> Result<Running<'_>, Status> {
        let waited =
            self.searched.wait_timeout_while(locked(&self.search), SEARCH_WAIT.into(), |search| {
                search.is_running
            });
        let (mut search, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let now = (self.clock)();
        if search.is_running || now < search.not_before {
            return Err(Status::Jukebox);
        }
        search.is_running = true;
        Ok(Running(self, now))
    }

    /// Look for a file, under any name, in the directory where it was last.
    fn beside(&self, wanted: FileId) -> Result<Option<Node>, Status> {
        let (dir, path) = {
            let mut handles = locked(&self.handles);
            let Some(dir) = handles.dir(wanted) else { return Ok(None) };
            let Some(path) = handles.path(dir) else { return Ok(None) };
            (dir, path)
        };
        if self.where_it_was(dir)?.is_none() {
            return Ok(None);
        }
        let mut walk = Walk::new(wanted);
        self.pass(&Subdir { path, id: dir, depth: DEPTH_MAX }, &mut walk);
        self.where_it_was(wanted)
    }

    /// Note all files below a directory, within the limits.
    fn walk(&self, root: Subdir, wanted: FileId, began: Instant) {
        let mut walk = Walk::new(wanted);
        walk.subdirs.push_back(root);
        while let Some(subdir) = walk.subdirs.pop_front() {
            if walk.left == 0 || (self.clock)().since(began) > SEARCH_AGE {
                break;
            }
            self.pass(&subdir, &mut walk);
        }
    }

    /// Note the files in a directory, and add its subdirectories to the walk.
    fn pass(&self, subdir: &Subdir, walk: &mut Walk) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // Skip a directory that cannot be read, or was removed in the meantime.
        let Ok(fd) = openat2(&self.root, &subdir.path[..], flags, Mode::empty(), BENEATH) else {
            return;
        };
        let Ok(entries) = Dir::read_from(&fd) else { return };
        for entry in entries {
            let Ok(entry) = entry else { return };
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            // If the table is full, more entries would evict the file that was found.
            if walk.is_met && locked(&self.handles).is_full() {
                walk.left = 0;
            }
            if walk.left == 0 {
                return;
            }
            walk.left -= 1;
            let Ok(of) = looked_at(&fd, name) else { continue };
            if !self.is_inside(&of) {
                continue;
            }
            let file = id(&of);
            self.know(file, subdir.id, name);
            walk.is_met |= file == walk.wanted;
            let is_dir = FileType::from_raw_mode(of.stx_mode.into()) == FileType::Directory;
            if is_dir && subdir.depth < DEPTH_MAX {
                let path = [&subdir.path[..], name].join(&b'/');
                walk.subdirs.push_back(Subdir { path, id: file, depth: subdir.depth + 1 });
            }
        }
    }
}
