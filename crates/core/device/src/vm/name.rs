//! The path of a socket of ours in the file system: created if it is free or has a dead socket, and
//! removed with the socket. Any other file is left alone.
//!
//! Called by: the files of `vm`.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::VmError;

/// A path that is removed when this is dropped, unless another file has replaced it.
pub(super) struct Name {
    path: PathBuf,
    /// The file's identity: device and inode.
    file: (u64, u64),
}

impl Name {
    /// Make a socket at `path` with `bind`; `what` describes the attempt in an error.
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

/// Remove the socket of a program that ended without removing it.
fn remove_stale(path: &Path) -> Result<(), VmError> {
    // If the path cannot be read, making the socket will return the reason.
    let Ok(there) = fs::symlink_metadata(path) else { return Ok(()) };
    let place = || path.display().to_string();
    // connect(2) fails with the same error for a file that is not a socket as for a dead socket.
    if !there.file_type().is_socket() {
        return Err(VmError::NotASocket { place: place() });
    }
    // Probe with a datagram socket, of whatever type the other one is: a stream listener would have
    // to accept a stream connection or keep it waiting, but Linux answers this with EPROTOTYPE.
    let asked = UnixDatagram::unbound().and_then(|asker| asker.connect(path));
    let Err(error) = asked else { return Err(VmError::InUse { place: place() }) };
    match Errno::from_io_error(&error) {
        Some(Errno::CONNREFUSED) => {
            fs::remove_file(path).map_err(VmError::refused("removing the dead socket at", path))
        }
        Some(Errno::NOENT) => Ok(()),
        // A live socket of another type, or one that is connected to another peer.
        Some(Errno::PROTOTYPE | Errno::PERM) => Err(VmError::InUse { place: place() }),
        _ => Err(error).map_err(VmError::refused("looking who is at", path)),
    }
}
