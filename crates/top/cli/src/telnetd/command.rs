//! Commands of a client: signals, the end of a file, output that is not wanted (RFC 854, RFC 1184
//! section 2.5).
//!
//! Called by: `session.rs`.

use rustix::process::Signal;
use rustix::termios::QueueSelector;
use telnet::code::{ABORT, AO, BRK, EOF, IP, SUSP};
use telnet::slc;

use super::input::Input;
use super::pty::Pty;
use super::setting::Setting;

/// The end of file of terminals as they are.
const CTRL_D: u8 = 4;

/// Carry out a command.
pub(super) fn carry_out(command: u8, pty: &Pty, setting: &Setting, input: &mut Input) {
    match command {
        IP | BRK => signal(Signal::INT, slc::IP, pty, setting, input),
        ABORT => signal(Signal::QUIT, slc::ABORT, pty, setting, input),
        SUSP => signal(Signal::TSTP, slc::SUSP, pty, setting, input),
        EOF => {
            let character = setting.character(slc::EOF).unwrap_or(CTRL_D);
            match setting.is_external && setting.mode.edit {
                true => input.push_end(character),
                false => input.push(vec![character]),
            }
        }
        // The terminal reports the flush, and a Synch is sent for it. If it cannot be flushed,
        // nobody writes.
        AO => drop(pty.flush(QueueSelector::OFlush)),
        _ => {}
    }
}

/// The kernel makes a signal of the character, with all that belongs to it. Where it leaves that to
/// us we do what it would.
fn signal(signal: Signal, function: u8, pty: &Pty, setting: &Setting, input: &mut Input) {
    if setting.flushes {
        input.clear();
    }
    if let (false, Some(character)) = (setting.is_external, setting.character(function)) {
        input.push(vec![character]);
        return;
    }
    if setting.flushes {
        let _ = pty.flush(QueueSelector::IOFlush);
    }
    // Without a foreground there is nobody to be told.
    let _ = pty.signal(signal);
}
