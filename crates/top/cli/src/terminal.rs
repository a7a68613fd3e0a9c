//! The user's terminal: raw while a tool edits by itself, and restored at every exit: the end, an
//! error, a panic, a signal.
//!
//! Called by: `telnet`; `clock.rs`, when a second Ctrl-C ends the process at once.

use std::io::{self, IsTerminal, stdin};
use std::sync::Mutex;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// The terminal's own settings, while it has others.
static ORIGINAL: Mutex<Option<Termios>> = Mutex::new(None);

/// Standard input is a terminal; dropping this restores its settings.
pub(crate) struct Terminal(());

impl Terminal {
    /// The terminal, if standard input is one.
    pub(crate) fn of_input() -> Option<Terminal> {
        stdin().is_terminal().then_some(Terminal(()))
    }

    /// Set the raw mode: no line is edited, nothing is shown, no character makes a signal.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(crate) fn raw(&self) -> io::Result<()> {
        let mut termios = tcgetattr(stdin())?;
        if let Ok(mut original) = ORIGINAL.lock() {
            original.get_or_insert_with(|| termios.clone());
        }
        termios.make_raw();
        Ok(tcsetattr(stdin(), OptionalActions::Now, &termios)?)
    }

    /// Restore the terminal's own settings.
    pub(crate) fn restore(&self) {
        restore();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore();
    }
}

/// Restore the terminal's own settings, if it has others.
pub(crate) fn restore() {
    let original = ORIGINAL.lock().ok().and_then(|mut original| original.take());
    if let Some(original) = original {
        // A terminal that is gone needs nothing.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &original);
    }
}

/// Columns and rows; 0 if unknown.
pub(crate) fn window() -> (u16, u16) {
    let size = tcgetwinsize(stdin()).or_else(|_| tcgetwinsize(io::stdout()));
    size.map_or((0, 0), |size| (size.ws_col, size.ws_row))
}

/// The speeds to send and to receive, in bit/s.
pub(crate) fn speeds() -> (u32, u32) {
    let termios = tcgetattr(stdin());
    termios.map_or((38_400, 38_400), |t| (t.output_speed(), t.input_speed()))
}
