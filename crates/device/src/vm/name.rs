//! The name in the file system of a socket of ours: made where nothing is or a dead socket is, and
//! removed with it. Any other file is left alone.
//!
//! Called by: the files of `vm`.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::VmError;

/// A name that is removed when this is dropped, unless another file has replaced it.
pub(super) struct Name {
    path: PathBuf,
    /// What tells a file from all others that exist.
    file: (u64, u64),
}

impl Name {
    /// Have `bind` make a socket at `path`; `what` says in an error what was tried.
    pub(super) fn bind<S>(
        what: &'static str,
        path: &Path,
        bind: impl FnOnce() -> io::Result<S>,
    ) -> Result<(S, Name), VmError> {
        remove_stale(path)?;
        let socket = bind().map_err(VmError::refused(what, path))?;
        let made = fs::symlink_metadata(path).map_err(VmError::refused(what, path))?;
        Ok((socket, Name { path: path.to_owned(), file: file(&made) }))
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|there| file(&there) == self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn file(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Remove the socket of a program that ended without doing so.
fn remove_stale(path: &Path) -> Result<(), VmError> {
    // If it cannot be looked at, then making the socket says why.
    let Ok(there) = fs::symlink_metadata(path) else { return Ok(()) };
    let place = || path.display().to_string();
    // Connecting to a file that is no socket is refused just as with a dead one.
    if !there.file_type().is_socket() {
        return Err(VmError::NotASocket { place: place() });
    }
    // A datagram socket asks, whatever is there: who listens for streams would have to accept one
    // of those, or let it wait. Linux says to this one that the other is of another type.
    let asked = UnixDatagram::unbound().and_then(|asker| asker.connect(path));
    let Err(error) = asked else { return Err(VmError::InUse { place: place() }) };
    match Errno::from_io_error(&error) {
        Some(Errno::CONNREFUSED) => {
            fs::remove_file(path).map_err(VmError::refused("removing the dead socket at", path))
        }
        Some(Errno::NOENT) => Ok(()),
        // Of another type, or with a peer of its own.
        Some(Errno::PROTOTYPE | Errno::PERM) => Err(VmError::InUse { place: place() }),
        _ => Err(error).map_err(VmError::refused("looking who is at", path)),
    }
}
