//! Directories: READDIR and READDIRPLUS (RFC 1813 sections 3.3.16, 3.3.17).
//!
//! Called by: `server/mod.rs`. Cookies are the positions of the system's directory. A reply has as
//! many entries as fit into the bytes that the caller allows, `LIST_BYTES` at most.

use rpc::server::Transport;
use rpc::xdr::{Encode, Opaque};
use rustix::fs::{Dir, DirEntry, OFlags};

use super::files::transfer_max;
use super::tree::{Node, status};
use super::{Export, Reply};
use crate::limits::LIST_BYTES;
use crate::proto::{Handle, Kind, Status};

/// Where a listing goes on, and how long it may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct From {
    pub(super) dir: Handle,
    pub(super) cookie: u64,
    /// Bytes of names, numbers and cookies.
    pub(super) names_max: u32,
    /// Bytes of the whole results.
    pub(super) bytes_max: u32,
    /// With attributes and handles.
    pub(super) is_plus: bool,
}

impl Export {
    pub(super) fn readdir(&self, from: From, over: Transport, out: &mut Vec<u8>) -> Reply {
        // Opened to be looked at first: a FIFO must not be opened.
        self.tree.dir(&from.dir)?;
        let node = self.tree.node(&from.dir, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let Node { fd, id, attributes } = node;
        let mut entries = Dir::read_from(&fd).map_err(status)?;
        if from.cookie > 0 {
            let position = i64::try_from(from.cookie).map_err(|_| Status::BadCookie)?;
            entries.seek(position).map_err(|_| Status::BadCookie)?;
        }
        let dir = Node { fd, id, attributes };
        let most = from.bytes_max.min(LIST_BYTES).min(transfer_max(over)) as usize;
        let (begun, mut names) = (out.len(), 0);
        (Status::Ok, Some(dir.attributes), 0_u64).encode(out);
        let mut is_end = true;
        let mut count = 0;
        while let Some(entry) = entries.read() {
            let entry = entry.map_err(status)?;
            let at = out.len();
            true.encode(out);
            names += 24 + entry.file_name().to_bytes().len().next_multiple_of(4);
            self.entry(&dir, &entry, from.is_plus, out);
            // RFC 1813 3.3.16-a: behind it are two words: no more entries, and whether that is the
            // end.
            if out.len() + 8 - begun > most || names > from.names_max as usize {
                out.truncate(at);
                is_end = false;
                break;
            }
            count += 1;
        }
        if count == 0 && !is_end {
            return Err(Status::TooSmall);
        }
        (false, is_end).encode(out);
        Ok(())
    }

    fn entry(&self, dir: &Node, entry: &DirEntry, is_plus: bool, out: &mut Vec<u8>) {
        let name = entry.file_name().to_bytes();
        let found = match name {
            b"." => Some((dir.id, dir.attributes)),
            b".." => self.tree.parent(dir).ok(),
            _ if is_plus => self.tree.child(dir, name).ok(),
            _ => None,
        };
        // The number of the root's `..` is the root's own.
        let fileid = found.map_or(entry.ino(), |(_, of)| of.fileid);
        (fileid, Opaque(name), entry.offset() as u64).encode(out);
        if is_plus {
            // Handles of files that nobody can open are of no use.
            let handle = found
                .filter(|(_, of)| {
                    matches!(of.kind, Kind::Regular | Kind::Directory | Kind::Symlink)
                })
                .and_then(|(file, _)| self.tree.handle(file).ok());
            (found.map(|(_, of)| of), handle).encode(out);
        }
    }
}
