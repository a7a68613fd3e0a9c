//! The record of the frames of a run: a digest, and files for Wireshark.
//!
//! Called by: `link.rs`, which wraps each device, and `network.rs` at the end.

use core::hash::Hasher;
use core::time::Duration;
use std::collections::BTreeSet;
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
    /// The names of the files of this run.
    names: BTreeSet<String>,
    parts: Vec<Part>,
    /// What the devices that are gone had.
    gone: Total,
}

/// The record of one device.
#[derive(Debug)]
struct Part {
    status: CaptureStatus,
    hasher: Arc<Mutex<DefaultHasher>>,
}

/// Several records together.
#[derive(Clone, Debug, Default)]
struct Total {
    frames: u64,
    hasher: DefaultHasher,
    error: Option<CaptureError>,
}

impl Total {
    fn add(&mut self, part: &Part) {
        self.frames += part.status.frames();
        let digest = part.hasher.lock().unwrap_or_else(PoisonError::into_inner).finish();
        self.hasher.write_u64(digest);
        self.error = self.error.take().or_else(|| part.status.error());
    }
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
        Record {
            digest,
            directory,
            clock,
            names: BTreeSet::new(),
            parts: Vec::new(),
            gone: Total::default(),
        }
    }

    /// Record the frames of `device`, if anything is recorded, in a file with this name.
    ///
    /// # Errors
    /// The file cannot be made or written, or this run has made it already.
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
                let file = directory.join(format!("{name}.pcapng"));
                if !self.names.insert(name.to_owned()) {
                    let text = format!(
                        "two links would write to {}: give their hosts different names",
                        file.display()
                    );
                    return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
                }
                std::fs::create_dir_all(directory)?;
                Some(File::create(file)?)
            }
        };
        let hasher = Arc::new(Mutex::new(DefaultHasher::new()));
        let clock = self.clock.clone();
        let time = move || Duration::from_nanos(clock.now().as_nanos() - 1);
        let sink = Sink { hasher: hasher.clone(), file };
        let (device, status) = Capture::new(device, sink, time).map_err(io::Error::other)?;
        self.parts.push(Part { status, hasher });
        Ok(Box::new(device))
    }

    /// Add up the records of devices that are gone, so that they do not pile up when hosts restart.
    pub(crate) fn add_up(&mut self) {
        self.parts.retain(|part| {
            // The device, and with it the other owner, is dropped when its frames are written.
            let is_gone = Arc::strong_count(&part.hasher) == 1;
            if is_gone {
                self.gone.add(part);
            }
            !is_gone
        });
    }

    /// Stop all records; they are complete after the next poll of their stacks.
    pub(crate) fn stop(&self) {
        self.parts.iter().for_each(|part| part.status.stop());
    }

    /// The number of frames, and the digest of all of them.
    ///
    /// # Errors
    /// A file could not be written.
    pub(crate) fn total(&self) -> Result<(u64, u64), CaptureError> {
        let mut total = self.gone.clone();
        self.parts.iter().for_each(|part| total.add(part));
        total.error.map_or(Ok((total.frames, total.hasher.finish())), Err)
    }
}
