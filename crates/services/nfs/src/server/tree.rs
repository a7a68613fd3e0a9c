//! The directory that is served: maps handles to open files, and the system's attributes and errors
//! to those of NFS.
//!
//! Called by: the other files of the server. No path leads out of the directory: openat2(2) opens
//! every path from the directory with RESOLVE_BENEATH, and follows no symbolic links and crosses no
//! mount points. Names from clients must be single path components. An open file is used only while
//! it is still at the path at which it was opened.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use base::KeyedHash;
use rpc::blocking::Clock;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags, StatxTimestamp, chmodat,
    fstatfs, openat, openat2, readlinkat, statx,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::handles::{FileId, Handles};
use super::kept::{For, OpenFiles};
use super::search::Search;
use crate::limits::NAME_BYTES;
use crate::proto::{Attributes, Before, Handle, Kind, Status, Time};

/// How openat2(2) resolves a path: it refuses to leave the directory, symbolic links and mount
/// points.
pub(super) const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// The types (magic numbers, linux/magic.h) of the file systems without a disk: tmpfs and ramfs.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// The bits of a mode that chmod(2) may clear and that could then not be set again.
const SET_ID: u32 = 0o6000;

/// A directory, and the state of clients in it.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) root: OwnedFd,
    /// The mount id of the directory; 0 if the system does not report it.
    mount: u64,
    /// Is the whole directory in a file system without a disk? Mount points in it are not crossed.
    in_memory: bool,
    is_read_only: bool,
    pub(super) handles: Mutex<Handles>,
    open: Mutex<OpenFiles>,
    /// Held while a mode is changed, even if the mode is changed back at once.
    modes: Mutex<()>,
    pub(super) search: Mutex<Search>,
    pub(super) searched: Condvar,
    pub(super) clock: Clock,
}

