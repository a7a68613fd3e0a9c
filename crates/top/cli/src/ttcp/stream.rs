//! The data of a transfer with a host. Sent: a file, standard input or a pattern. Received: into a
//! file, to standard output, or discarded. Files and streams are hashed on the way.
//!
//! Called by: `host/connection.rs`.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sha2::{Digest, Sha256};

use super::data::Source;
use super::file::hex;
use super::plan::{Goal, Plan};
use crate::output;

const CHUNK_BYTES: usize = 128 << 10;

/// The data to send.
pub(super) enum Input {
    Pattern(Source),
    Stream(Box<Stream>),
}

/// A file or standard input.
pub(super) struct Stream {
    file: File,
    name: String,
    /// It is standard input, which may have no data now and more later.
    waits: bool,
    buffer: Vec<u8>,
    at: usize,
    end: usize,
    ended: bool,
    hash: Sha256,
}

impl Input {
    /// What connection `n` sends; `block` is that of patterns.
    pub(super) fn open(plan: &Plan, n: usize, block: &Arc<[u8]>) -> Result<Input> {
        let pattern = |bytes| Ok(Input::Pattern(Source::pattern(bytes, block.clone())));
        let (file, name, waits) = match &plan.goal {
            Goal::File(path) => (File::open(path), path.display().to_string(), false),
            Goal::Bytes(bytes) => return pattern(plan.share(*bytes, n)),
            Goal::Seconds(_) if plan.sources => return pattern(u64::MAX),
            Goal::Seconds(_) => (as_file(&std::io::stdin()), "standard input".to_owned(), true),
        };
        let file = file.with_context(|| format!("cannot open {name}"))?;
        let buffer = vec![0; CHUNK_BYTES];
        let hash = Sha256::new();
        Ok(Input::Stream(Box::new(Stream {
            file,
            name,
            waits,
            buffer,
            at: 0,
            end: 0,
            ended: false,
            hash,
        })))
    }

    /// The next bytes, up to `most`; empty at the end, or while there is no data.
    pub(super) fn peek(&mut self, most: usize) -> Result<&[u8]> {
        match self {
            Input::Pattern(source) => Ok(source.peek(most)),
            Input::Stream(stream) => {
                stream.fill()?;
                Ok(&stream.buffer[stream.at..stream.end.min(stream.at + most)])
            }
        }
    }

    /// Remove the first `n` bytes.
    pub(super) fn advance(&mut self, n: usize) {
        match self {
            Input::Pattern(source) => source.advance(n),
            Input::Stream(stream) => {
                stream.hash.update(&stream.buffer[stream.at..stream.at + n]);
                stream.at += n;
            }
        }
    }

    /// End the data here.
    pub(super) fn stop(&mut self) {
        match self {
            Input::Pattern(source) => source.stop(),
            Input::Stream(stream) => (stream.ended, stream.end) = (true, stream.at),
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        match self {
            Input::Pattern(source) => source.finished(),
            Input::Stream(stream) => stream.ended && stream.at == stream.end,
        }
    }

    /// May there be no data now and more later?
    pub(super) fn may_wait(&self) -> bool {
        matches!(self, Input::Stream(stream) if stream.waits)
    }

    pub(super) fn sha256(self) -> Option<String> {
        match self {
            Input::Pattern(_) => None,
            Input::Stream(stream) => Some(hex(&stream.hash.finalize())),
        }
    }
}

impl Stream {
    fn fill(&mut self) -> Result<()> {
        if self.at < self.end || self.ended || (self.waits && !self.is_ready()) {
            return Ok(());
        }
        (self.at, self.end) = (0, 0);
        match self.file.read(&mut self.buffer) {
            Ok(0) => self.ended = true,
            Ok(n) => self.end = n,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", self.name)),
        }
        Ok(())
    }

    fn is_ready(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&now)) != Ok(0)
    }
}

/// The destination of received data.
pub(super) struct Output {
    file: Option<(File, String)>,
    hash: Option<Sha256>,
}

impl Output {
    pub(super) fn open(plan: &Plan) -> Result<Output> {
        let file = match &plan.goal {
            Goal::File(path) => {
                let name = path.display().to_string();
                let file = File::create(path).with_context(|| format!("cannot write {name}"))?;
                Some((file, name))
            }
            _ if plan.sources => None,
            _ => {
                let file = as_file(&std::io::stdout()).context("cannot open standard output")?;
                Some((file, "standard output".to_owned()))
            }
        };
        let hash = file.is_some().then(Sha256::new);
        Ok(Output { file, hash })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if let Some(hash) = &mut self.hash {
            hash.update(bytes);
        }
        match &mut self.file {
            None => Ok(()),
            Some((file, name)) => file.write_all(bytes).map_err(|e| cannot_write(name, e)),
        }
    }

    /// Flush; returns the SHA-256.
    pub(super) fn close(&mut self) -> Result<Option<String>> {
        if let Some((file, name)) = &mut self.file {
            file.flush().map_err(|e| cannot_write(name, e))?;
        }
        Ok(self.hash.take().map(|hash| hex(&hash.finalize())))
    }
}

/// Duplicate the descriptor instead of opening the stream again: it may be a socket, and a file
/// keeps its position.
fn as_file(stream: &impl AsFd) -> std::io::Result<File> {
    stream.as_fd().try_clone_to_owned().map(File::from)
}

fn cannot_write(name: &str, error: Error) -> anyhow::Error {
    let what_to_do = output::what_to_do(&error);
    anyhow!(error).context(format!("cannot write {name}{what_to_do}"))
}
