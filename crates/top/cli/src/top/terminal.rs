//! The terminal: keys that end `top`, Ctrl-C, and restoring the terminal.
//!
//! Called by: `top.rs` and `run.rs`.

use std::fs::File;
use std::io::{ErrorKind, IsTerminal, Read};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How long restoring the terminal may take when the program has to end at once.
const TIMEOUT: Duration = Duration::from_millis(500);

/// Set by Ctrl-C. A second Ctrl-C exits at once, in case the program hangs.
pub(super) fn stopped(is_drawn: bool) -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let told = stop.clone();
    ctrlc::set_handler(move || {
        if told.swap(true, Ordering::Relaxed) {
            if is_drawn {
                give_back();
            }
            std::process::exit(130);
        }
    })
    .context("Ctrl-C")?;
    Ok(stop)
}

/// Restore the terminal within [`TIMEOUT`]. Another thread does it, because the thread that draws
/// may hold standard output and wait for a terminal that takes nothing any more.
fn give_back() {
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let restored = ratatui::try_restore().and_then(|()| execute!(std::io::stdout(), Show));
        done.send(restored.is_ok())
    });
    let _ = is_done.recv_timeout(TIMEOUT);
}

/// The keys pressed since the last call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pressed {
    /// A key that ends `top`, or the terminal is gone.
    End,
    /// Other keys, perhaps none.
    Keys(Vec<u8>),
}

/// Keys that end `top`: q, Escape alone, and Ctrl-C, which is a plain key in raw mode.
fn ends(keys: &[u8]) -> bool {
    keys == [0x1b] || keys.iter().any(|key| matches!(key, b'q' | 0x03))
}

/// The terminal that keys are read from; standard input need not be it.
pub(super) struct Keys(pub(super) Option<File>);

impl Keys {
    pub(super) fn open() -> Keys {
        let stdin = std::io::stdin();
        let own = stdin.is_terminal().then(|| stdin.as_fd().try_clone_to_owned().ok()).flatten();
        Keys(own.map(File::from).or_else(|| File::open("/dev/tty").ok()))
    }

    /// The keys pressed. The terminal is read here, because a library that waits for whole keys
    /// waits for ever on a terminal that is gone.
    pub(super) fn pressed(&mut self) -> Pressed {
        let mut pressed = Vec::new();
        let Some(terminal) = &mut self.0 else { return Pressed::Keys(pressed) };
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        loop {
            let mut asked = [PollFd::new(&*terminal, PollFlags::IN)];
            if !poll(&mut asked, Some(&at_once)).is_ok_and(|ready| ready > 0) {
                return Pressed::Keys(pressed);
            }
            let mut keys = [0; 64];
            match terminal.read(&mut keys) {
                Ok(0) => return Pressed::End,
                Ok(count) if ends(&keys[..count]) => return Pressed::End,
                // Ignore arrows and other keys of several bytes.
                Ok(_) if keys[0] == 0x1b => {}
                Ok(count) => pressed.extend_from_slice(&keys[..count]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Pressed::Keys(pressed),
                Err(_) => return Pressed::End,
            }
        }
    }
}
