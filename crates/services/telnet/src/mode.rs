//! The mode of LINEMODE (RFC 1184 section 2.2).
//!
//! Called by: both ends, and programs, which know how a terminal is set.

/// Who does what of a terminal's work (RFC 1184 section 2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mode {
    /// The client edits lines.
    pub edit: bool,
    /// The client sends signals as commands.
    pub trapsig: bool,
    /// The client shows tabs as spaces.
    pub soft_tab: bool,
    /// The client shows control characters as they are.
    pub lit_echo: bool,
}

impl Mode {
    /// The bit of an acknowledgement.
    pub const ACK: u8 = 4;

    /// The bits, without [`Mode::ACK`].
    pub fn mask(self) -> u8 {
        let bit = |is_on: bool, bit: u8| if is_on { bit } else { 0 };
        bit(self.edit, 1) | bit(self.trapsig, 2) | bit(self.soft_tab, 8) | bit(self.lit_echo, 16)
    }

    /// Of the bits.
    pub fn from_mask(mask: u8) -> Mode {
        let is_on = |bit| mask & bit != 0;
        Mode { edit: is_on(1), trapsig: is_on(2), soft_tab: is_on(8), lit_echo: is_on(16) }
    }
}
