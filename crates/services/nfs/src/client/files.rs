//! [`Reader`] and [`Writer`]: they read or write the data of a file from its beginning to its end,
//! with several READs or WRITEs in flight.
//!
//! Called by: `tree.rs`, programs. Limits: `IN_FLIGHT` of `transfer` bytes each; over datagrams
//! `DATAGRAM_IN_FLIGHT_BYTES`.

use std::collections::VecDeque;
use std::sync::Arc;

use rpc::tasks::Data;
use tokio::task::JoinHandle;

use super::{Chunk, Error, Nfs};
use crate::proto::{Handle, Stable, Status};

/// A task that is aborted when its owner is dropped.
struct Task<T>(JoinHandle<T>);

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<T> Task<Result<T, Error>> {
    async fn done(mut self) -> Result<T, Error> {
        // A task that panicked has no results: report an I/O error.
        (&mut self.0).await.unwrap_or(Err(Error::Status(Status::Io)))
    }
}

/// Reads a file from its beginning to its end.
pub struct Reader {
    nfs: Nfs,
    file: Handle,
    /// The size that the file had when it was opened. READs beyond this size are made one at a
    /// time.
    size: u64,
    next: u64,
    flying: VecDeque<Task<Result<Chunk, Error>>>,
    /// The offset at which the next chunk has to begin, and the length that the chunk should have.
    expected: u64,
    is_over: bool,
}

impl Reader {
    /// Read a file of `size` bytes. If the file has grown in the meantime, the new bytes are read
    /// as well.
    pub fn new(nfs: &Nfs, file: Handle, size: u64) -> Reader {
        let (nfs, flying) = (nfs.clone(), VecDeque::new());
        Reader { nfs, file, size, next: 0, flying, expected: 0, is_over: false }
    }

    fn begin(&mut self) {
        let (nfs, file, offset) = (self.nfs.clone(), self.file, self.next);
        let count = nfs.transfer;
        self.next += u64::from(count);
        let read = async move { nfs.read(&file, offset, count).await };
        self.flying.push_back(Task(tokio::spawn(read)));
    }

    /// The next data; `None` after the end of the file.
    ///
    /// # Errors
    /// A READ failed.
    pub async fn next(&mut self) -> Result<Option<Chunk>, Error> {
        if self.is_over {
            return Ok(None);
        }
        while self.flying.is_empty()
            || (self.flying.len() < self.nfs.in_flight() && self.next < self.size)
        {
            self.begin();
        }
        let Some(first) = self.flying.pop_front() else { return Ok(None) };
        let chunk = first.done().await?;
        self.expected += chunk.data().len() as u64;
        if chunk.eof {
            self.is_over = true;
            self.flying.clear();
        } else if chunk.data().is_empty() {
            return Err(Error::Status(Status::Io));
        } else if chunk.data().len() < self.nfs.transfer as usize {
            // The server returned fewer bytes than were asked for. The READs in flight after this
            // one would leave a gap.
            self.flying.clear();
            self.next = self.expected;
        }
        Ok(Some(chunk))
    }
}

/// Writes a file from its beginning to its end.
pub struct Writer {
    nfs: Nfs,
    file: Handle,
    next: u64,
    flying: VecDeque<Task<Result<[u8; 8], Error>>>,
    verifier: Option<[u8; 8]>,
}

impl Writer {
    /// Write to `file`, which is empty.
    pub fn new(nfs: &Nfs, file: Handle) -> Writer {
        let (nfs, flying) = (nfs.clone(), VecDeque::new());
        Writer { nfs, file, next: 0, flying, verifier: None }
    }

    /// Bytes of a WRITE. A piece for [`Writer::write`] should have as many.
    pub fn piece_bytes(&self) -> usize {
        self.nfs.transfer as usize
    }

    /// An empty buffer for a piece.
    pub fn buffer(&self) -> Vec<u8> {
        self.nfs.client.buffer()
    }

    /// Write a piece after the last one. The call waits while too many WRITEs are in flight. Over
    /// streams the piece is not copied; other writers may share its memory at the same time.
    ///
    /// # Errors
    /// An earlier WRITE failed.
    pub async fn write(&mut self, piece: impl Into<Arc<Vec<u8>>>) -> Result<(), Error> {
        let piece = piece.into();
        while self.flying.len() >= self.nfs.in_flight() {
            self.oldest().await?;
        }
        let (nfs, file, offset) = (self.nfs.clone(), self.file, self.next);
        self.next += piece.len() as u64;
        let write = async move {
            let (mut at, mut verifier) = (0, None);
            while at < piece.len() {
                let rest = Data::new(piece.clone(), at..piece.len());
                let offset = offset + at as u64;
                let written = nfs.write(&file, offset, rest, Stable::Unstable).await?;
                if verifier.is_some_and(|before| before != written.verifier) {
                    return Err(Error::Restarted);
                }
                verifier = Some(written.verifier);
                at += written.count as usize;
            }
            if let Ok(piece) = Arc::try_unwrap(piece) {
                nfs.client.recycle(piece);
            }
            Ok(verifier.unwrap_or_default())
        };
        self.flying.push_back(Task(tokio::spawn(write)));
        Ok(())
    }

    async fn oldest(&mut self) -> Result<(), Error> {
        let Some(first) = self.flying.pop_front() else { return Ok(()) };
        let verifier = first.done().await?;
        if self.verifier.is_some_and(|before| before != verifier) {
            return Err(Error::Restarted);
        }
        self.verifier = Some(verifier);
        Ok(())
    }

    /// Wait until all written data is on the server's disk. Returns the number of bytes written.
    ///
    /// # Errors
    /// A WRITE failed, or the server restarted, so that data may be lost.
    pub async fn finish(mut self) -> Result<u64, Error> {
        while !self.flying.is_empty() {
            self.oldest().await?;
        }
        let verifier = self.nfs.commit(&self.file).await?;
        if self.verifier.is_some_and(|before| before != verifier) {
            return Err(Error::Restarted);
        }
        Ok(self.next)
    }
}
