//! The directory that is served: from handles to open files, and from the system's attributes and
//! errors to those of NFS.
//!
//! Called by: the other files of the server. Nothing leaves the directory: every path is opened
//! from it by openat2(2) with RESOLVE_BENEATH, without symbolic links and without mount points, and
//! names of clients are single components.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rpc::blocking::Clock;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags, StatxTimestamp, fstatfs,
    openat, openat2, statx,
};
use rustix::io::Errno;

use super::handles::{FileId, Handles};
use super::open_files::{For, OpenFiles};
use crate::limits::NAME_BYTES;
use crate::proto::{Attributes, Handle, Kind, Status, Time};

/// What may not be on the way to a file.
const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// Types of file systems without a disk: tmpfs and ramfs (linux/magic.h).
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// A directory and what clients know of it.
#[derive(Debug)]
pub(super) struct Tree {
    root: OwnedFd,
    /// The mount of the directory; 0 on systems that do not say.
    mount: u64,
    /// All of the directory is in a file system without a disk: nothing outside is reached.
    in_memory: bool,
    handles: Mutex<Handles>,
    open: Mutex<OpenFiles>,
    clock: Clock,
}

/// A file that was found.
pub(super) struct Node {
    pub(super) fd: OwnedFd,
    pub(super) id: FileId,
    pub(super) attributes: Attributes,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tree {
    /// Serve this directory; `run` is a number that nobody can guess.
    pub(super) fn open(dir: &Path, run: u64, clock: Clock) -> Result<Tree, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(rustix::fs::CWD, dir, flags, Mode::empty())?;
        let of = looked_at(&root, "")?;
        // The kernel must know openat2(2), from Linux 5.6 on: it is tried here and not at a call.
        openat2(&root, ".", flags, Mode::empty(), BENEATH)?;
        let in_memory = IN_MEMORY.contains(&(fstatfs(&root)?.f_type as u64));
        let handles = Mutex::new(Handles::new(id(&of), run));
        let open = Mutex::new(OpenFiles::new());
        Ok(Tree { root, mount: mount(&of), in_memory, handles, open, clock })
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

    /// Open the file of a handle; `flags` are those of open(2) besides what is always there.
    pub(super) fn node(&self, handle: &Handle, flags: OFlags) -> Result<Node, Status> {
        let wanted = self.file(handle)?;
        let path = locked(&self.handles).path(wanted).ok_or(Status::Stale)?;
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat2(&self.root, &path[..], flags, Mode::empty(), BENEATH);
        let fd = opened.map_err(|error| match error {
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV => Status::Stale,
            error => status(error),
        })?;
        let of = looked_at(&fd, "").map_err(status)?;
        // RFC 1813 2.6-a: another file has taken the name.
        if id(&of) != wanted {
            return Err(Status::Stale);
        }
        Ok(Node { fd, id: wanted, attributes: attributes(&of)? })
    }

    /// Find the file of a handle, without access to its data.
    pub(super) fn look(&self, handle: &Handle) -> Result<Node, Status> {
        self.node(handle, OFlags::PATH)
    }

    /// Find a directory.
    pub(super) fn dir(&self, handle: &Handle) -> Result<Node, Status> {
        let node = self.look(handle)?;
        if node.attributes.kind == Kind::Directory { Ok(node) } else { Err(Status::NotDirectory) }
    }

    /// A name in a directory: its file is known from now on.
    pub(super) fn child(&self, dir: &Node, name: &[u8]) -> Result<(FileId, Attributes), Status> {
        let of = looked_at(&dir.fd, name).map_err(status)?;
        let (file, attributes) = (id(&of), attributes(&of)?);
        // RESOLVE_NO_XDEV would not let it be opened.
        if mount(&of) != self.mount {
            return Err(Status::Access);
        }
        self.know(file, dir.id, name);
        Ok((file, attributes))
    }

    /// A file is in that directory under that name.
    pub(super) fn know(&self, file: FileId, dir: FileId, name: &[u8]) {
        locked(&self.handles).insert(file, dir, name);
    }

    /// The directory in which a directory is.
    pub(super) fn parent(&self, of: &Node) -> Result<(FileId, Attributes), Status> {
        let parent = locked(&self.handles).dir(of.id).ok_or(Status::Stale)?;
        let node = self.look(&self.handle(parent)?)?;
        Ok((node.id, node.attributes))
    }

    /// Where a file was found: the handle of the directory, and the name in it.
    pub(super) fn name(&self, of: FileId) -> Result<(Handle, Vec<u8>), Status> {
        let handles = locked(&self.handles);
        let (dir, name) = handles.name(of).ok_or(Status::Stale)?;
        Ok((handles.handle(dir).ok_or(Status::ServerFault)?, name.to_vec()))
    }

    /// Is the data of all files in memory, and nowhere else?
    pub(super) fn is_in_memory(&self) -> bool {
        self.in_memory
    }

    /// A regular file that is open already.
    pub(super) fn is_open(&self, handle: &Handle, what: For) -> Option<Arc<OwnedFd>> {
        locked(&self.open).find(self.file(handle).ok()?, what, (self.clock)())
    }

    /// Open a regular file for its data, or find it open.
    pub(super) fn data(&self, handle: &Handle, what: For) -> Result<Arc<OwnedFd>, Status> {
        let (file, now) = (self.file(handle)?, (self.clock)());
        if let Some(found) = locked(&self.open).find(file, what, now) {
            return Ok(found);
        }
        // Looked at first: to open a device or a FIFO is more than to look at it.
        if self.look(handle)?.attributes.kind != Kind::Regular {
            return Err(Status::Invalid);
        }
        let flags = match what {
            For::Reading => OFlags::RDONLY,
            For::Writing => OFlags::WRONLY,
        };
        let fd = Arc::new(self.node(handle, flags | OFlags::NONBLOCK | OFlags::NOCTTY)?.fd);
        let closed = locked(&self.open).insert(file, what, fd.clone(), now);
        drop(closed);
        Ok(fd)
    }

    /// Close files that were not used for a while.
    pub(super) fn close_unused(&self) {
        let unused = locked(&self.open).take_unused((self.clock)());
        drop(unused);
    }

    /// A file has lost a name.
    pub(super) fn close(&self, file: FileId) {
        let closed = locked(&self.open).close(file);
        drop(closed);
    }
}

/// A name that a client may give a file: one component, neither `.` nor `..`.
pub(super) fn new_name(name: &[u8]) -> Result<&[u8], Status> {
    match component(name)? {
        b"." | b".." => Err(Status::Invalid),
        name => Ok(name),
    }
}

/// A name in a directory, `.` and `..` among them.
pub(super) fn component(name: &[u8]) -> Result<&[u8], Status> {
    match name {
        [] => Err(Status::Invalid),
        _ if name.len() > NAME_BYTES => Err(Status::NameTooLong),
        _ if name.iter().any(|&byte| byte == b'/' || byte == 0) => Err(Status::Invalid),
        _ => Ok(name),
    }
}

/// What the system says of a name in a directory, or of the directory itself if it is empty.
pub(super) fn looked_at(dir: impl AsFd, name: impl rustix::path::Arg) -> Result<Statx, Errno> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    statx(dir, name, flags, StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::MNT_ID)
}

/// In which mount it is, or 0.
fn mount(of: &Statx) -> u64 {
    if of.stx_mask & StatxFlags::MNT_ID.bits() != 0 { of.stx_mnt_id } else { 0 }
}

/// Which file it is.
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

/// Times before 1970 and after 2106 are those.
fn time(of: StatxTimestamp) -> Time {
    let seconds = of.tv_sec.clamp(0, u32::MAX.into()) as u32;
    Time { seconds, nanoseconds: of.tv_nsec }
}

/// What NFS calls an error of the system.
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
        // A symbolic link where none may be.
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
        // Descriptors or memory are short: it may be better later.
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN => Status::Jukebox,
        _ => Status::Io,
    }
}
