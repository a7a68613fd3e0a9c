//! The client: calls of NFS and MOUNT over a client of crate `rpc` with any transport; reading and
//! writing files with several READs or WRITEs in flight; copying whole trees.
//!
//! Called by: programs, `wirespeed nfs`. RFC 1813. While a server does not answer, the client waits
//! ([`patience`]) and repeats its calls. A repeated call that makes or removes a name may have been
//! carried out the first time. If the repeated call fails in the way that shows this, it counts as
//! done. Limits: `IN_FLIGHT`, `ENTRIES_MAX`, `PATIENCE`.

mod files;
mod mounting;
mod patience;
mod tree;
mod unfinished;
mod url;
use core::ops::Range;
use std::sync::Arc;

use base::Duration;
pub use files::{Reader, Writer};
pub use mounting::{exports, mount};
pub use patience::Notice;
use patience::Patience;
use rpc::client::CallError;
use rpc::tasks::{Client, Data, Results};
use rpc::xdr::{Decode, DecodeError, Decoder, Encode, Opaque};
pub use tree::{Copied, get_tree, put_tree};
pub use unfinished::Unfinished;
pub use url::{BadUrl, Url};

use crate::limits::{
    CLIENT_TRANSFER, DATAGRAM_IN_FLIGHT_BYTES, DATAGRAM_TRANSFER, ENTRIES_MAX, IN_FLIGHT,
    LIST_BYTES,
};
use crate::proto::{
    self, At, Attributes, Changed, Entry, Found, Handle, How, Info, Made, SetAttributes, Stable,
    Status, Written, procedure,
};

/// A client of one NFS server. Clones share the connection.
#[derive(Clone, Debug)]
pub struct Nfs {
    client: Client,
    /// Bytes of a READ and of a WRITE.
    transfer: u32,
    /// Bytes of all READs or WRITEs in flight.
    in_flight_bytes: usize,
    patience: Patience,
}

/// Data of a file. It is a part of the results of a READ, and is not copied out of them.
#[derive(Debug)]
pub struct Chunk {
    results: Results,
    range: Range<usize>,
    /// Does the file end after this chunk?
    pub eof: bool,
}

impl Chunk {
    /// The data.
    pub fn data(&self) -> &[u8] {
        &self.results[self.range.clone()]
    }
}

impl Nfs {
    /// A client over streams: READs and WRITEs have 256 KB.
    pub fn over_streams(client: Client) -> Nfs {
        let (transfer, in_flight_bytes) = (CLIENT_TRANSFER, usize::MAX);
        Nfs { client, transfer, in_flight_bytes, patience: Patience::default() }
    }

    /// A client over datagrams: READs and WRITEs have 8 KB, which are six fragments on Ethernet. No
    /// more of them are in flight than the buffer of a socket takes and the window of the client
    /// allows.
    pub fn over_datagrams(client: Client) -> Nfs {
        let in_flight_bytes = DATAGRAM_IN_FLIGHT_BYTES;
        let patience = Patience::default();
        Nfs { client, transfer: DATAGRAM_TRANSFER, in_flight_bytes, patience }
    }

