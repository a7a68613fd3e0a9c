//! Names in directories: LOOKUP, READLINK, CREATE, MKDIR, SYMLINK, REMOVE, RMDIR, RENAME, LINK (RFC
//! 1813 sections 3.3.3, 3.3.5, 3.3.8 to 3.3.15).
//!
//! Called by: `server/mod.rs`. New names are single path components. Files are made without the
//! set-user-id and set-group-id bits. A change is on the disk before it is answered: each procedure
//! that changes names ends with fsync(2) of the directory.

use std::sync::Arc;

use rpc::xdr::{Encode, Opaque};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, fsync, futimens, linkat, mkdirat, openat,
    readlinkat, renameat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use super::handles::FileId;
use super::kept::For;
use super::tree::{Node, before, component, id, itself, looked_at, new_name, status};
use super::{Export, Reply};
use crate::limits::PATH_BYTES;
use crate::proto::{
    At, Attributes, Before, Changed, Found, Handle, How, Kind, Made, SetAttributes, Status,
};

/// The bits of a mode that clients may set: read, write, execute, and the sticky bit.
pub(super) const MODE: u32 = 0o1777;

impl Export {
    pub(super) fn lookup(&self, at: &At<'_>, out: &mut Vec<u8>) -> Reply {
        let dir = self.tree.dir(&at.dir)?;
        let (file, of) = match component(at.name.0)? {
            b"." => (dir.id, dir.attributes),
            b".." => self.tree.parent(&dir)?,
            name => self.tree.child(&dir, name)?,
        };
        let handle = self.tree.handle(file)?;
        let found = Found { handle, attributes: Some(of), dir: Some(dir.attributes) };
        (Status::Ok, found).encode(out);
        Ok(())
    }

    pub(super) fn readlink(&self, link: &Handle, out: &mut Vec<u8>) -> Reply {
        let node = self.tree.look(link)?;
        if node.attributes.kind != Kind::Symlink {
            return Err(Status::Invalid);
        }
        let text = readlinkat(&node.fd, "", Vec::new()).map_err(status)?;
        (Status::Ok, Some(node.attributes), Opaque(text.as_bytes())).encode(out);
        Ok(())
    }

    /// Append the results of a call that has made a file in a directory, with the directory's
    /// attributes before and after.
    fn made(&self, (dir, changed): (&Node, Changed), name: &[u8], out: &mut Vec<u8>) -> Reply {
        fsync_dir(dir)?;
        let (file, attributes) = self.tree.child(dir, name)?;
        let handle = Some(self.tree.handle(file)?);
        let made = Made { handle, attributes: Some(attributes), dir: changed };
        (Status::Ok, made).encode(out);
        Ok(())
    }

