//! Runs the program on a pseudoterminal: its output, keys, and a terminal that vanishes.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Its columns and lines.
const SIZE: Winsize = Winsize { ws_col: 120, ws_row: 40, ws_xpixel: 0, ws_ypixel: 0 };

/// How long one look waits for output.
const PAUSE: Duration = Duration::from_millis(20);

/// A terminal and the program on it, which is killed on drop.
pub(crate) struct Terminal {
    /// The user's end; `None` after the terminal vanished.
    user: Option<File>,
    child: Child,
    shown: String,
}

impl Terminal {
    /// The program leads a session, as in a terminal's window.
    pub(crate) fn new(program: &Command) -> Terminal {
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(program.get_program()).args(program.get_args());
        let set = program.get_envs().filter_map(|(name, value)| Some((name, value?)));
        command.envs(set).env_remove("NO_COLOR");
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let user = openpt(flags).expect("the system has terminals");
        grantpt(&user).and_then(|()| unlockpt(&user)).expect("it is ours");
        let end = ioctl_tiocgptpeer(&user, flags).expect("it has another end");
        tcsetwinsize(&end, SIZE).expect("it can be made larger");
        let end = || end.try_clone().expect("a number for the terminal");
        command.stdin(end()).stdout(end()).stderr(end());
        let child = command.spawn().expect("the program starts");
        Terminal { user: Some(File::from(user)), child, shown: String::new() }
    }

    /// All output so far, cursor movements included: words are whole, lines are not.
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    /// Wait until this text was shown.
    pub(crate) fn shows(&mut self, text: &str, timeout: Duration) {
        let begun = Instant::now();
        while !self.shown.contains(text) {
            assert!(begun.elapsed() < timeout, "no {text:?} in {:?}", self.shown);
            self.look();
        }
    }

    /// Is this text shown within the time?
    pub(crate) fn shows_within(&mut self, text: &str, time: Duration) -> bool {
        let begun = Instant::now();
        while !self.shown.contains(text) && begun.elapsed() < time {
            self.look();
        }
        self.shown.contains(text)
    }

    /// Forget the text that was shown so far.
    pub(crate) fn forgets(&mut self) {
        self.shown.clear();
    }

    /// The window gets another size.
    pub(crate) fn resizes(&mut self, columns: u16, rows: u16) {
        let size = Winsize { ws_col: columns, ws_row: rows, ..SIZE };
        tcsetwinsize(self.user.as_ref().expect("it is there"), size).expect("it can be resized");
    }

    pub(crate) fn types(&mut self, keys: &[u8]) {
        self.user.as_mut().expect("it is there").write_all(keys).expect("it takes keys");
    }

    /// Send the program a signal.
    pub(crate) fn signals(&mut self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it is ours");
    }

    pub(crate) fn vanishes(&mut self) {
        self.user = None;
    }

    /// Wait until the program has ended; its status, or `None` if it goes on.
    pub(crate) fn ends(&mut self, timeout: Duration) -> Option<ExitStatus> {
        let begun = Instant::now();
        while begun.elapsed() < timeout {
            self.look();
            if let Some(status) = self.child.try_wait().expect("it is ours") {
                self.look();
                return Some(status);
            }
        }
        None
    }

    /// Read the output of the next [`PAUSE`].
    fn look(&mut self) {
        let Some(user) = &mut self.user else { return std::thread::sleep(PAUSE) };
        let pause = Timespec::try_from(PAUSE).expect("it is short");
        let mut asked = [PollFd::new(&*user, PollFlags::IN)];
        poll(&mut asked, Some(&pause)).expect("it can be waited for");
        if !asked[0].revents().contains(PollFlags::IN) {
            // If the program has ended, poll(2) returns at once.
            return std::thread::sleep(Duration::from_millis(1));
        }
        let mut bytes = [0; 65_536];
        let len = user.read(&mut bytes).expect("there is something to read");
        self.shown.push_str(&String::from_utf8_lossy(&bytes[..len]));
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
