//! The paths of control sockets: `wirespeed/PID.sock` in the user's run-time directory, or
//! `wirespeed-UID/PID.sock` in the directory for temporary files if there is none (after su(1), in
//! containers, from cron(8)).
//!
//! Called by: `server.rs` and programs. Only the user can access the directory (0700). A socket is
//! removed only if no server answers on it. Source: XDG Base Directory Specification 0.8,
//! file-hierarchy(7).

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, symlink_metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use crate::ControlError;

/// Maximum directory entries examined.
const SOCKETS_MAX: usize = 4096;

/// The directory of a user's sockets: below `runtime` (XDG_RUNTIME_DIR) if that is an absolute
/// path, else `/run/wirespeed` for root, else below `/run/user/UID`.
pub fn directory(runtime: Option<&OsStr>, uid: u32) -> PathBuf {
    match runtime.map(Path::new) {
        Some(path) if path.is_absolute() => path.join("wirespeed"),
        _ if uid == 0 => PathBuf::from("/run/wirespeed"),
        _ => PathBuf::from(format!("/run/user/{uid}/wirespeed")),
    }
}

/// The directories that the environment names.
#[derive(Clone, Debug)]
pub struct Environment {
    /// XDG_RUNTIME_DIR.
    pub runtime: Option<OsString>,
    /// WIRESPEED_RUNTIME_DIR, if it is an absolute path: the only directory that is used and
    /// searched. Programs with this directory and programs with another one do not see each other.
    pub only: Option<PathBuf>,
    /// The directory for temporary files: TMPDIR.
    pub temporary: PathBuf,
    /// The user of this process.
    pub uid: u32,
}

/// The directory for temporary files if the environment names none.
const TEMPORARY: &str = "/tmp";

impl Environment {
    /// The environment of this process.
    pub fn of_process() -> Environment {
        Environment {
            runtime: std::env::var_os("XDG_RUNTIME_DIR"),
            only: std::env::var_os("WIRESPEED_RUNTIME_DIR")
                .map(PathBuf::from)
                .filter(|path| path.is_absolute()),
            temporary: std::env::temp_dir(),
            uid: rustix::process::geteuid().as_raw(),
        }
    }

    fn in_only(&self) -> Option<PathBuf> {
        self.only.as_ref().map(|path| path.join("wirespeed"))
    }

    fn in_temporary(&self, directory: &Path) -> PathBuf {
        directory.join(format!("wirespeed-{}", self.uid))
    }

    /// The directory for this user's sockets, which is created if it does not exist: in the
    /// run-time directory, else in the directory for temporary files.
    ///
    /// # Errors
    /// [`ControlError::Directory`] about the run-time directory, if neither can be used.
    pub fn prepare(&self) -> Result<PathBuf, ControlError> {
        if let Some(only) = self.in_only() {
            return prepare_named(&only, "WIRESPEED_RUNTIME_DIR").map(|()| only);
        }
        let first = directory(self.runtime.as_deref(), self.uid);
        let why = match self.prepare_first(&first) {
            Ok(()) => return Ok(first),
            Err(why) => why,
        };
        let second = self.in_temporary(&self.temporary);
        prepare(&second).map(|()| second).map_err(|_| why)
    }

    /// Prepare the run-time directory, unless it belongs to another user: after su(1) the
    /// environment may still name that user's directory.
    fn prepare_first(&self, first: &Path) -> Result<(), ControlError> {
        let named = self.runtime.as_deref().map(Path::new).filter(|path| path.is_absolute());
        let owner = named.and_then(|path| std::fs::metadata(path).ok()).map(|found| found.uid());
        if let (Some(path), Some(owner)) = (named, owner.filter(|&owner| owner != self.uid)) {
            let (path, uid) = (path.to_owned(), self.uid);
            let why = format!(
                "XDG_RUNTIME_DIR belongs to user {owner}, and this is user {uid}. Set it to a \
                 directory of yours"
            );
            return Err(ControlError::Directory { path, why });
        }
        prepare(first)
    }

    /// The directories that this user's tools search: the user's own and root's. Nobody else can
    /// create sockets there.
    pub fn directories(&self) -> Vec<PathBuf> {
        if let Some(only) = self.in_only() {
            return vec![only];
        }
        let mut all = vec![directory(self.runtime.as_deref(), self.uid)];
        all.push(self.in_temporary(&self.temporary));
        all.push(self.in_temporary(Path::new(TEMPORARY)));
        all.push(PathBuf::from("/run/wirespeed"));
        let mut seen = HashSet::new();
        all.retain(|directory| seen.insert(directory.clone()) && is_of(directory, &[self.uid, 0]));
        all
    }

