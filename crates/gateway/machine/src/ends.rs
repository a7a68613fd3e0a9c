//! What ends a gateway besides its owner: a process, a descriptor that another program closes, a
//! file that is deleted.
//!
//! Called by: `turns.rs`; drop-ins for containers open these descriptors.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;
use serde::{Deserialize, Serialize};

/// When a descriptor says that the gateway has to end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum When {
    /// It is readable, or its other end is closed.
    Ready,
    /// Its folder has no file of this name any more (inotify(7)).
    Deleted(String),
}

/// The deletion of a file, as a descriptor.
///
/// # Errors
/// The system has no inotify for us, or the folder cannot be watched.
pub fn deleted(path: &Path) -> Result<(When, OwnedFd)> {
    let name = path.file_name().context("the network namespace has no name")?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
    let news = inotify::init(flags)
        .context("a file cannot be watched: see fs.inotify.max_user_instances")?;
    let what = inotify::WatchFlags::DELETE
        | inotify::WatchFlags::MOVED_FROM
        | inotify::WatchFlags::DELETE_SELF;
    inotify::add_watch(&news, folder.unwrap_or(Path::new(".")), what)
        .context("the folder of the network namespace cannot be watched")?;
    Ok((When::Deleted(name.to_string_lossy().into_owned()), news))
}

/// One of these descriptors.
#[derive(Debug)]
pub(super) struct End {
    fd: OwnedFd,
    when: When,
}

impl End {
    pub(super) fn new(fd: OwnedFd, when: When) -> End {
        End { fd, when }
    }

    /// Has the time come?
    pub(super) fn has_come(&self) -> bool {
        match &self.when {
            When::Ready => {
                let mut asked = [PollFd::from_borrowed_fd(self.fd.as_fd(), PollFlags::IN)];
                let now = Timespec { tv_sec: 0, tv_nsec: 0 };
                matches!(poll(&mut asked, Some(&now)), Ok(ready) if ready > 0)
            }
            When::Deleted(name) => self.is_deleted(name),
        }
    }

    fn is_deleted(&self, name: &str) -> bool {
        let mut buffer = [MaybeUninit::uninit(); 4_096];
        let mut events = inotify::Reader::new(&self.fd, &mut buffer);
        while let Ok(event) = events.next() {
            let is_named = event.file_name().is_some_and(|file| file.to_bytes() == name.as_bytes());
            let is_folder = event
                .events()
                .intersects(inotify::ReadFlags::DELETE_SELF | inotify::ReadFlags::IGNORED);
            if is_named || is_folder {
                return true;
            }
        }
        false
    }
}

impl AsFd for End {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_deleted_ends_it_and_others_do_not() {
        let folder = std::env::temp_dir().join(format!("machine-ends-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("room");
        let (one, other) = (folder.join("one"), folder.join("other"));
        std::fs::write(&one, "").expect("room");
        std::fs::write(&other, "").expect("room");
        let (when, fd) = deleted(&one).expect("inotify");
        let end = End::new(fd, when);
        std::fs::remove_file(&other).expect("it is ours");
        assert!(!end.has_come());
        std::fs::remove_file(&one).expect("it is ours");
        assert!(end.has_come());
        std::fs::remove_dir(&folder).expect("it is ours");
    }

    #[test]
    fn an_end_that_is_closed_ends_it() {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let end = End::new(reader, When::Ready);
        assert!(!end.has_come());
        drop(writer);
        assert!(end.has_come());
    }
}
