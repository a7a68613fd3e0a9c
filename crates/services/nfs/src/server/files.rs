//! File data: READ, WRITE, COMMIT (RFC 1813 sections 3.3.6, 3.3.7, 3.3.21).
//!
//! Called by: `server/mod.rs`. A WRITE is carried out only when its record is complete, so that a
//! connection that ends leaves no WRITE done in part. When a call is answered, UNSTABLE data is
//! with the system, and DATA_SYNC and FILE_SYNC data is on the disk. The size of a READ is limited
//! by its transport. A call that does not have to wait can be carried out at once, on a thread that
//! must not wait (docs/decisions/0103). The data of such a READ goes from the file into the
//! stream's buffers. The data of such a WRITE goes into the file from the buffers in which it
//! arrived (0104).

use core::ops::Range;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use rpc::server::{Bulk, NoBulk, Request, Transport};
use rpc::xdr::{Decode, Decoder, Encode};
use rustix::fs::{fdatasync, fsync};
use rustix::io::{Errno, ReadWriteFlags, pread, preadv2, pwritev};

use super::kept::{Changing, For};
use super::tree::{attributes, looked_at, seen_before, status};
use super::{Export, Reply};
use crate::limits::{DATAGRAM_TRANSFER_BYTES, LENT_BYTES, TRANSFER_BYTES};
use crate::proto::{Changed, Handle, Stable, Status, WriteHead, Written};

/// The most bytes of a READ or a WRITE.
pub(super) fn transfer_max(over: Transport) -> u32 {
    match over {
        Transport::Stream | Transport::Local => TRANSFER_BYTES,
        Transport::Datagram => DATAGRAM_TRANSFER_BYTES,
    }
}

impl Export {
    /// Carry out a READ of `most` bytes at most.
    pub(super) fn read(
        &self,
        (file, offset, count): (Handle, u64, u32),
        most: u32,
        out: &mut Vec<u8>,
    ) -> Reply {
        let open = self.tree.data(&file, For::Reading)?;
        let count = count.min(most) as usize;
        read(&open, (offset, count), out, &mut NoBulk, |room, at| pread(&*open, room, at))
    }

    /// Carry out a READ without waiting: the file is open, and the data is in memory. `None` means
    /// that the READ would wait, or failed; then nothing was appended.
    pub(super) fn read_at_once(
        &self,
        (file, offset, count): (Handle, u64, u32),
        most: u32,
        out: &mut Vec<u8>,
        bulk: &mut dyn Bulk,
    ) -> Option<()> {
        // preadv2(2) takes an offset of -1 for the current file offset.
        if offset > i64::MAX as u64 {
            return None;
        }
        let open = self.tree.is_open(&file, For::Reading)?;
        let count = count.min(most) as usize;
        let done = if self.tree.is_in_memory() {
            read(&open, (offset, count), out, bulk, |room, at| pread(&*open, room, at))
        } else {
            // If only a part of the data is in memory, the read after that part returns EAGAIN.
            read(&open, (offset, count), out, bulk, |room, at| {
                preadv2(&*open, &mut [IoSliceMut::new(room)], at, ReadWriteFlags::NOWAIT)
            })
        };
        done.ok()
    }

    /// Carry out a WRITE without waiting: the file is open, and in a file system without a disk.
    /// The data goes to the file from the buffers in which it arrived.
    pub(super) fn write_at_once(&self, request: &Request<'_>, out: &mut Vec<u8>) -> Option<()> {
        let mut from = Decoder::new(request.args);
        let head = WriteHead::decode(&mut from).ok()?;
        if !self.tree.is_in_memory() || head.stable != Stable::Unstable {
            return None;
        }
        let bytes = from.u32().ok()?;
        let mut data = vec![from.rest()];
        data.extend_from_slice(request.more);
        // If the lengths in the call do not match, `call` answers it.
        if head.count > bytes || sum(&data) != (bytes as usize).next_multiple_of(4) {
            return None;
        }
        let open = self.tree.is_open(&head.file, For::Writing)?;
        let changing = self.changes.try_begin(self.tree.file(&head.file).ok()?)?;
        let at = out.len();
        let done = self.written(&head, &data, &open, changing, out);
        if done.is_err() {
            // `call` carries the same WRITE out again.
            out.truncate(at);
        }
        done.ok()
    }

