//! The file of `--log`: lines, and a second file for the older ones.
//!
//! Called by: `watch.rs`. The gateway can open no file, so it gets both. When the first one is
//! full, its bytes are copied to the second one, and it begins anew: the newest lines are always in
//! the file that the user named. A line that cannot be written is counted, and the reason said
//! once; the lines after it are tried again.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;

use base::{Budget, Limit};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

base::counts! {
    /// How often each event of a log happened.
    pub(super) struct LogCounts {
        /// Lines of the log that were written.
        lines;
        /// Lines of the log that were not written: no room on the disk, or nobody reads.
        lines_lost;
        /// How often the log's file was full, and its lines went to the second one.
        rotations;
    }
}

/// Lines after which a second file without room is tried again: that copies many bytes.
const PATIENCE: u32 = 1_000;

/// A log.
pub(super) struct Log {
    file: File,
    /// For the older lines, if the first one is a file.
    older: Option<File>,
    /// Bytes of whole lines in the file.
    written: u64,
    /// How many lines are lost before the second file is tried again, which had no room.
    patience: u32,
    /// Somebody was told that lines are lost.
    has_told: bool,
    counts: LogCounts,
}

impl Log {
    pub(super) fn new(file: File) -> Log {
        let (written, counts) = (0, LogCounts::default());
        Log { file, older: None, written, patience: 0, has_told: false, counts }
    }

    /// Older lines go there.
    pub(super) fn set_older(&mut self, older: File) {
        self.older = Some(older);
    }

    pub(super) fn counts(&self) -> LogCounts {
        self.counts
    }

    /// Write a line; an error that the user has to hear of. `gateway_log_bytes` of the budget is
    /// the size of a file.
    pub(super) fn line(&mut self, line: &str, budget: &mut Budget) -> Option<io::Error> {
        match self.write(&format!("{line}\n"), budget) {
            Ok(()) => {
                self.counts.lines += 1;
                None
            }
            Err(why) => {
                self.counts.lines_lost += 1;
                (!std::mem::replace(&mut self.has_told, true)).then_some(why)
            }
        }
    }

    fn write(&mut self, line: &str, budget: &mut Budget) -> io::Result<()> {
        if self.older.is_none() {
            // The gateway does not wait for a reader.
            if !has_room(&self.file) {
                return Err(io::Error::new(ErrorKind::WouldBlock, "nobody reads"));
            }
            return self.file.write_all(line.as_bytes());
        }
        let bytes = line.len() as u64;
        let used = usize::try_from(self.written + bytes).unwrap_or(usize::MAX);
        if self.written > 0 && !budget.admits(Limit::GatewayLogBytes, used) {
            if self.patience > 0 {
                self.patience -= 1;
                return Err(ErrorKind::StorageFull.into());
            }
            if let Err(why) = self.rotate() {
                self.patience = PATIENCE;
                return Err(why);
            }
        }
        let wrote = self.file.write_all(line.as_bytes());
        match wrote {
            Ok(()) => self.written += bytes,
            // Half a line is none.
            Err(_) => self.shorten(self.written)?,
        }
        wrote
    }

    /// The lines go to the second file. If that has no room, they are kept, and newer ones are
    /// lost.
    fn rotate(&mut self) -> io::Result<()> {
        let Some(older) = &mut self.older else { return Ok(()) };
        older.rewind()?;
        older.set_len(0)?;
        self.file.rewind()?;
        let copied = io::copy(&mut (&self.file).take(self.written), older);
        self.file.seek(SeekFrom::Start(self.written))?;
        copied?;
        self.shorten(0)?;
        self.counts.rotations += 1;
        Ok(())
    }

    /// Only the first `length` bytes are in the file.
    fn shorten(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)?;
        self.file.seek(SeekFrom::Start(length))?;
        self.written = length;
        Ok(())
    }
}

/// Does it take a line without waiting? A pipe takes one if it says so.
fn has_room(file: &File) -> bool {
    let mut asked = [PollFd::from_borrowed_fd(file.as_fd(), PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    !matches!(poll(&mut asked, Some(&now)), Ok(0))
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    /// A file in memory, and another handle of it.
    fn file() -> (File, File) {
        let fd = rustix::fs::memfd_create("log", rustix::fs::MemfdFlags::CLOEXEC);
        let file = File::from(fd.expect("memory"));
        (file.try_clone().expect("a descriptor"), file)
    }

    fn text(mut file: &File) -> String {
        // The handles share their position.
        let at = file.stream_position().expect("a file");
        file.rewind().expect("a file");
        let mut text = String::new();
        file.read_to_string(&mut text).expect("text");
        file.seek(SeekFrom::Start(at)).expect("a file");
        text
    }

    #[test]
    fn the_newest_lines_are_in_the_first_file_and_older_ones_in_the_second() {
        let ((file, first), (older, second)) = (file(), file());
        let mut budget = Budget::default();
        budget.set(Limit::GatewayLogBytes, 26);
        let mut log = Log::new(file);
        log.set_older(older);
        for number in 0..7 {
            assert!(log.line(&format!("line {number}"), &mut budget).is_none());
        }
        assert_eq!(text(&first), "line 6\n");
        assert_eq!(text(&second), "line 3\nline 4\nline 5\n");
        let counts = log.counts();
        assert_eq!((counts.lines, counts.lines_lost, counts.rotations), (7, 0, 2));
        assert_eq!(budget.hits(Limit::GatewayLogBytes), 2);
        // A line that is longer than a file is in it alone.
        assert!(log.line(&"x".repeat(40), &mut budget).is_none());
        assert_eq!((text(&first).len(), text(&second).as_str()), (41, "line 6\n"));
    }

    #[test]
    fn a_full_disk_is_said_once_and_the_log_goes_on() {
        let full = || OpenOptions::new().read(true).write(true).open("/dev/full").expect("Linux");
        let mut budget = Budget::default();
        let mut log = Log::new(full());
        let why = log.line("one", &mut budget).expect("it is full");
        assert_eq!(why.kind(), ErrorKind::StorageFull);
        assert!(log.line("two", &mut budget).is_none());
        assert_eq!((log.counts().lines, log.counts().lines_lost), (0, 2));
        let (file, first) = file();
        log.file = file;
        assert!(log.line("three", &mut budget).is_none());
        assert_eq!((text(&first).as_str(), log.counts().lines), ("three\n", 1));
        // The second file has no room: nothing that is written is lost.
        log.set_older(full());
        log.written = 6;
        budget.set(Limit::GatewayLogBytes, 8);
        assert!(log.line("four", &mut budget).is_none(), "it was said");
        assert_eq!(text(&first), "three\n");
        assert_eq!(log.counts().lines_lost, 3);
    }

    #[test]
    fn a_pipe_that_nobody_reads_does_not_stop_the_gateway() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let mut log = Log::new(File::from(std::os::fd::OwnedFd::from(writer)));
        let mut budget = Budget::default();
        let line = "x".repeat(1_000);
        let told = (0..1_000).filter_map(|_| log.line(&line, &mut budget)).count();
        assert_eq!(told, 1);
        assert!(log.counts().lines > 10 && log.counts().lines_lost > 100, "{:?}", log.counts());
        drop(reader);
        assert!(log.line(&line, &mut budget).is_none());
    }
}
