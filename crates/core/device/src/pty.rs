//! Packet mode of a terminal's master end (tty_ioctl(4), TIOCPKT): every read begins with a byte
//! that tells whether data follows, or what has changed at the terminal.
//!
//! Called by: `wirespeed telnetd`. No maintained library wraps this call.

#![allow(unsafe_code)]

use std::os::fd::AsFd;

use rustix::ioctl::{Opcode, Setter, ioctl};

/// Data follows.
pub const DATA: u8 = 0;
/// The terminal's output was flushed.
pub const FLUSHWRITE: u8 = 2;

const TIOCPKT: Opcode = libc::TIOCPKT as Opcode;

/// Begin packet mode at a master end.
///
/// # Errors
/// The system's error; for example, the descriptor is not a terminal's master end.
pub fn begin(master: impl AsFd) -> rustix::io::Result<()> {
    // SAFETY: TIOCPKT reads an int at the address, which `Setter` gives it, and keeps nothing.
    unsafe { ioctl(master, Setter::<TIOCPKT, libc::c_int>::new(1)) }
}