    /// Carry out a WRITE whose data is in several pieces.
    pub(super) fn write(&self, head: &WriteHead, data: &[&[u8]], out: &mut Vec<u8>) -> Reply {
        self.may_change()?;
        let open = self.tree.data(&head.file, For::Writing)?;
        let changing = self.changes.begin(self.tree.file(&head.file)?);
        self.written(head, data, &open, changing, out)
    }

    /// Carry out a WRITE to an open file.
    fn written(
        &self,
        head: &WriteHead,
        data: &[&[u8]],
        open: &OwnedFd,
        changing: Changing<'_>,
        out: &mut Vec<u8>,
    ) -> Reply {
        let WriteHead { offset, count, stable, .. } = *head;
        self.may_change()?;
        // RFC 1813 section 3.3.7: the length of the data must be the number of bytes to be written.
        let count = count as usize;
        if sum(data) < count {
            return Err(Status::Invalid);
        }
        let before = seen_before(open);
        // Read the verifier before writing: if the disk fails from here on, that may concern this
        // data.
        let verifier = self.verifier();
        let mut written = 0;
        while written < count {
            let slices = slices(data, written..count);
            match pwritev(open, &slices, offset.saturating_add(written as u64)) {
                Ok(0) => break,
                Ok(bytes) => written += bytes,
                Err(Errno::INTR) => {}
                // The client writes the remaining bytes again, and gets the error then.
                Err(_) if written > 0 => break,
                Err(Errno::INVAL) if offset > i64::MAX as u64 - count as u64 => {
                    return Err(Status::TooBig);
                }
                Err(error) => return Err(status(error)),
            }
        }
        let after = attributes(&looked_at(open, "").map_err(status)?)?;
        drop(changing);
        match stable {
            Stable::Unstable => {}
            Stable::DataSync => self.synced(fdatasync(open))?,
            Stable::FileSync => self.synced(fsync(open))?,
        }
        let file = Changed { before, after: Some(after) };
        let count = written as u32;
        let written = Written { file, count, committed: stable, verifier };
        (Status::Ok, written).encode(out);
        Ok(())
    }

    pub(super) fn commit(&self, file: &Handle, out: &mut Vec<u8>) -> Reply {
        let open = match self.tree.is_open(file, For::Writing) {
            Some(open) => open,
            None => match self.tree.data(file, For::Reading) {
                // The file may be written but not read.
                Err(Status::Access) if !self.is_read_only => self.tree.data(file, For::Writing)?,
                // If the file cannot be opened for writing, there is nothing to commit.
                open => open?,
            },
        };
        let before = seen_before(&open);
        self.synced(fsync(&*open))?;
        let after = attributes(&looked_at(&open, "").map_err(status)?)?;
        let file = Changed { before, after: Some(after) };
        (Status::Ok, file, self.verifier()).encode(out);
        Ok(())
    }

    /// If the disk did not take written data, the system reports that only once, to one of the
    /// writers. So the verifier changes, and all other clients learn of the failure.
    fn synced(&self, result: rustix::io::Result<()>) -> Reply {
        result.map_err(|error| {
            self.verifier.fetch_add(1, Ordering::SeqCst);
            status(error)
        })
    }
}

/// The number of bytes in all pieces.
fn sum(pieces: &[&[u8]]) -> usize {
    pieces.iter().map(|piece| piece.len()).sum()
}