/// A file that was found.
pub(super) struct Node {
    /// A descriptor that names the file (`O_PATH`), not open for data.
    pub(super) fd: OwnedFd,
    pub(super) id: FileId,
    pub(super) attributes: Attributes,
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tree {
    /// Serve a directory. `secret` has to be the same in each run.
    pub(super) fn open(
        dir: &Path,
        is_read_only: bool,
        secret: KeyedHash,
        clock: Clock,
    ) -> Result<Tree, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, dir, flags, Mode::empty())?;
        let of = looked_at(&root, "")?;
        // openat2(2) exists since Linux 5.6. Check that here and not at the first call.
        openat2(&root, ".", flags, Mode::empty(), BENEATH)?;
        let in_memory = IN_MEMORY.contains(&(fstatfs(&root)?.f_type as u64));
        Ok(Tree {
            root,
            mount: mount(&of),
            in_memory,
            is_read_only,
            handles: Mutex::new(Handles::new(id(&of), secret)),
            open: Mutex::new(OpenFiles::new()),
            modes: Mutex::new(()),
            search: Mutex::new(Search::default()),
            searched: Condvar::new(),
            clock,
        })
    }

    /// The handle of the root.
    pub(super) fn root(&self) -> Result<Handle, Status> {
        let handles = locked(&self.handles);
        handles.handle(handles.root()).ok_or(Status::ServerFault)
    }

    /// The handle of a file.
    pub(super) fn handle(&self, of: FileId) -> Result<Handle, Status> {
        locked(&self.handles).handle(of).ok_or(Status::ServerFault)
    }

    pub(super) fn file(&self, handle: &Handle) -> Result<FileId, Status> {
        let file = locked(&self.handles).file(handle).map_err(|()| Status::BadHandle)?;
        file.ok_or(Status::Stale)
    }

    /// Find the file of a handle, without opening it for data.
    pub(super) fn look(&self, handle: &Handle) -> Result<Node, Status> {
        self.find(self.file(handle)?)
    }

    /// The file, if it is still where it was found last.
    pub(super) fn where_it_was(&self, wanted: FileId) -> Result<Option<Node>, Status> {
        let (path, now, root) = {
            let mut handles = locked(&self.handles);
            let Some(path) = handles.path(wanted) else { return Ok(None) };
            (path, handles.now(wanted), handles.root())
        };
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match openat2(&self.root, &path[..], flags, Mode::empty(), BENEATH) {
            Ok(fd) => fd,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => return Ok(None),
            Err(error) => return Err(status(error)),
        };
        let of = looked_at(&fd, "").map_err(status)?;
        // RFC 1813 2.6-a: another file may have taken the name. The root is open, so it cannot be
        // another one.
        if id(&of) != now && wanted != root {
            return Ok(None);
        }
        Ok(Some(Node { fd, id: wanted, attributes: attributes(&of)? }))
    }

    /// Find a directory.
    pub(super) fn dir(&self, handle: &Handle) -> Result<Node, Status> {
        let node = self.look(handle)?;
        if node.attributes.kind == Kind::Directory { Ok(node) } else { Err(Status::NotDirectory) }
    }

    /// The file with this name in a directory.
    pub(super) fn named(&self, dir: &Node, name: &[u8]) -> Result<(FileId, Attributes), Status> {
        let of = looked_at(&dir.fd, name).map_err(status)?;
        if !self.is_inside(&of) {
            return Err(Status::Access);
        }
        Ok((id(&of), attributes(&of)?))
    }

    /// The file with this name in a directory. Its place is noted.
    pub(super) fn child(&self, dir: &Node, name: &[u8]) -> Result<(FileId, Attributes), Status> {
        let (file, attributes) = self.named(dir, name)?;
        self.know(file, dir.id, name);
        Ok((file, attributes))
    }

    /// Is the file in the same mount as the directory? If not, it is a mount point, which
    /// RESOLVE_NO_XDEV refuses to open.
    pub(super) fn is_inside(&self, of: &Statx) -> bool {
        mount(of) == self.mount
    }

    /// Note that a file is in directory `dir` under the name `name`.
    pub(super) fn know(&self, file: FileId, dir: FileId, name: &[u8]) {
        locked(&self.handles).insert(file, dir, name);
    }

    /// The attributes of a file after a change. The change may have given the file another identity
    /// in the system, which is noted.
    pub(super) fn changed(&self, node: &Node) -> Result<Attributes, Status> {
        let of = looked_at(&node.fd, "").map_err(status)?;
        self.is_now(node.id, id(&of));
        attributes(&of)
    }

    /// Note that the identity of a file in the system has changed.
    pub(super) fn is_now(&self, file: FileId, now: FileId) {
        locked(&self.handles).became(file, now);
    }

    /// The directory that contains the directory `of`.
    pub(super) fn parent(&self, of: &Node) -> Result<(FileId, Attributes), Status> {
        let parent = locked(&self.handles).dir(of.id).ok_or(Status::Stale)?;
        let node = self.find(parent)?;
        Ok((node.id, node.attributes))
    }

    /// Is the data of all files in memory only?
    pub(super) fn is_in_memory(&self) -> bool {
        self.in_memory
    }

    /// A regular file that is already open.
    pub(super) fn is_open(&self, handle: &Handle, what: For) -> Option<Arc<OwnedFd>> {
        self.kept(self.file(handle).ok()?, what)
    }

    /// An open file, if it still has the path at which it was opened. It may have been moved out of
    /// the directory since then, or have lost its name.
    fn kept(&self, file: FileId, what: For) -> Option<Arc<OwnedFd>> {
        let kept = locked(&self.open).find(file, what, (self.clock)())?;
        if kept.is_unchecked && place(&kept.open).ok()?[..] != *kept.place {
            self.close(file);
            return None;
        }
        Some(kept.open)
    }

    /// Keep a file open that was found in the directory, if the system reports its path.
    pub(super) fn keep(&self, file: FileId, what: For, open: &Arc<OwnedFd>) {
        let (Ok(place), Ok(root)) = (place(&**open), place(&self.root)) else { return };
        let below = place.strip_prefix(root.strip_suffix(b"/").unwrap_or(&root));
        if below.is_some_and(|below| below.starts_with(b"/")) {
            let now = (self.clock)();
            let closed = locked(&self.open).insert(file, what, open.clone(), place.into(), now);
            drop(closed);
        }
    }

    /// Open a regular file for its data, or return it if it is open already.
    pub(super) fn data(&self, handle: &Handle, what: For) -> Result<Arc<OwnedFd>, Status> {
        let file = self.file(handle)?;
        if let Some(found) = self.kept(file, what) {
            return Ok(found);
        }
        // Check the type first, because opening a device or a FIFO has effects.
        let node = self.find(file)?;
        if node.attributes.kind != Kind::Regular {
            return Err(Status::Invalid);
        }
        let fd = Arc::new(self.opened(&node, what)?);
        self.keep(file, what, &fd);
        Ok(fd)
    }

    /// Open a regular file that was found: this same file, even if another file has its name now.
    pub(super) fn opened(&self, node: &Node, what: For) -> Result<OwnedFd, Status> {
        let access = match what {
            For::Reading => OFlags::RDONLY,
            For::Writing => OFlags::WRONLY,
        };
        let flags = access | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = match openat(CWD, itself(&node.fd), flags, Mode::empty()) {
            Err(Errno::ACCESS) => self.opened_by_owner(node, flags),
            opened => opened,
        };
        let fd = opened.map_err(status)?;
        if what == For::Writing {
            self.changed(node)?;
        }
        Ok(fd)
    }

    // RFC 1813 section 4.4: the owner may read and write a file that a client has open, whatever
    // the file's mode has become. A server does not know which files a client has open, so it
    // always lets the owner.
    /// Open a file whose mode forbids it, but which the server's user owns: change the mode for a
    /// moment.
    fn opened_by_owner(&self, node: &Node, flags: OFlags) -> Result<OwnedFd, Errno> {
        let _one = locked(&self.modes);
        let of = looked_at(&node.fd, "")?;
        let mode = u32::from(of.stx_mode) & 0o7777;
        let is_ours = of.stx_uid == geteuid().as_raw();
        if !is_ours || self.is_read_only || mode & SET_ID != 0 {
            return Err(Errno::ACCESS);
        }
        let path = itself(&node.fd);
        let wide = mode | 0o600;
        let chmod = |mode| chmodat(CWD, &path, Mode::from_raw_mode(mode), AtFlags::empty());
        chmod(wide).map_err(|_| Errno::ACCESS)?;
        let opened = openat(CWD, &path, flags, Mode::empty());
        // Change the mode back, unless another program has changed it in between.
        if looked_at(&node.fd, "").is_ok_and(|of| u32::from(of.stx_mode) & 0o7777 == wide) {
            chmod(mode)?;
        }
        opened
    }

    /// Set the mode of a file by its path in /proc, because fchmod(2) needs a file that is open for
    /// data.
    pub(super) fn set_mode(&self, node: &Node, mode: u32) -> Result<(), Status> {
        let _one = locked(&self.modes);
        let mode = Mode::from_raw_mode(mode);
        chmodat(CWD, itself(&node.fd), mode, AtFlags::empty()).map_err(status)
    }

    /// Close files that were not used for a while.
    pub(super) fn close_unused(&self) {
        let unused = locked(&self.open).take_unused((self.clock)());
        drop(unused);
    }

    /// Close a file here that has lost a name.
    pub(super) fn close(&self, file: FileId) {
        let closed = locked(&self.open).close(file);
        drop(closed);
    }

    /// Forget a file that has lost its last name.
    pub(super) fn forget(&self, file: FileId) {
        locked(&self.handles).forget(file, (self.clock)());
    }
}

