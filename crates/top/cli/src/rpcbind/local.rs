//! The socket of this machine at which programs look for a port mapper first.
//!
//! Called by: `run.rs`. A path at which somebody answers, or that is no socket, is left alone; a
//! socket that nobody serves was left by a killed port mapper, and is replaced.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rpc::portmap::SOCKET;
use rustix::net::sockopt::socket_peercred;

use crate::output;

/// The socket; its file ends with it.
pub(super) struct Local {
    pub(super) listener: UnixListener,
    path: PathBuf,
    inode: u64,
}

/// Serve the path that was asked for, or if none was, and we are root, the usual one.
///
/// # Errors
/// The path that was asked for cannot be served. The usual one is done without.
pub(super) fn open(asked: Option<&Path>) -> Result<Option<Local>> {
    match asked {
        Some(path) => Local::at(path).map(Some),
        None if !rustix::process::geteuid().is_root() => Ok(None),
        None => match Local::at(Path::new(SOCKET)) {
            Ok(local) => Ok(Some(local)),
            Err(error) => {
                output::err(&format!("{error:#}; it goes on without"));
                Ok(None)
            }
        },
    }
}

impl Local {
    fn at(path: &Path) -> Result<Local> {
        let shown = path.display();
        let what_to_do = "take another --socket PATH, or --no-socket";
        if let Ok(metadata) = fs::symlink_metadata(path) {
            if !metadata.file_type().is_socket() {
                bail!("{shown} is there and is no socket: {what_to_do}");
            }
            match UnixStream::connect(path) {
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    fs::remove_file(path).with_context(|| format!("cannot replace {shown}"))?;
                }
                _ => bail!("another port mapper has {shown}: end it, or {what_to_do}"),
            }
        }
        let listen = || -> io::Result<Local> {
            let listener = UnixListener::bind(path)?;
            // Everybody may look programs up.
            fs::set_permissions(path, Permissions::from_mode(0o666))?;
            listener.set_nonblocking(true)?;
            let inode = fs::symlink_metadata(path)?.ino();
            Ok(Local { listener, path: path.to_owned(), inode })
        };
        listen().with_context(|| format!("cannot listen at {shown}: {what_to_do}"))
    }

    /// Where it is; `None` for a path that is no text.
    pub(super) fn path(&self) -> Option<&str> {
        self.path.to_str()
    }

    /// A connection that waits, and whether root has made it.
    pub(super) fn accept(&self) -> io::Result<(OwnedFd, bool)> {
        let (stream, _) = self.listener.accept()?;
        stream.set_nonblocking(true)?;
        let is_root = socket_peercred(&stream)?.uid.is_root();
        Ok((stream.into(), is_root))
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        // Remove only our own socket: somebody may have put another one there.
        if fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_socket_that_nobody_serves_is_replaced() {
        let dir = std::env::temp_dir().join(format!("ws-rpcbind-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("room");
        let path = dir.join("sock");
        fs::write(&path, "mine").expect("room");
        let error = Local::at(&path).err().expect("it is a file").to_string();
        assert!(error.contains("no socket"), "{error}");
        assert_eq!(fs::read(&path).expect("it is left"), b"mine");
        fs::remove_file(&path).expect("it is ours");
        let first = Local::at(&path).expect("the path is free");
        let error = Local::at(&path).err().expect("it is served").to_string();
        assert!(error.contains("another port mapper"), "{error}");
        // The file stays, as if the port mapper had been killed.
        let left = UnixListener::bind(dir.join("left")).expect("the path is free");
        drop(left);
        drop(Local::at(&dir.join("left")).expect("nobody serves it"));
        assert!(!dir.join("left").exists());
        drop(first);
        assert!(!path.exists());
        fs::remove_dir_all(&dir).expect("it is empty");
    }
}
