//! The client: calls of NFS and MOUNT over a client of crate `rpc`, whatever its transport; files
//! with several READs or WRITEs in flight; whole trees.
//!
//! Called by: programs, `wirespeed nfs`. RFC 1813. Calls that change nothing when they come twice
//! are made again when their connection ends, `TRIES` times; others are for the caller to judge.
//! Limits: `IN_FLIGHT`, `ENTRIES_MAX`.

mod error;
mod files;
mod mounting;
mod tree;
mod unfinished;
mod url;

pub use error::Error;
pub use files::{Reader, Writer};
pub use mounting::{exports, mount};
pub use tree::{Copied, get_tree, put_tree};
pub use unfinished::Unfinished;
pub use url::{BadUrl, Url};

use core::future::Future;
use core::ops::Range;

use rpc::client::CallError;
use rpc::tasks::{Client, Data, Results};
use rpc::xdr::{Decode, Decoder, Encode, Opaque};

use crate::limits::{
    CLIENT_TRANSFER, DATAGRAM_IN_FLIGHT_BYTES, DATAGRAM_TRANSFER, ENTRIES_MAX, IN_FLIGHT,
    LIST_BYTES, TRIES,
};
use crate::proto::{
    self, At, Attributes, Changed, Entry, Found, Handle, How, Info, Made, SetAttributes, Stable,
    Status, Written, procedure,
};

/// A client of a server's NFS. Clones share the connection.
#[derive(Clone, Debug)]
pub struct Nfs {
    client: Client,
    /// Bytes of a READ and of a WRITE.
    transfer: u32,
    /// Bytes of those in flight.
    in_flight_bytes: usize,
}

/// Data of a file: part of the results of a READ, which are not copied.
#[derive(Debug)]
pub struct Chunk {
    results: Results,
    range: Range<usize>,
    /// Does the file end behind it?
    pub eof: bool,
}

impl Chunk {
    /// The data.
    pub fn data(&self) -> &[u8] {
        &self.results[self.range.clone()]
    }
}

impl Nfs {
    /// Over streams: READs and WRITEs of 256 KB.
    pub fn over_streams(client: Client) -> Nfs {
        Nfs { client, transfer: CLIENT_TRANSFER, in_flight_bytes: usize::MAX }
    }

    /// Over datagrams: READs and WRITEs of 8 KB, six fragments of Ethernet each, and no more of
    /// them in flight than the buffer of a socket takes, or the window of the client allows.
    pub fn over_datagrams(client: Client) -> Nfs {
        let in_flight_bytes = DATAGRAM_IN_FLIGHT_BYTES;
        Nfs { client, transfer: DATAGRAM_TRANSFER, in_flight_bytes }
    }

    /// With READs and WRITEs of so many bytes, in whole 512s.
    pub fn with_transfer(mut self, bytes: u32) -> Nfs {
        self.transfer = (bytes / 512).max(1) * 512;
        self
    }

    /// READs or WRITEs in flight.
    fn in_flight(&self) -> usize {
        (self.in_flight_bytes / self.transfer as usize).clamp(1, IN_FLIGHT)
    }

    /// Ask the server for its limits, and keep them.
    ///
    /// # Errors
    /// There are no results.
    pub async fn ask_limits(&mut self, root: &Handle) -> Result<Info, Error> {
        let info: Info = self.again(procedure::FSINFO, root).await?;
        let most = self.transfer.min(info.rtmax).min(info.wtmax);
        self.transfer = (most / 512).max(1) * 512;
        Ok(info)
    }

    /// One call: its results, behind their status.
    async fn call<A: Encode, R: for<'a> Decode<'a>>(
        &self,
        number: u32,
        args: &A,
    ) -> Result<R, Error> {
        decoded(&self.client.call_raw(number, args).await?)
    }

    /// A call that may be made again when its connection ends.
    async fn again<A: Encode, R: for<'a> Decode<'a>>(
        &self,
        number: u32,
        args: &A,
    ) -> Result<R, Error> {
        decoded(&again(|| self.client.call_raw(number, args)).await?)
    }

    /// The attributes of a file.
    ///
    /// # Errors
    /// There are no results, as for all calls.
    pub async fn getattr(&self, file: &Handle) -> Result<Attributes, Error> {
        self.again(procedure::GETATTR, file).await
    }

    /// Set attributes.
    ///
    /// # Errors
    /// There are no results.
    pub async fn setattr(&self, file: &Handle, set: &SetAttributes) -> Result<(), Error> {
        self.again(procedure::SETATTR, &(file, set, false)).await.map(|_: Changed| ())
    }

    /// A name in a directory, and what it is.
    ///
    /// # Errors
    /// There are no results.
    pub async fn lookup(&self, dir: &Handle, name: &[u8]) -> Result<(Handle, Attributes), Error> {
        let at = At { dir: *dir, name: Opaque(name) };
        let found: Found = self.again(procedure::LOOKUP, &at).await?;
        let attributes = match found.attributes {
            Some(attributes) => attributes,
            None => self.getattr(&found.handle).await?,
        };
        Ok((found.handle, attributes))
    }

