//! Buffers the blocks of a pcapng file, so that the file ends with a whole block even if the disk
//! is full: such a file stays readable.
//!
//! Called by: `write.rs`, which marks the end of each block.

use std::fs::File;
use std::io::{self, ErrorKind, Seek, SeekFrom, Stdout, Write};

/// When so many bytes are buffered, they are written.
const ROOM: usize = 256 << 10;

/// Where the blocks go.
pub(super) enum To {
    Stdout(Stdout),
    File(File),
}

/// The buffered bytes, and where each block in them ends.
pub(super) struct Blocks {
    to: To,
    waiting: Vec<u8>,
    ends: Vec<usize>,
    written: u64,
}

impl Blocks {
    pub(super) fn new(to: To) -> Blocks {
        Blocks { to, waiting: Vec::with_capacity(2 * ROOM), ends: Vec::new(), written: 0 }
    }

    /// Bytes so far, buffered ones included.
    pub(super) fn bytes(&self) -> u64 {
        self.written + self.waiting.len() as u64
    }

    /// Mark the end of a block.
    pub(super) fn end_block(&mut self) -> io::Result<()> {
        self.ends.push(self.waiting.len());
        if self.waiting.len() >= ROOM { self.hand_over() } else { Ok(()) }
    }

    /// Write all buffered bytes. After a failure the rest is discarded, and a partly written block
    /// is removed from the file.
    pub(super) fn hand_over(&mut self) -> io::Result<()> {
        let mut done = 0;
        while let Some(left) = self.waiting.get(done..).filter(|left| !left.is_empty()) {
            let result = match &mut self.to {
                To::Stdout(to) => to.write(left),
                To::File(to) => to.write(left),
            };
            match result {
                Ok(count @ 1..) => done += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => {
                    let whole = self.ends.iter().rfind(|end| **end <= done).copied();
                    self.written += whole.unwrap_or(0) as u64;
                    self.forget();
                    if let To::File(file) = &mut self.to {
                        // This fails for a device such as /dev/null, which has no length to cut.
                        let cut = file.set_len(self.written);
                        let _ = cut.and_then(|()| file.seek(SeekFrom::Start(self.written)));
                    }
                    return other.and(Err(ErrorKind::WriteZero.into()));
                }
            }
        }
        self.written += done as u64;
        self.forget();
        match &mut self.to {
            To::Stdout(to) => to.flush(),
            To::File(_) => Ok(()),
        }
    }

    fn forget(&mut self) {
        self.waiting.clear();
        self.ends.clear();
    }
}

impl Write for Blocks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.waiting.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    /// Does nothing: only [`Blocks::hand_over`] writes, because it knows where blocks end.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
