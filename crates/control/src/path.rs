//! The paths of control sockets: `wirespeed/PID.sock` in the user's run-time directory.
//!
//! Called by: `server.rs` and programs. Only the user can access the directory (0700); a socket in
//! it is removed only if no server answers on it. Source: XDG Base Directory Specification 0.8,
//! file-hierarchy(7).

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{DirBuilder, symlink_metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use crate::ControlError;

/// Maximum directory entries examined.
const SOCKETS_MAX: usize = 4096;

/// The directory of a user's sockets: below `runtime` (XDG_RUNTIME_DIR) if it is an absolute path,
/// else `/run/wirespeed` for root, else below `/run/user/UID`.
pub fn directory(runtime: Option<&OsStr>, uid: u32) -> PathBuf {
    match runtime.map(Path::new) {
        Some(path) if path.is_absolute() => path.join("wirespeed"),
        _ if uid == 0 => PathBuf::from("/run/wirespeed"),
        _ => PathBuf::from(format!("/run/user/{uid}/wirespeed")),
    }
}

/// The directories that a user's tools search: the user's own, root's, and for root all users'.
pub fn directories(runtime: Option<&OsStr>, uid: u32) -> Vec<PathBuf> {
    let mut all = vec![directory(runtime, uid), PathBuf::from("/run/wirespeed")];
    if uid == 0
        && let Ok(users) = std::fs::read_dir("/run/user")
    {
        all.extend(users.flatten().take(SOCKETS_MAX).map(|user| user.path().join("wirespeed")));
    }
    // Root's own directory may be one of the users', too.
    let mut seen = HashSet::new();
    all.retain(|directory| seen.insert(directory.clone()));
    all
}

/// The socket of process `pid` in `directory`.
pub fn socket(directory: &Path, pid: u32) -> PathBuf {
    directory.join(format!("{pid}.sock"))
}

/// Processes with a live socket in `directory`, and its path; including those that this user may
/// not query.
pub fn running(directory: &Path) -> Vec<(u32, PathBuf)> {
    let alive = |path: &Path| !matches!(probe(path), Err(Errno::CONNREFUSED | Errno::NOENT));
    let mut found: Vec<_> = sockets(directory).into_iter().filter(|(_, p)| alive(p)).collect();
    found.sort_unstable();
    found
}

/// Remove the sockets in `directory` that no server answers on.
pub fn sweep(directory: &Path) {
    for (_, path) in sockets(directory) {
        remove_dead(&path);
    }
}

/// Create `directory` if it does not exist, and check that only this user can access it.
///
/// # Errors
/// [`ControlError::Directory`], with advice.
pub fn prepare(directory: &Path) -> Result<(), ControlError> {
    let error = |why: String| ControlError::Directory { path: directory.to_owned(), why };
    match DirBuilder::new().mode(0o700).create(directory) {
        Ok(()) => {}
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
        Err(e) => {
            return Err(error(format!(
                "{e}. Set XDG_RUNTIME_DIR to a directory of yours that exists"
            )));
        }
    }
    let found = symlink_metadata(directory).map_err(|e| error(e.to_string()))?;
    let uid = rustix::process::geteuid().as_raw();
    if !found.is_dir() {
        return Err(error("it is no directory. Remove it".to_owned()));
    }
    if found.uid() != uid {
        return Err(error(format!("it belongs to user {}, not {uid}. Remove it", found.uid())));
    }
    if found.mode() & 0o077 != 0 {
        return Err(error(format!("others may enter it. Run `chmod 700 {}`", directory.display())));
    }
    Ok(())
}

/// Remove the socket at `path` if no server answers on it; true if it was removed.
pub fn remove_dead(path: &Path) -> bool {
    probe(path) == Err(Errno::CONNREFUSED) && std::fs::remove_file(path).is_ok()
}

/// A socket's address.
pub(crate) fn address(path: &Path) -> Result<SocketAddrUnix, ControlError> {
    SocketAddrUnix::new(path).map_err(|_| ControlError::PathTooLong { path: path.to_owned() })
}

/// Try to connect, without blocking: `Ok` if a server listens; a full backlog counts too.
fn probe(path: &Path) -> Result<(), Errno> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match connect(&fd, &address) {
        Err(Errno::AGAIN) => Ok(()),
        result => result,
    }
}

fn sockets(directory: &Path) -> Vec<(u32, PathBuf)> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let pid = |path: &Path| {
        let name = path.file_name()?.to_str()?;
        name.strip_suffix(".sock")?.parse::<u32>().ok()
    };
    let paths = entries.take(SOCKETS_MAX).flatten().map(|entry| entry.path());
    paths.filter_map(|path| Some((pid(&path)?, path))).collect()
}