    /// Call `told` with each notice that the program may want to report to its user.
    pub fn with_notices(mut self, told: impl Fn(Notice<'_>) + Send + Sync + 'static) -> Nfs {
        self.patience = self.patience.with_notices(Arc::new(told));
        self
    }

    /// Wait for up to `limit` while the server does not answer.
    pub fn with_patience(mut self, limit: Duration) -> Nfs {
        self.patience = self.patience.with_limit(limit.into());
        self
    }

    /// Use READs and WRITEs of `bytes` bytes, a multiple of 512.
    pub fn with_transfer(mut self, bytes: u32) -> Nfs {
        self.transfer = (bytes / 512).max(1) * 512;
        self
    }

    /// How many READs or WRITEs may be in flight.
    fn in_flight(&self) -> usize {
        (self.in_flight_bytes / self.transfer as usize).clamp(1, IN_FLIGHT)
    }

    /// Ask the server for its limits, and use them from now on. As this is the first call, it does
    /// not wait for a server that does not answer.
    ///
    /// # Errors
    /// The call failed; there are no results.
    pub async fn ask_limits(&mut self, root: &Handle) -> Result<Info, Error> {
        let info: Info = decoded(&self.client.call_raw(procedure::FSINFO, root).await?)?;
        let most = self.transfer.min(info.rtmax).min(info.wtmax);
        self.transfer = (most / 512).max(1) * 512;
        Ok(info)
    }

    /// Make a call. Returns its results without the status in front of them.
    async fn call<A: Encode, R: for<'a> Decode<'a>>(
        &self,
        number: u32,
        args: &A,
    ) -> Result<R, Error> {
        decoded(&self.patience.results(|| self.client.call_raw(number, args)).await?.0)
    }

    /// Make a call that fails with `fails_again` if it is repeated after it was carried out.
    /// Returns `None` if a repeated call fails with this status: then the call counts as done.
    async fn call_once<A: Encode, R: for<'a> Decode<'a>>(
        &self,
        number: u32,
        args: &A,
        fails_again: Status,
    ) -> Result<Option<R>, Error> {
        let call = self.patience.results(|| self.client.call_raw(number, args));
        let (results, is_again) = call.await?;
        match decoded(&results) {
            Err(Error::Status(status)) if is_again && status == fails_again => Ok(None),
            results => results.map(Some),
        }
    }

    /// The attributes of a file.
    ///
    /// # Errors
    /// The call failed; there are no results. This holds for all calls.
    pub async fn getattr(&self, file: &Handle) -> Result<Attributes, Error> {
        self.call(procedure::GETATTR, file).await
    }

    /// Set attributes.
    ///
    /// # Errors
    /// The call failed; there are no results.
    pub async fn setattr(&self, file: &Handle, set: &SetAttributes) -> Result<(), Error> {
        self.call(procedure::SETATTR, &(file, set, false)).await.map(|_: Changed| ())
    }

    /// The file with this name in a directory, and its attributes.
    ///
    /// # Errors
    /// The call failed; there are no results.
    pub async fn lookup(&self, dir: &Handle, name: &[u8]) -> Result<(Handle, Attributes), Error> {
        let at = At { dir: *dir, name: Opaque(name) };
        let found: Found = self.call(procedure::LOOKUP, &at).await?;
        let attributes = match found.attributes {
            Some(attributes) => attributes,
            None => self.getattr(&found.handle).await?,
        };
        Ok((found.handle, attributes))
    }

    /// The file at the end of a path that begins in the directory `from`. Symbolic links on the
    /// path are not followed.
    ///
    /// # Errors
    /// The call failed; there are no results.
    pub async fn walk(&self, from: &Handle, path: &[u8]) -> Result<(Handle, Attributes), Error> {
        let mut at = (*from, None);
        for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
            let (handle, attributes) = self.lookup(&at.0, name).await?;
            at = (handle, Some(attributes));
        }
        Ok((
            at.0,
            match at.1 {
                Some(attributes) => attributes,
                None => self.getattr(&at.0).await?,
            },
        ))
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// The call failed; there are no results.
    pub async fn readlink(&self, link: &Handle) -> Result<Vec<u8>, Error> {
        let (_, text): (Option<Attributes>, rpc::xdr::Bytes) =
            self.call(procedure::READLINK, link).await?;
        Ok(text.0)
    }

    /// Make one READ.
    ///
    /// # Errors
    /// The call failed; there are no results.
    pub async fn read(&self, file: &Handle, offset: u64, count: u32) -> Result<Chunk, Error> {
        let args = (file, offset, count);
        let call = self.patience.results(|| self.client.call_raw(procedure::READ, &args));
        let (results, _) = call.await?;
        let proto::Data { data, eof, .. } = Decoder::whole(success(&results)?)?;
        let data = data.0.get(..count as usize).unwrap_or(data.0);
        let at = data.as_ptr() as usize - results.as_ptr() as usize;
        let range = at..at + data.len();
        Ok(Chunk { results, range, eof })
    }

    /// Make one WRITE. Returns the number of bytes that were written, and the verifier. [`Data`] is
    /// not copied over streams.
    ///
    /// # Errors
    /// The call failed; there are no results.
    pub async fn write(
        &self,
        file: &Handle,
        offset: u64,
        data: impl Into<Data>,
        stable: Stable,
    ) -> Result<Written, Error> {
        let data = data.into();
        let count = data.len() as u32;
        let args = (file, offset, (count, stable));
        let call = || self.client.call_with_data(procedure::WRITE, &args, data.clone());
        let written: Written = decoded(&self.patience.results(call).await?.0)?;
        if written.count > count || (written.count == 0 && count > 0) {
            return Err(Error::Status(Status::Io));
        }
        Ok(written)
    }

    /// Commit written data to stable storage. Returns the verifier.
    ///
    /// # Errors
    /// The call failed; there are no results.
    pub async fn commit(&self, file: &Handle) -> Result<[u8; 8], Error> {
        let (_, verifier): (Changed, [u8; 8]) =
            self.call(procedure::COMMIT, &(file, 0_u64, 0_u32)).await?;
        Ok(verifier)
    }

    /// Make a file; there must be no file of that name.
    ///
    /// # Errors
    /// The call failed; there are no results.
    pub async fn create(&self, dir: &Handle, name: &[u8], mode: u32) -> Result<Handle, Error> {
        let set = SetAttributes { mode: Some(mode), ..SetAttributes::default() };
        let args = (At { dir: *dir, name: Opaque(name) }, How::Guarded(set));
        self.made(procedure::CREATE, &args, dir, name).await
    }

    /// Make a directory.
    ///
    /// # Errors
    /// The call failed; there are no results.
    pub async fn mkdir(&self, dir: &Handle, name: &[u8], mode: u32) -> Result<Handle, Error> {
        let set = SetAttributes { mode: Some(mode), ..SetAttributes::default() };
        let args = (At { dir: *dir, name: Opaque(name) }, set);
        self.made(procedure::MKDIR, &args, dir, name).await
    }

    /// Make a symbolic link.
    ///
    /// # Errors
    /// The call failed; there are no results.
    pub async fn symlink(&self, dir: &Handle, name: &[u8], text: &[u8]) -> Result<Handle, Error> {
        let at = At { dir: *dir, name: Opaque(name) };
        let args = (at, SetAttributes::default(), Opaque(text));
        self.made(procedure::SYMLINK, &args, dir, name).await
    }

    async fn made<A: Encode>(
        &self,
        number: u32,
        args: &A,
        dir: &Handle,
        name: &[u8],
    ) -> Result<Handle, Error> {
        let made: Option<Made> = self.call_once(number, args, Status::Exists).await?;
        match made.and_then(|made| made.handle) {
            Some(handle) => Ok(handle),
            None => Ok(self.lookup(dir, name).await?.0),
        }
    }

    /// Remove a file.
    ///
    /// # Errors
    /// The call failed; there are no results.
    pub async fn remove(&self, dir: &Handle, name: &[u8]) -> Result<(), Error> {
        let at = At { dir: *dir, name: Opaque(name) };
        let removed = self.call_once(procedure::REMOVE, &at, Status::NoEntry).await;
        removed.map(|_: Option<Changed>| ())
    }

    /// Give a file another name in its directory. If another file has the new name, it is replaced.
    ///
    /// # Errors
    /// The call failed; there are no results.
    pub async fn rename(&self, dir: &Handle, from: &[u8], to: &[u8]) -> Result<(), Error> {
        let at = |name| At { dir: *dir, name: Opaque(name) };
        let args = (at(from), at(to));
        let renamed: Option<(Changed, Changed)> =
            self.call_once(procedure::RENAME, &args, Status::NoEntry).await?;
        if renamed.is_none() {
            // If the new name exists, the first call has renamed the file, although its reply was
            // lost.
            self.lookup(dir, to).await?;
        }
        Ok(())
    }

    /// The entries of a directory except `.` and `..`, sorted.
    ///
    /// # Errors
    /// There are no results, or more than `ENTRIES_MAX` entries.
    pub async fn list(&self, dir: &Handle) -> Result<Vec<Entry>, Error> {
        let (mut entries, mut cookie, mut verifier) = (Vec::new(), 0_u64, [0_u8; 8]);
        let most = LIST_BYTES.min(self.transfer.max(1 << 13));
        loop {
            let args = (dir, cookie, (verifier, most, most));
            let (_, new, (list, is_end)): (
                Option<Attributes>,
                [u8; 8],
                (rpc::xdr::List<Entry>, bool),
            ) = self.call(procedure::READDIRPLUS, &args).await?;
            verifier = new;
            let Some(last) = list.0.last() else { break };
            // A server may return the same entries again and again; the limit on entries ends the
            // loop.
            cookie = last.cookie;
            entries.extend(list.0);
            if entries.len() > ENTRIES_MAX {
                return Err(Error::TooManyEntries);
            }
            if is_end {
                break;
            }
        }
        entries.retain(|entry| !matches!(&entry.name.0[..], b"." | b".."));
        entries.sort_by(|one, other| one.name.0.cmp(&other.name.0));
        Ok(entries)
    }
}

/// The results of a call as a value, if the call's status is NFS3_OK.
fn decoded<R: for<'a> Decode<'a>>(results: &[u8]) -> Result<R, Error> {
    Ok(Decoder::whole(success(results)?)?)
}

/// The bytes after the status in the results, if the status is NFS3_OK.
fn success(results: &[u8]) -> Result<&[u8], Error> {
    let mut from = Decoder::new(results);
    match Status::decode(&mut from)? {
        Status::Ok => Ok(from.rest()),
        status => Err(Error::Status(status)),
    }
}

/// Why a call has no results, or a copy failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There was no reply, or the reply says that the call could not be carried out.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The server answered with this status.
    #[error("{} ({})", meaning(.0), .0.name())]
    Status(Status),
    /// The results cannot be decoded.
    #[error("the server's results are not of the expected type")]
    Garbage(#[from] DecodeError),
    /// Written data may be lost, because the server restarted too often.
    #[error("the server restarts again and again: copy the file when it is stable")]
    Restarted,
    /// The directory has more entries than a client reads.
    #[error("the directory has too many entries: list a directory below it")]
    TooManyEntries,
    /// The server sent a name that would lead out of the directory.
    #[error("the server has a name that no file can have here: '{0}'; it is not copied")]
    BadName(String),
    /// The directories are nested too deeply.
    #[error("the directories are nested too deeply: copy a directory further down")]
    TooDeep,
    /// An error of a file or directory on this machine.
    #[error("{0}")]
    Local(String, #[source] std::io::Error),
    /// This is not a file, a directory or a symbolic link.
    #[error("'{0}' cannot be copied: it is not a file, a directory or a symbolic link")]
    Special(String),
    /// A symbolic link is in the place of a directory.
    #[error("'{0}' is a symbolic link here and a directory there: remove it first")]
    LinkInTheWay(String),
}

/// What a status means, and what the user can do.
fn meaning(status: &Status) -> &'static str {
    match status {
        Status::Ok => "it was done",
        Status::NotOwner => "only the owner may do that: look at the owner of the file",
        Status::NoEntry => "there is no such file or directory: look at its spelling",
        Status::Io => "the server's disk failed: look at its log",
        Status::NoDevice | Status::NotThisDevice => "the device of the file is not there",
        Status::Access => "the server does not allow it: look at the rights of the file",
        Status::Exists => "there is a file of that name already: remove it, or take another name",
        Status::CrossDevice => "the two are on different file systems of the server: copy instead",
        Status::NotDirectory => "it has to be a directory, and it is not",
        Status::IsDirectory => "it has to be a file, and it is a directory: use -r for directories",
        Status::Invalid => "the server finds the request invalid: is it a regular file?",
        Status::TooBig => "the file would be larger than the server allows",
        Status::NoSpace => "the server's disk is full: make room there",
        Status::ReadOnly => "the server only allows reading",
        Status::TooManyLinks => "the file has too many names",
        Status::NameTooLong => "the name is too long: take a shorter one",
        Status::NotEmpty => "the directory is not empty",
        Status::Quota => "the quota on the server is used up: make room there",
        Status::Stale => "the file is gone from the server: try again",
        Status::Remote => "the file is on another server",
        Status::BadHandle => "the server does not know the file's handle: try again",
        Status::NotSync => "somebody else has changed the file: try again",
        Status::BadCookie => "somebody else has changed the directory: try again",
        Status::NotSupported => "the server cannot do that",
        Status::TooSmall => "the server's answer would be longer than was allowed",
        Status::ServerFault => "the server failed: look at its log",
        Status::BadType => "the server has no files of that kind",
        Status::Jukebox => "the server is busy: try again later",
    }
}
