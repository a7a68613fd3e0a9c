//! Attributes and limits: GETATTR, SETATTR, ACCESS, FSSTAT, FSINFO, PATHCONF (RFC 1813 sections
//! 3.3.1, 3.3.2, 3.3.4, 3.3.18 to 3.3.20).
//!
//! Called by: `server/mod.rs`. The server acts as the user who runs it. ACCESS reports that user's
//! rights.

use rpc::server::Transport;
use rpc::xdr::Encode;
use rustix::fs::{
    AtFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, chownat, fstatvfs, ftruncate, utimensat,
};
use rustix::process::{Gid, Uid, getegid, geteuid, getgroups};

use super::files::transfer_max;
use super::kept::For;
use super::names::MODE;
use super::tree::{before, status};
use super::{Export, Reply};
use crate::limits::{DATAGRAM_TRANSFER, LIST_BYTES, NAME_BYTES};
use crate::proto::{
    Attributes, Changed, Handle, Info, Kind, SetAttributes, SetTime, Status, Time, access,
};

impl Export {
    pub(super) fn getattr(&self, file: &Handle, out: &mut Vec<u8>) -> Reply {
        (Status::Ok, self.tree.look(file)?.attributes).encode(out);
        Ok(())
    }

    pub(super) fn setattr(
        &self,
        (file, set, guard): &(Handle, SetAttributes, Option<Time>),
        out: &mut Vec<u8>,
    ) -> Reply {
        self.may_change()?;
        let _changing = self.changes.begin(self.tree.file(file)?);
        let before = before(&self.tree.look(file)?);
        // RFC 1813 3.3.2-a: if somebody else has changed the file since the client looked, set
        // nothing.
        if let Some(ctime) = guard
            && before.is_some_and(|before| before.ctime != *ctime)
        {
            return Err(Status::NotSync);
        }
        let after = self.set(file, set)?;
        (Status::Ok, Changed { before, after: Some(after) }).encode(out);
        Ok(())
    }

    /// Set attributes. Returns the file's new attributes.
    pub(super) fn set(&self, file: &Handle, set: &SetAttributes) -> Result<Attributes, Status> {
        let node = self.tree.look(file)?;
        if let Some(size) = set.size {
            if node.attributes.kind != Kind::Regular {
                return Err(Status::Invalid);
            }
            ftruncate(&self.tree.opened(&node, For::Writing)?, size).map_err(
                |error| match error {
                    rustix::io::Errno::INVAL => Status::TooBig,
                    error => status(error),
                },
            )?;
        }
        if set.uid.is_some() || set.gid.is_some() {
            // chown(2) takes u32::MAX to mean "leave it as it is".
            let id = |id: Option<u32>| match id {
                Some(u32::MAX) => Err(Status::Invalid),
                id => Ok(id),
            };
            let (uid, gid) = (id(set.uid)?.map(Uid::from_raw), id(set.gid)?.map(Gid::from_raw));
            chownat(&node.fd, "", uid, gid, AtFlags::EMPTY_PATH).map_err(status)?;
        }
        if let Some(mode) = set.mode
            && node.attributes.kind != Kind::Symlink
        {
            self.tree.set_mode(&node, mode & MODE)?;
        }
        if (set.atime, set.mtime) != (SetTime::Keep, SetTime::Keep) {
            let times = Timestamps {
                last_access: timespec(set.atime)?,
                last_modification: timespec(set.mtime)?,
            };
            let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW;
            utimensat(&node.fd, "", &times, flags).map_err(status)?;
        }
        self.tree.changed(&node)
    }

    pub(super) fn access(&self, (file, asked): (Handle, u32), out: &mut Vec<u8>) -> Reply {
        let of = self.tree.look(&file)?.attributes;
        (Status::Ok, Some(of), asked & rights(&of, self.is_read_only)).encode(out);
        Ok(())
    }

    pub(super) fn fsstat(&self, root: &Handle, out: &mut Vec<u8>) -> Reply {
        let node = self.tree.look(root)?;
        let of = fstatvfs(&node.fd).map_err(status)?;
        let bytes = |blocks: u64| blocks.saturating_mul(of.f_frsize);
        let sizes = [of.f_blocks, of.f_bfree, of.f_bavail].map(bytes);
        (Status::Ok, Some(node.attributes)).encode(out);
        sizes.iter().chain(&[of.f_files, of.f_ffree, of.f_favail]).for_each(|n| n.encode(out));
        // `invarsec` is 0: the values may change at any time.
        0_u32.encode(out);
        Ok(())
    }

    pub(super) fn fsinfo(&self, root: &Handle, over: Transport, out: &mut Vec<u8>) -> Reply {
        const LINKS: u32 = 1;
        const SYMLINKS: u32 = 2;
        const HOMOGENEOUS: u32 = 8;
        const TIMES: u32 = 16;
        let max = transfer_max(over);
        let preferred = if over == Transport::Stream { max } else { DATAGRAM_TRANSFER };
        let info = Info {
            attributes: Some(self.tree.look(root)?.attributes),
            rtmax: max,
            rtpref: preferred,
            rtmult: 4_096,
            wtmax: max,
            wtpref: preferred,
            wtmult: 4_096,
            dtpref: LIST_BYTES.min(max),
            maxfilesize: i64::MAX as u64,
            time_delta: Time { seconds: 0, nanoseconds: 1 },
            properties: LINKS | SYMLINKS | HOMOGENEOUS | TIMES,
        };
        (Status::Ok, info).encode(out);
        Ok(())
    }

    pub(super) fn pathconf(&self, file: &Handle, out: &mut Vec<u8>) -> Reply {
        let of = self.tree.look(file)?.attributes;
        let (links, name) = (32_000_u32, NAME_BYTES as u32);
        // The flags: names that are too long are refused; only root may chown; names differ by
        // case; the case of names is kept.
        (Status::Ok, Some(of), (links, name), (true, true, false, true)).encode(out);
        Ok(())
    }
}

fn timespec(set: SetTime) -> Result<Timespec, Status> {
    Ok(match set {
        SetTime::Keep => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        SetTime::Now => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        SetTime::To(Time { nanoseconds: 1_000_000_000.., .. }) => return Err(Status::Invalid),
        SetTime::To(time) => {
            Timespec { tv_sec: time.seconds.into(), tv_nsec: time.nanoseconds.into() }
        }
    })
}

/// The rights on a file of the user who runs the server.
fn rights(of: &Attributes, is_read_only: bool) -> u32 {
    let groups = || getgroups().unwrap_or_default();
    let bits = if geteuid().is_root() {
        // Root may execute a file if anybody may.
        let execute = of.kind == Kind::Directory || of.mode & 0o111 != 0;
        0o6 | u32::from(execute)
    } else if geteuid().as_raw() == of.uid {
        of.mode >> 6
    } else if getegid().as_raw() == of.gid || groups().iter().any(|g| g.as_raw() == of.gid) {
        of.mode >> 3
    } else {
        of.mode
    };
    let mut rights = 0;
    if bits & 4 != 0 {
        rights |= access::READ;
    }
    if bits & 2 != 0 && !is_read_only {
        rights |= access::MODIFY | access::EXTEND;
        rights |= if of.kind == Kind::Directory { access::DELETE } else { 0 };
    }
    if bits & 1 != 0 {
        rights |= if of.kind == Kind::Directory { access::LOOKUP } else { access::EXECUTE };
    }
    rights
}
