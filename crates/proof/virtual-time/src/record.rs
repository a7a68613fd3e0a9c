//! The record of the frames of a run: a digest, and files for Wireshark.
//!
//! Called by: `link.rs`, which wraps each device, and `network.rs` at the end.

use core::hash::Hasher;
use core::time::Duration;
use std::fs::File;
use std::hash::DefaultHasher;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use device::Device;
use device::capture::{Capture, CaptureError, CaptureStatus};
use stack::VirtualClock;

/// The records of all devices of a world.
#[derive(Debug)]
pub(crate) struct Record {
    digest: bool,
    directory: Option<PathBuf>,
    clock: VirtualClock,
    parts: Vec<(CaptureStatus, Arc<Mutex<DefaultHasher>>)>,
}

/// Hashes what is written, and writes it to a file.
struct Sink {
    hasher: Arc<Mutex<DefaultHasher>>,
    file: Option<File>,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.file {
            Some(file) => file.write(bytes)?,
            None => bytes.len(),
        };
        let mut hasher = self.hasher.lock().unwrap_or_else(PoisonError::into_inner);
        hasher.write(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), File::flush)
    }
}

impl Record {
    pub(crate) fn new(digest: bool, directory: Option<PathBuf>, clock: VirtualClock) -> Record {
        Record { digest, directory, clock, parts: Vec::new() }
    }

    /// Record the frames of `device`, if anything is recorded.
    ///
    /// # Errors
    /// The file cannot be made or written.
    pub(crate) fn wrap<D: Device + 'static>(
        &mut self,
        device: D,
        name: &str,
    ) -> io::Result<Box<dyn Device>> {
        if !self.digest && self.directory.is_none() {
            return Ok(Box::new(device));
        }
        let file = match &self.directory {
            None => None,
            Some(directory) => {
                std::fs::create_dir_all(directory)?;
                Some(File::create(directory.join(name).with_extension("pcapng"))?)
            }
        };
        let hasher = Arc::new(Mutex::new(DefaultHasher::new()));
        let clock = self.clock.clone();
        let time = move || Duration::from_nanos(clock.now().as_nanos() - 1);
        let sink = Sink { hasher: hasher.clone(), file };
        let (device, status) = Capture::new(device, sink, time).map_err(io::Error::other)?;
        self.parts.push((status, hasher));
        Ok(Box::new(device))
    }

    /// Stop all records; they are complete after the next poll of their stacks.
    pub(crate) fn stop(&self) {
        self.parts.iter().for_each(|(status, _)| status.stop());
    }

    /// The number of frames, and the digest of all of them.
    ///
    /// # Errors
    /// A file could not be written.
    pub(crate) fn total(&self) -> Result<(u64, u64), CaptureError> {
        let (mut frames, mut all) = (0, DefaultHasher::new());
        for (status, hasher) in &self.parts {
            if let Some(error) = status.error() {
                return Err(error);
            }
            frames += status.frames();
            all.write_u64(hasher.lock().unwrap_or_else(PoisonError::into_inner).finish());
        }
        Ok((frames, all.finish()))
    }
}