/// A path (in /proc) to the file of a descriptor, independent of the file's names.
pub(super) fn itself(fd: impl AsFd) -> String {
    format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd())
}

/// The path of an open file, as the system reports it.
fn place(fd: impl AsFd) -> Result<Vec<u8>, Errno> {
    Ok(readlinkat(CWD, itself(fd), Vec::new())?.into_bytes())
}

/// The attributes of a file before a call changes it.
pub(super) fn before(node: &Node) -> Option<Before> {
    seen_before(&node.fd)
}

/// [`before`] for an open file.
pub(super) fn seen_before(fd: impl AsFd) -> Option<Before> {
    let of = attributes(&looked_at(fd, "").ok()?).ok()?;
    Some(Before { size: of.size, mtime: of.mtime, ctime: of.ctime })
}

/// A name that a client may give a file: one component, neither `.` nor `..`.
pub(super) fn new_name(name: &[u8]) -> Result<&[u8], Status> {
    match component(name)? {
        b"." | b".." => Err(Status::Invalid),
        name => Ok(name),
    }
}

/// Check a name in a directory; `.` and `..` are allowed.
pub(super) fn component(name: &[u8]) -> Result<&[u8], Status> {
    match name {
        [] => Err(Status::Invalid),
        _ if name.len() > NAME_BYTES => Err(Status::NameTooLong),
        _ if name.iter().any(|&byte| byte == b'/' || byte == 0) => Err(Status::Invalid),
        _ => Ok(name),
    }
}

