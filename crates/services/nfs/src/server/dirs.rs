//! Directories: READDIR and READDIRPLUS (RFC 1813 sections 3.3.16, 3.3.17).
//!
//! Called by: `server/mod.rs`. Names are listed in the order of their cookies ([`listings`]), so
//! that no name is missed or listed twice while other names are made and removed. A reply contains
//! as many entries as fit into the bytes that the caller allows, `LIST_BYTES` at most.
//!
//! [`listings`]: super::listings

use rpc::xdr::{Encode, Opaque};
use rustix::fs::{Dir, Mode, OFlags, openat};
use rustix::io::Errno;

use super::listings::{COOKIES, DOTS};
use super::tree::{Node, status};
use super::{Export, Reply};
use crate::limits::LIST_BYTES;
use crate::proto::{Handle, Kind, Status};

/// Where a listing continues, and its limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct From {
    pub(super) dir: Handle,
    pub(super) cookie: u64,
    /// The most bytes of names, inodes and cookies.
    pub(super) names_max: u32,
    /// The most bytes of the whole results.
    pub(super) bytes_max: u32,
    /// Does each entry have attributes and a handle (READDIRPLUS)?
    pub(super) is_plus: bool,
}

/// The entries of one reply.
struct Entries<'a> {
    out: &'a mut Vec<u8>,
    /// Where the results begin.
    begun: usize,
    names: usize,
    count: usize,
    most: usize,
    from: From,
}

impl Export {
    /// Append a reply of `most` bytes at most.
    pub(super) fn readdir(&self, from: From, most: u32, out: &mut Vec<u8>) -> Reply {
        let dir = self.tree.dir(&from.dir)?;
        if from.cookie >= COOKIES {
            return Err(Status::BadCookie);
        }
        let most = from.bytes_max.min(LIST_BYTES).min(most) as usize;
        let begun = out.len();
        // The verifier is 0: a cookie stays valid as long as the directory has names.
        (Status::Ok, Some(dir.attributes), 0_u64).encode(out);
        let mut entries = Entries { out, begun, names: 0, count: 0, most, from };
        let is_end = self.entries(&dir, &mut entries)?;
        if entries.count == 0 && !is_end {
            return Err(Status::TooSmall);
        }
        (false, is_end).encode(out);
        Ok(())
    }

    /// Append the entries that fit. Returns whether these are the last ones.
    fn entries(&self, dir: &Node, to: &mut Entries<'_>) -> Result<bool, Status> {
        let mut cookie = to.from.cookie;
        for (dot, name) in DOTS {
            if dot > cookie && !self.entry(dir, (dot, name, dir.id.inode), to) {
                return Ok(false);
            }
        }
        loop {
            let part = {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let now = (self.tree.clock)();
                let read = std::iter::once_with(|| {
                    let fd = openat(&dir.fd, ".", flags, Mode::empty())?;
                    Dir::read_from(&fd)
                });
                let entries = read.flat_map(names);
                self.listings.part(dir.id, cookie, now, entries).map_err(status)?
            };
            for name in part.behind(cookie) {
                if !self.entry(dir, (name.cookie, &name.name, name.inode), to) {
                    return Ok(false);
                }
            }
            match part.names.last() {
                Some(last) if !part.is_end() => cookie = last.cookie,
                _ => return Ok(true),
            }
        }
    }

    // RFC 1813 3.3.16-a: after the entries come two words: "no more entries", and whether the
    // directory ends here.
    /// Append an entry. Returns whether it fitted.
    fn entry(
        &self,
        dir: &Node,
        (cookie, name, inode): (u64, &[u8], u64),
        to: &mut Entries<'_>,
    ) -> bool {
        let is_plus = to.from.is_plus;
        let found = match name {
            b"." => Some((dir.id, dir.attributes)),
            b".." => self.tree.parent(dir).ok(),
            _ if is_plus => match self.tree.child(dir, name) {
                // The file was removed after the names were read.
                Err(Status::NoEntry) => return true,
                found => found.ok(),
            },
            _ => None,
        };
        let (at, out) = (to.out.len(), &mut *to.out);
        true.encode(out);
        // The `..` of the root has the inode of the root itself.
        let fileid = found.map_or(inode, |(_, of)| of.fileid);
        (fileid, Opaque(name), cookie).encode(out);
        if is_plus {
            // Return no handles of files that nobody can open.
            let handle = found
                .filter(|(_, of)| {
                    matches!(of.kind, Kind::Regular | Kind::Directory | Kind::Symlink)
                })
                .and_then(|(file, _)| self.tree.handle(file).ok());
            (found.map(|(_, of)| of), handle).encode(out);
        }
        let names = to.names + 24 + name.len().next_multiple_of(4);
        if out.len() + 8 - to.begun > to.most || names > to.from.names_max as usize {
            out.truncate(at);
            return false;
        }
        (to.names, to.count) = (names, to.count + 1);
        true
    }
}

/// A name and its inode.
type Named = (Box<[u8]>, u64);

/// The names of a directory with their inodes, or the error of reading the directory.
fn names(dir: Result<Dir, Errno>) -> Box<dyn Iterator<Item = Result<Named, Errno>>> {
    match dir {
        Err(error) => Box::new(std::iter::once(Err(error))),
        Ok(dir) => Box::new(dir.map(|entry| {
            let entry = entry?;
            Ok((entry.file_name().to_bytes().into(), entry.ino()))
        })),
    }
}