    /// The directories of other users that this user may read, each with its owner.
    pub fn directories_of_others(&self) -> Vec<(PathBuf, u32)> {
        if self.only.is_some() {
            return Vec::new();
        }
        let children = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten();
        let of_runtime = children(Path::new("/run/user")).map(|user| user.path().join("wirespeed"));
        let is_ours = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"wirespeed-"))
        };
        let of_temporary = children(Path::new(TEMPORARY)).map(|entry| entry.path()).filter(is_ours);
        let all = of_runtime.take(SOCKETS_MAX).chain(of_temporary.take(SOCKETS_MAX));
        let owned = all.filter_map(|path| {
            let uid = symlink_metadata(&path).ok()?.uid();
            (uid != self.uid && uid != 0 && is_of(&path, &[uid])).then_some((path, uid))
        });
        owned.collect()
    }
}

/// Does `directory` belong to one of these users, so that nobody else can create anything in it?
fn is_of(directory: &Path, users: &[u32]) -> bool {
    symlink_metadata(directory).is_ok_and(|found| {
        found.is_dir() && users.contains(&found.uid()) && found.mode() & 0o022 == 0
    })
}

/// The socket of process `pid` in `directory`.
pub fn socket(directory: &Path, pid: u32) -> PathBuf {
    directory.join(format!("{pid}.sock"))
}

/// The processes with a live socket in `directory`, each with the path of its socket, including
/// processes that this user may not query.
pub fn running(directory: &Path) -> Vec<(u32, PathBuf)> {
    let alive = |path: &Path| !matches!(probe(path), Err(Errno::CONNREFUSED | Errno::NOENT));
    let mut found: Vec<_> = sockets(directory).into_iter().filter(|(_, p)| alive(p)).collect();
    found.sort_unstable();
    found
}

/// Remove the sockets in `directory` on which no server answers.
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
    prepare_named(directory, "XDG_RUNTIME_DIR")
}

/// As [`prepare`], for a directory below the one that `variable` names.
fn prepare_named(directory: &Path, variable: &str) -> Result<(), ControlError> {
    let error = |why: String| ControlError::Directory { path: directory.to_owned(), why };
    match DirBuilder::new().mode(0o700).create(directory) {
        Ok(()) => {}
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
        Err(e) => {
            return Err(error(format!("{e}. Set {variable} to a directory of yours that exists")));
        }
    }
    let found = symlink_metadata(directory).map_err(|e| error(e.to_string()))?;
    let uid = rustix::process::geteuid().as_raw();
    if !found.is_dir() {
        return Err(error("it is not a directory. Remove it".to_owned()));
    }
    if found.uid() != uid {
        return Err(error(format!("it belongs to user {}, not {uid}. Remove it", found.uid())));
    }
    if found.mode() & 0o077 != 0 {
        return Err(error(format!("others may enter it. Run `chmod 700 {}`", directory.display())));
    }
    Ok(())
}

/// Remove the socket at `path` if no server answers on it. True if it was removed. A file that is
/// not a socket is never removed, although a connection to it is refused as well.
pub fn remove_dead(path: &Path) -> bool {
    let is_dead = || probe(path) == Err(Errno::CONNREFUSED);
    is_socket(path) && is_dead() && std::fs::remove_file(path).is_ok()
}

fn is_socket(path: &Path) -> bool {
    symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

/// Check that a socket can be made at `path`, without changing anything. A socket on which nobody
/// answers is no obstacle, because it would be replaced.
///
/// # Errors
/// [`ControlError::InTheWay`], [`ControlError::InUse`], [`ControlError::PathTooLong`];
/// [`ControlError::Directory`] if the directory of `path` does not exist.
pub fn vacancy(path: &Path) -> Result<(), ControlError> {
    address(path)?;
    let found = match symlink_metadata(path) {
        Ok(found) => found.file_type(),
        Err(why) if why.kind() == ErrorKind::NotFound => return has_directory(path),
        // The directory belongs to another user, who may be able to see the path.
        Err(why) if why.kind() == ErrorKind::PermissionDenied => return Ok(()),
        Err(why) => return Err(directory_error(path, why.to_string())),
    };
    let what = match found {
        kind if kind.is_socket() => {
            return match probe(path) {
                Err(Errno::CONNREFUSED) => Ok(()),
                _ => Err(ControlError::InUse { path: path.to_owned() }),
            };
        }
        kind if kind.is_file() => "a file",
        kind if kind.is_dir() => "a directory",
        kind if kind.is_symlink() => "a symbolic link",
        _ => "a special file",
    };
    Err(ControlError::InTheWay { path: path.to_owned(), what })
}

fn has_directory(path: &Path) -> Result<(), ControlError> {
    match path.parent() {
        // A path of one component is in the current directory.
        Some(parent) if !parent.as_os_str().is_empty() && !parent.is_dir() => {
            Err(directory_error(path, "it does not exist. Create it".to_owned()))
        }
        _ => Ok(()),
    }
}

fn directory_error(path: &Path, why: String) -> ControlError {
    let path = path.parent().unwrap_or(path).to_owned();
    ControlError::Directory { path, why }
}

/// A socket's address.
pub(crate) fn address(path: &Path) -> Result<SocketAddrUnix, ControlError> {
    SocketAddrUnix::new(path).map_err(|_| ControlError::PathTooLong { path: path.to_owned() })
}

/// Try to connect, without blocking. `Ok` if a server listens, even if its backlog is full.
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