/// The system's attributes of the file with this name in a directory, or of the directory itself if
/// the name is empty.
pub(super) fn looked_at(dir: impl AsFd, name: impl rustix::path::Arg) -> Result<Statx, Errno> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    statx(dir, name, flags, StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::MNT_ID)
}

/// The mount id of a file; 0 if the system does not report it.
fn mount(of: &Statx) -> u64 {
    if of.stx_mask & StatxFlags::MNT_ID.bits() != 0 { of.stx_mnt_id } else { 0 }
}

/// The identity of a file.
pub(super) fn id(of: &Statx) -> FileId {
    let device = u64::from(of.stx_dev_major) << 32 | u64::from(of.stx_dev_minor);
    let has_birth = of.stx_mask & StatxFlags::BTIME.bits() != 0;
    let birth = of.stx_btime.tv_sec as u64;
    let born = birth.wrapping_mul(1_000_000_000).wrapping_add(u64::from(of.stx_btime.tv_nsec));
    FileId { device, inode: of.stx_ino, born: if has_birth { born } else { 0 } }
}

/// The attributes of a file.
pub(super) fn attributes(of: &Statx) -> Result<Attributes, Status> {
    let kind = match FileType::from_raw_mode(of.stx_mode.into()) {
        FileType::RegularFile => Kind::Regular,
        FileType::Directory => Kind::Directory,
        FileType::BlockDevice => Kind::Block,
        FileType::CharacterDevice => Kind::Character,
        FileType::Symlink => Kind::Symlink,
        FileType::Socket => Kind::Socket,
        FileType::Fifo => Kind::Fifo,
        FileType::Unknown => return Err(Status::ServerFault),
    };
    let FileId { device, inode, .. } = id(of);
    Ok(Attributes {
        kind,
        mode: u32::from(of.stx_mode) & 0o7777,
        nlink: of.stx_nlink,
        uid: of.stx_uid,
        gid: of.stx_gid,
        size: of.stx_size,
        used: of.stx_blocks.saturating_mul(512),
        major: of.stx_rdev_major,
        minor: of.stx_rdev_minor,
        fsid: device,
        fileid: inode,
        atime: time(of.stx_atime),
        mtime: time(of.stx_mtime),
        ctime: time(of.stx_ctime),
    })
}

/// A time for NFS. Times before 1970 become 1970, times after 2106 become 2106.
fn time(of: StatxTimestamp) -> Time {
    let seconds = of.tv_sec.clamp(0, u32::MAX.into()) as u32;
    Time { seconds, nanoseconds: of.tv_nsec }
}

/// The NFS status for an error of the system.
pub(super) fn status(error: Errno) -> Status {
    match error {
        Errno::PERM => Status::NotOwner,
        Errno::NOENT => Status::NoEntry,
        Errno::NXIO => Status::NoDevice,
        Errno::ACCESS => Status::Access,
        Errno::EXIST => Status::Exists,
        Errno::XDEV => Status::CrossDevice,
        Errno::NOTDIR => Status::NotDirectory,
        Errno::ISDIR => Status::IsDirectory,
        // There is a symbolic link where none may be.
        Errno::INVAL | Errno::LOOP => Status::Invalid,
        Errno::FBIG => Status::TooBig,
        Errno::NOSPC => Status::NoSpace,
        Errno::ROFS => Status::ReadOnly,
        Errno::MLINK => Status::TooManyLinks,
        Errno::NAMETOOLONG => Status::NameTooLong,
        Errno::NOTEMPTY => Status::NotEmpty,
        Errno::DQUOT => Status::Quota,
        Errno::STALE => Status::Stale,
        Errno::OPNOTSUPP => Status::NotSupported,
        // Descriptors or memory are short, so the client should try again later.
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN => Status::Jukebox,
        _ => Status::Io,
    }
}
