//! How a program has set its terminal, in TELNET's words: the mode of LINEMODE, the characters of
//! functions (RFC 1184 sections 2.2 and 2.4), flow control (RFC 1372).
//!
//! Called by: `session.rs`, after each change.

use rustix::termios::{InputModes, LocalModes, OutputModes, SpecialCodeIndex, Termios};
use telnet::{Mode, slc};

/// Functions and their characters of a terminal.
pub(super) const CHARACTERS: [(u8, SpecialCodeIndex); 13] = [
    (slc::IP, SpecialCodeIndex::VINTR),
    (slc::ABORT, SpecialCodeIndex::VQUIT),
    (slc::EOF, SpecialCodeIndex::VEOF),
    (slc::SUSP, SpecialCodeIndex::VSUSP),
    (slc::EC, SpecialCodeIndex::VERASE),
    (slc::EL, SpecialCodeIndex::VKILL),
    (slc::EW, SpecialCodeIndex::VWERASE),
    (slc::RP, SpecialCodeIndex::VREPRINT),
    (slc::LNEXT, SpecialCodeIndex::VLNEXT),
    (slc::XON, SpecialCodeIndex::VSTART),
    (slc::XOFF, SpecialCodeIndex::VSTOP),
    (slc::FORW1, SpecialCodeIndex::VEOL),
    (slc::FORW2, SpecialCodeIndex::VEOL2),
];

/// A terminal's setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) mode: Mode,
    pub(super) is_echoing: bool,
    /// XOFF stops output.
    pub(super) stops: bool,
    /// Any character resumes it.
    pub(super) restarts_on_any: bool,
    /// The kernel leaves editing to us (EXTPROC).
    pub(super) is_external: bool,
    /// A signal's character drops what was typed and what is shown.
    pub(super) flushes: bool,
    /// In the order of [`CHARACTERS`]; 0 for none.
    pub(super) characters: [u8; CHARACTERS.len()],
    input: InputModes,
}

impl Setting {
    pub(super) fn of(termios: &Termios) -> Setting {
        let (input, local) = (termios.input_modes, termios.local_modes);
        let mode = Mode {
            edit: local.contains(LocalModes::ICANON),
            trapsig: local.contains(LocalModes::ISIG),
            soft_tab: termios.output_modes.contains(OutputModes::TAB3),
            lit_echo: !local.contains(LocalModes::ECHOCTL),
        };
        Setting {
            mode,
            is_echoing: local.contains(LocalModes::ECHO),
            stops: input.contains(InputModes::IXON),
            restarts_on_any: input.contains(InputModes::IXANY),
            is_external: local.contains(LocalModes::EXTPROC),
            flushes: !local.contains(LocalModes::NOFLSH),
            characters: CHARACTERS.map(|(_, index)| termios.special_codes[index]),
            input,
        }
    }

    /// The character of a function, if it has one.
    pub(super) fn character(&self, function: u8) -> Option<u8> {
        let at = CHARACTERS.iter().position(|&(f, _)| f == function)?;
        Some(self.characters[at]).filter(|&character| character != 0)
    }

    /// What the user sent as the program reads it. The kernel does this unless lines are edited
    /// elsewhere.
    pub(super) fn mapped(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        if !self.is_external {
            return bytes;
        }
        let has = |mode| self.input.contains(mode);
        if has(InputModes::IGNCR) {
            bytes.retain(|&byte| byte != b'\r');
        }
        for byte in &mut bytes {
            *byte = match *byte {
                b'\r' if has(InputModes::ICRNL) => b'\n',
                b'\n' if has(InputModes::INLCR) => b'\r',
                byte if has(InputModes::ISTRIP) => byte & 0x7f,
                byte => byte,
            };
        }
        bytes
    }
}