/// The bytes of a range that runs over several pieces.
fn slices<'a>(pieces: &[&'a [u8]], range: Range<usize>) -> Vec<IoSlice<'a>> {
    let mut at = 0;
    let part = |piece: &&'a [u8]| {
        let (from, to) = (range.start.saturating_sub(at), range.end.saturating_sub(at));
        at += piece.len();
        let part = &piece[from.min(piece.len())..to.min(piece.len())];
        (!part.is_empty()).then(|| IoSlice::new(part))
    };
    pieces.iter().filter_map(part).collect()
}

/// Append the results of a READ of `count` bytes at an offset, which `from_file` reads. Long data
/// goes into `bulk` if there is room. If the READ fails, nothing is appended.
fn read(
    open: &OwnedFd,
    (offset, count): (u64, usize),
    out: &mut Vec<u8>,
    bulk: &mut dyn Bulk,
    from_file: impl Fn(&mut [u8], u64) -> rustix::io::Result<usize>,
) -> Reply {
    let of = attributes(&looked_at(open, "").map_err(status)?)?;
    let at = out.len();
    (Status::Ok, Some(of), (0_u32, false, 0_u32)).encode(out);
    let data = out.len();
    let next = |room: &mut [u8], got: usize| {
        let most = room.len().min(count - got);
        loop {
            match from_file(&mut room[..most], offset.saturating_add(got as u64)) {
                Err(Errno::INTR) => {}
                // The range ends beyond the largest offset, where no file has bytes.
                Err(Errno::INVAL) if offset > i64::MAX as u64 - count as u64 => return Ok(0),
                done => return done,
            }
        }
    };
    let lent = if count < LENT_BYTES { None } else { read_into(bulk, data, count, next) };
    let got = match lent {
        Some(got) => got,
        None => {
            bulk.clear();
            append(out, count, next)
        }
    };
    let got = got.map_err(|error| {
        out.truncate(at);
        status(error)
    })?;
    // RFC 1813 3.3.6-a: `eof` is also true if the data ends exactly at the end of the file.
    let is_end = got < count || offset.saturating_add(got as u64) >= of.size;
    out[data - 12..data - 8].copy_from_slice(&(got as u32).to_be_bytes());
    out[data - 8..data - 4].copy_from_slice(&u32::from(is_end).to_be_bytes());
    out[data - 4..data].copy_from_slice(&(got as u32).to_be_bytes());
    Ok(())
}

/// Append the bytes that `next` reads, until there are `count` bytes or `next` reads none. Then
/// append the padding.
fn append(
    out: &mut Vec<u8>,
    count: usize,
    next: impl Fn(&mut [u8], usize) -> rustix::io::Result<usize>,
) -> rustix::io::Result<usize> {
    let data = out.len();
    out.resize(data + count, 0);
    let mut got = 0;
    while got < count {
        match next(&mut out[data + got..], got)? {
            0 => break,
            bytes => got += bytes,
        }
    }
    out.truncate(data + got);
    out.resize(data + got.next_multiple_of(4), 0);
    Ok(got)
}

/// Read into buffers, leaving room for `head` bytes in front. `None` if there are not enough
/// buffers.
fn read_into(
    bulk: &mut dyn Bulk,
    head: usize,
    count: usize,
    next: impl Fn(&mut [u8], usize) -> rustix::io::Result<usize>,
) -> Option<rustix::io::Result<usize>> {
    let mut got = 0;
    while got < count {
        let mut read = Ok(0);
        bulk.fill(head, &mut |room| {
            read = next(room, got);
            read.unwrap_or(0)
        })?;
        match read {
            Ok(0) => break,
            Ok(bytes) => got += bytes,
            Err(error) => return Some(Err(error)),
        }
    }
    let mut padding = got.next_multiple_of(4) - got;
    while padding > 0 {
        padding -= bulk.fill(head, &mut |room| {
            let bytes = padding.min(room.len());
            room[..bytes].fill(0);
            bytes
        })?;
    }
    Some(Ok(got))
}