    pub(super) fn create(&self, (at, how): &(At<'_>, How), out: &mut Vec<u8>) -> Reply {
        self.may_change()?;
        let name = new_name(at.name.0)?;
        let dir = self.tree.dir(&at.dir)?;
        let set = match how {
            How::Unchecked(set) | How::Guarded(set) => *set,
            How::Exclusive(_) => SetAttributes::default(),
        };
        let mode = Mode::from_raw_mode(set.mode.unwrap_or(0o644) & MODE);
        let changing = self.changes.begin(dir.id);
        let before = before(&dir);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let new = openat(&dir.fd, name, flags | OFlags::CLOEXEC, mode);
        // RFC 1813 3.3.8-a, 3.3.8-b: what happens if the name exists.
        match (&new, how) {
            (Ok(fd), How::Exclusive(verifier)) => {
                futimens(fd, &times(*verifier)).map_err(status)?;
            }
            // Set the mode that was asked for, because the umask may have removed bits from it.
            (Ok(_), _) => {
                let (file, _) = self.tree.child(&dir, name)?;
                let mode = Some(set.mode.unwrap_or(0o644));
                self.set(&self.tree.handle(file)?, &SetAttributes { mode, ..set })?;
            }
            (Err(Errno::EXIST), How::Unchecked(_)) => {
                let (file, of) = self.tree.child(&dir, name)?;
                if of.kind != Kind::Regular {
                    return Err(Status::Exists);
                }
                // If the file exists, only its size is set (RFC 1813 section 3.3.8).
                let size = SetAttributes { size: set.size, ..SetAttributes::default() };
                self.set(&self.tree.handle(file)?, &size)?;
            }
            (Err(Errno::EXIST), How::Exclusive(verifier)) => {
                let (_, of) = self.tree.child(&dir, name)?;
                let [first, second] = words(*verifier);
                if (of.atime.seconds, of.mtime.seconds) != (first, second) {
                    return Err(Status::Exists);
                }
            }
            (Err(error), _) => return Err(status(*error)),
        }
        let changed = self.changed(&dir, before);
        drop(changing);
        if let Ok(fd) = new {
            // Write the file's attributes to the disk. After an exclusive CREATE they contain the
            // verifier.
            fsync(&fd).map_err(status)?;
            // Keep the file open, so that the next WRITE works with any mode.
            let file = id(&looked_at(&fd, "").map_err(status)?);
            self.tree.keep(file, For::Writing, &Arc::new(fd));
        }
        self.made((&dir, changed), name, out)
    }

    pub(super) fn mkdir(&self, (at, set): &(At<'_>, SetAttributes), out: &mut Vec<u8>) -> Reply {
        self.may_change()?;
        let name = made_name(at.name.0)?;
        let dir = self.tree.dir(&at.dir)?;
        let mode = set.mode.unwrap_or(0o755) & MODE;
        let changing = self.changes.begin(dir.id);
        let before = before(&dir);
        mkdirat(&dir.fd, name, Mode::from_raw_mode(mode)).map_err(status)?;
        let changed = self.changed(&dir, before);
        drop(changing);
        let (file, _) = self.tree.child(&dir, name)?;
        let set = SetAttributes { mode: Some(mode), size: None, ..*set };
        self.set(&self.tree.handle(file)?, &set)?;
        self.made((&dir, changed), name, out)
    }

    pub(super) fn symlink(
        &self,
        (at, _, text): &(At<'_>, SetAttributes, Opaque<'_>),
        out: &mut Vec<u8>,
    ) -> Reply {
        self.may_change()?;
        let name = made_name(at.name.0)?;
        if text.0.len() > PATH_BYTES {
            return Err(Status::NameTooLong);
        }
        if text.0.is_empty() || text.0.contains(&0) {
            return Err(Status::Invalid);
        }
        let dir = self.tree.dir(&at.dir)?;
        let changing = self.changes.begin(dir.id);
        let before = before(&dir);
        symlinkat(text.0, &dir.fd, name).map_err(status)?;
        let changed = self.changed(&dir, before);
        drop(changing);
        self.made((&dir, changed), name, out)
    }

    /// Carry out REMOVE and RMDIR.
    pub(super) fn remove(&self, at: &At<'_>, is_dir: bool, out: &mut Vec<u8>) -> Reply {
        self.may_change()?;
        let name = match component(at.name.0)? {
            b"." => return Err(Status::Invalid),
            b".." => return Err(Status::Exists),
            name => name,
        };
        let dir = self.tree.dir(&at.dir)?;
        let changing = self.changes.begin(dir.id);
        let (file, of) = self.tree.named(&dir, name)?;
        let before = before(&dir);
        let flags = if is_dir { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        unlinkat(&dir.fd, name, flags).map_err(status)?;
        self.lost_a_name(file, &of);
        let changed = self.changed(&dir, before);
        drop(changing);
        fsync_dir(&dir)?;
        (Status::Ok, changed).encode(out);
        Ok(())
    }

    /// Note that a file has lost one of its names.
    fn lost_a_name(&self, file: FileId, of: &Attributes) {
        self.tree.close(file);
        if of.kind == Kind::Directory || of.nlink <= 1 {
            self.tree.forget(file);
        }
    }

    pub(super) fn rename(&self, (from, to): &(At<'_>, At<'_>), out: &mut Vec<u8>) -> Reply {
        self.may_change()?;
        let (old, new) = (new_name(from.name.0)?, new_name(to.name.0)?);
        let (from, to) = (self.tree.dir(&from.dir)?, self.tree.dir(&to.dir)?);
        let changing = self.changes.begin_both(from.id, to.id);
        let befores = [&from, &to].map(before);
        let (file, _) = self.tree.child(&from, old)?;
        let replaced = self.tree.named(&to, new).ok();
        renameat(&from.fd, old, &to.fd, new).map_err(status)?;
        // RENAME of a file to another one of its own names does nothing: both names stay.
        self.tree.know(file, to.id, new);
        if let Ok((now, _)) = self.tree.named(&to, new) {
            self.tree.is_now(file, now);
        }
        // An open file now has another path than when it was opened.
        self.tree.close(file);
        if let Some((replaced, of)) = replaced.filter(|(replaced, _)| *replaced != file) {
            self.lost_a_name(replaced, &of);
        }
        let [from_changed, to_changed] =
            [(&from, befores[0]), (&to, befores[1])].map(|(dir, before)| self.changed(dir, before));
        drop(changing);
        // Sync the directory with the new name first: a client takes the new name as proof that the
        // data is there.
        fsync_dir(&to)?;
        if from.id != to.id {
            fsync_dir(&from)?;
        }
        (Status::Ok, from_changed, to_changed).encode(out);
        Ok(())
    }

    pub(super) fn link(&self, (file, at): &(Handle, At<'_>), out: &mut Vec<u8>) -> Reply {
        self.may_change()?;
        let name = made_name(at.name.0)?;
        let node = self.tree.look(file)?;
        if node.attributes.kind == Kind::Directory {
            return Err(Status::Invalid);
        }
        let dir = self.tree.dir(&at.dir)?;
        let changing = self.changes.begin(dir.id);
        let before = before(&dir);
        let flags = AtFlags::SYMLINK_FOLLOW;
        linkat(CWD, itself(&node.fd), &dir.fd, name, flags).map_err(status)?;
        let after = self.tree.changed(&node).ok();
        let changed = self.changed(&dir, before);
        drop(changing);
        fsync_dir(&dir)?;
        (Status::Ok, after, changed).encode(out);
        Ok(())
    }

    /// The attributes of a directory before and after a change.
    fn changed(&self, dir: &Node, before: Option<Before>) -> Changed {
        Changed { before, after: self.tree.changed(dir).ok() }
    }
}

/// Check the name of a directory or a link to be made: `.` and `..` exist already.
fn made_name(name: &[u8]) -> Result<&[u8], Status> {
    match component(name)? {
        b"." | b".." => Err(Status::Exists),
        name => Ok(name),
    }
}

// RFC 1813 4.7-a: a client takes the reply as proof that the change is on the disk.
fn fsync_dir(dir: &Node) -> Reply {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match openat(&dir.fd, ".", flags, Mode::empty()) {
        Ok(open) => match fsync(&open) {
            // The file system does not support fsync(2) of directories.
            Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            done => done.map_err(status),
        },
        // The server may not read this directory, so it cannot sync it. The system writes it later.
        Err(Errno::ACCESS | Errno::PERM) => Ok(()),
        Err(error) => Err(status(error)),
    }
}

// RFC 1813 section 3.3.8: the verifier may be kept in the file's attributes. Any verifier must fit
// into times.
/// The two halves of a verifier as seconds, which every file system can store.
fn words(verifier: [u8; 8]) -> [u32; 2] {
    let whole = u64::from_be_bytes(verifier);
    [(whole >> 32) as u32 & 0x7FFF_FFFF, whole as u32 & 0x7FFF_FFFF]
}

fn times(verifier: [u8; 8]) -> Timestamps {
    let [last_access, last_modification] =
        words(verifier).map(|seconds| Timespec { tv_sec: seconds.into(), tv_nsec: 0 });
    Timestamps { last_access, last_modification }
}