    /// A path from a directory on; links on it are not followed.
    ///
    /// # Errors
    /// There are no results.
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

    /// What a symbolic link says.
    ///
    /// # Errors
    /// There are no results.
    pub async fn readlink(&self, link: &Handle) -> Result<Vec<u8>, Error> {
        let (_, text): (Option<Attributes>, rpc::xdr::Bytes) =
            self.again(procedure::READLINK, link).await?;
        Ok(text.0)
    }

    /// One READ.
    ///
    /// # Errors
    /// There are no results.
    pub async fn read(&self, file: &Handle, offset: u64, count: u32) -> Result<Chunk, Error> {
        let args = (file, offset, count);
        let results = again(|| self.client.call_raw(procedure::READ, &args)).await?;
        let proto::Data { data, eof, .. } = Decoder::whole(success(&results)?)?;
        let data = data.0.get(..count as usize).unwrap_or(data.0);
        let at = data.as_ptr() as usize - results.as_ptr() as usize;
        let range = at..at + data.len();
        Ok(Chunk { results, range, eof })
    }

    /// One WRITE: bytes that were written, and the verifier. [`Data`] is not copied over streams.
    ///
    /// # Errors
    /// There are no results.
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
        let written: Written = decoded(&again(call).await?)?;
        if written.count > count || (written.count == 0 && count > 0) {
            return Err(Error::Status(Status::Io));
        }
        Ok(written)
    }

    /// Have on stable storage what was written; the verifier.
    ///
    /// # Errors
    /// There are no results.
    pub async fn commit(&self, file: &Handle) -> Result<[u8; 8], Error> {
        let (_, verifier): (Changed, [u8; 8]) =
            self.again(procedure::COMMIT, &(file, 0_u64, 0_u32)).await?;
        Ok(verifier)
    }

    /// Make a file that is not there.
    ///
    /// # Errors
    /// There are no results.
    pub async fn create(&self, dir: &Handle, name: &[u8], mode: u32) -> Result<Handle, Error> {
        let set = SetAttributes { mode: Some(mode), ..SetAttributes::default() };
        let args = (At { dir: *dir, name: Opaque(name) }, How::Guarded(set));
        self.made(procedure::CREATE, &args, dir, name).await
    }

    /// Make a directory.
    ///
    /// # Errors
    /// There are no results.
    pub async fn mkdir(&self, dir: &Handle, name: &[u8], mode: u32) -> Result<Handle, Error> {
        let set = SetAttributes { mode: Some(mode), ..SetAttributes::default() };
        let args = (At { dir: *dir, name: Opaque(name) }, set);
        self.made(procedure::MKDIR, &args, dir, name).await
    }

    /// Make a symbolic link.
    ///
    /// # Errors
    /// There are no results.
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
        let made: Made = self.call(number, args).await?;
        match made.handle {
            Some(handle) => Ok(handle),
            None => Ok(self.lookup(dir, name).await?.0),
        }
    }

    /// Remove a file.
    ///
    /// # Errors
    /// There are no results.
    pub async fn remove(&self, dir: &Handle, name: &[u8]) -> Result<(), Error> {
        let at = At { dir: *dir, name: Opaque(name) };
        self.call(procedure::REMOVE, &at).await.map(|_: Changed| ())
    }

    /// Give a file another name in its directory; one that is there is replaced.
    ///
    /// # Errors
    /// There are no results.
    pub async fn rename(&self, dir: &Handle, from: &[u8], to: &[u8]) -> Result<(), Error> {
        let at = |name| At { dir: *dir, name: Opaque(name) };
        let args = (at(from), at(to));
        self.call(procedure::RENAME, &args).await.map(|_: (Changed, Changed)| ())
    }

    /// The entries of a directory but for `.` and `..`, sorted.
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
            ) = self.again(procedure::READDIRPLUS, &args).await?;
            verifier = new;
            let Some(last) = list.0.last() else { break };
            // A server that goes in a circle is ended by the limit on entries.
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

/// A call that may be made again when its connection ends.
async fn again<F: Future<Output = Result<Results, CallError>>>(
    call: impl Fn() -> F,
) -> Result<Results, Error> {
    for _ in 1..TRIES {
        match call().await {
            Err(CallError::Disconnected) => {}
            other => return Ok(other?),
        }
    }
    Ok(call().await?)
}

/// What a call returns, if its status is NFS3_OK.
fn decoded<R: for<'a> Decode<'a>>(results: &[u8]) -> Result<R, Error> {
    Ok(Decoder::whole(success(results)?)?)
}

/// What is behind the status of results, if that is NFS3_OK.
fn success(results: &[u8]) -> Result<&[u8], Error> {
    let mut from = Decoder::new(results);
    match Status::decode(&mut from)? {
        Status::Ok => Ok(from.rest()),
        status => Err(Error::Status(status)),
    }
}
