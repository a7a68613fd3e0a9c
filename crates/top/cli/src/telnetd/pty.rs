//! The terminal of a session: a pseudoterminal's master end in packet mode, and its slave end,
//! which is open only for the moments in which something is asked of it, so that the last program
//! that closes it ends the session and no output is lost (tty_ioctl(4), pty(7)).
//!
//! Called by: `session.rs`, `telnetd.rs` and `input.rs`; `program.rs` gives the slave end to a
//! program.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, kill_process_group};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, Winsize, tcflush,
    tcgetattr, tcgetpgrp, tcsetattr, tcsetwinsize,
};
use wirespeed::device::pty as packet_mode;

/// Bytes of a read.
const READ_BYTES: usize = 16 << 10;

fn flags() -> OpenptFlags {
    OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC
}

/// A terminal.
pub(super) struct Pty {
    master: OwnedFd,
    room: Vec<u8>,
}

/// What the program's side of a terminal did.
pub(super) enum Came<'a> {
    /// It wrote.
    Data(&'a [u8]),
    /// Something changed: the bits of packet mode.
    Change(u8),
    /// Nothing yet.
    Nothing,
    /// All of its programs have closed it.
    End,
}

impl Pty {
    /// A new terminal.
    ///
    /// # Errors
    /// The system has none left.
    pub(super) fn open() -> io::Result<Pty> {
        let master = openpt(flags())?;
        grantpt(&master)?;
        unlockpt(&master)?;
        packet_mode::begin(&master)?;
        rustix::io::ioctl_fionbio(&master, true)?;
        Ok(Pty { master, room: vec![0; READ_BYTES] })
    }

    /// For poll(2).
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.master.as_fd()
    }

    /// The program's end.
    pub(super) fn slave(&self) -> io::Result<OwnedFd> {
        Ok(ioctl_tiocgptpeer(&self.master, flags())?)
    }

    /// What came from the program's end.
    pub(super) fn read(&mut self) -> Came<'_> {
        match rustix::io::read(&self.master, &mut self.room) {
            Ok(0) => Came::End,
            Ok(len) => match self.room[0] {
                packet_mode::DATA => Came::Data(&self.room[1..len]),
                bits => Came::Change(bits),
            },
            Err(Errno::AGAIN | Errno::INTR) => Came::Nothing,
            // EIO: nobody has the other end.
            Err(_) => Came::End,
        }
    }

    /// Bytes for the program; 0 if the terminal has no room.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match rustix::io::write(&self.master, bytes) {
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            other => Ok(other?),
        }
    }

    /// How it is set.
    pub(super) fn termios(&self) -> io::Result<Termios> {
        Ok(tcgetattr(&self.master)?)
    }

    fn set(&self, change: impl FnOnce(&mut Termios)) -> io::Result<()> {
        let mut termios = self.termios()?;
        change(&mut termios);
        Ok(tcsetattr(&self.master, OptionalActions::Now, &termios)?)
    }

    /// Lines are edited elsewhere, by the client: the kernel leaves what is written as it is, and
    /// reports each change of the setting (EXTPROC).
    pub(super) fn set_external(&self, on: bool) -> io::Result<()> {
        self.set(|termios| termios.local_modes.set(LocalModes::EXTPROC, on))
    }

    /// The characters of functions; 0 for none.
    pub(super) fn set_characters(
        &self,
        characters: impl Iterator<Item = (SpecialCodeIndex, u8)>,
    ) -> io::Result<()> {
        self.set(|termios| characters.for_each(|(index, c)| termios.special_codes[index] = c))
    }

    /// The speeds, to receive and to send, in bit/s; those that the system has not are left out.
    pub(super) fn set_speeds(&self, input: u32, output: u32) -> io::Result<()> {
        self.set(|termios| {
            let _ = termios.set_output_speed(output).and(termios.set_input_speed(input));
        })
    }

    /// Columns and rows of the window; its programs get SIGWINCH.
    pub(super) fn resize(&self, columns: u16, rows: u16) -> io::Result<()> {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        Ok(tcsetwinsize(&self.master, size)?)
    }

    /// Drop what the programs have not read, or have written and we have not.
    pub(super) fn flush(&self, which: QueueSelector) -> io::Result<()> {
        Ok(tcflush(self.slave()?, which)?)
    }

    /// A signal for the programs in the foreground.
    pub(super) fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(kill_process_group(tcgetpgrp(&self.master)?, signal)?)
    }

    /// Have the programs read all that was written to them?
    pub(super) fn is_read(&self) -> bool {
        // poll(2) waits until what was written to the master has reached the slave.
        let is_readable = || -> io::Result<bool> {
            let slave = self.slave()?;
            let mut asked = [PollFd::new(&slave, PollFlags::IN)];
            poll(&mut asked, Some(&Timespec::default()))?;
            Ok(asked[0].revents().contains(PollFlags::IN))
        };
        match is_readable() {
            Ok(is_readable) => !is_readable,
            Err(error) => error.kind() != ErrorKind::Interrupted,
        }
    }
}
