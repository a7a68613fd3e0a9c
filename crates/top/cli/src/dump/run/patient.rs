//! Reads a file or a pipe, so that a signal ends also a wait for a pipe's next bytes.
//!
//! Called by: `file.rs`. A read that a signal ends looks like the end of the file; the caller asks
//! `stop` which of the two it is.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::rc::Rc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Longest wait before `stop` is asked again.
const WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Was the program told to end?
pub(crate) type Stop = Rc<dyn Fn() -> bool>;

/// A file that is read until its end, or until the program is told to end.
pub(super) struct Patient {
    file: File,
    stop: Stop,
}

impl Patient {
    pub(super) fn new(file: File, stop: Stop) -> Patient {
        Patient { file, stop }
    }
}

/// Open a file; `-` is standard input. A pipe without a writer is open at once, and waits when it
/// is read.
pub(super) fn open(path: &Path) -> io::Result<File> {
    if path.as_os_str() == "-" {
        return Ok(io::stdin().as_fd().try_clone_to_owned()?.into());
    }
    let mut options = File::options();
    #[cfg(target_os = "linux")]
    {
        let flags = rustix::fs::OFlags::NONBLOCK.bits();
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags.cast_signed());
    }
    options.read(true).open(path)
}

impl Read for Patient {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while !(self.stop)() {
            match poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&WAIT)) {
                Ok(0) | Err(Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            match self.file.read(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io::Write;

    use super::*;

    #[test]
    fn a_wait_for_a_pipe_ends_when_the_program_is_to_end() {
        let (reader, mut writer) = io::pipe().expect("descriptors");
        let asked = Rc::new(Cell::new(0));
        let count = asked.clone();
        // The reader is told to end while it waits, after three looks.
        let stop = move || count.replace(count.get() + 1) >= 3;
        let file = File::from(std::os::fd::OwnedFd::from(reader));
        let mut patient = Patient::new(file, Rc::new(stop));
        writer.write_all(b"abc").expect("room in the pipe");
        let mut bytes = [0; 8];
        assert_eq!(patient.read(&mut bytes).expect("there are some"), 3);
        assert_eq!(patient.read(&mut bytes).expect("it is the end"), 0);
        assert_eq!(asked.get(), 4);
    }
}
