//! The characters, besides the ends of lines, that make a client send the typed bytes (RFC 1184
//! section 2.3).
//!
//! Called by: `client.rs`, which receives a mask, and `server.rs`, which sends one. Only one DO or
//! DONT is in flight at a time, and a refused mask is not requested again.

use crate::code::{DO, DONT, LM_FORWARDMASK};

/// One bit for each character. The highest bit of the first octet is for character 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mask([u8; 32]);

impl Mask {
    pub(crate) fn of(characters: &[u8]) -> Mask {
        let mut mask = Mask::default();
        for &character in characters {
            mask.0[usize::from(character / 8)] |= 0x80 >> (character % 8);
        }
        mask
    }

    /// Parse a mask. If octets are missing at the end, their characters are not in the mask; `None`
    /// if it is too long.
    pub(crate) fn parse(octets: &[u8]) -> Option<Mask> {
        let at = |i| octets.get(i).copied().unwrap_or(0);
        (octets.len() <= 32).then(|| Mask(core::array::from_fn(at)))
    }

    /// The octets, without the zeros at the end.
    fn octets(&self) -> &[u8] {
        let len = self.0.iter().rposition(|&octet| octet != 0).map_or(0, |at| at + 1);
        &self.0[..len]
    }

    pub(crate) fn has(&self, character: u8) -> bool {
        self.0[usize::from(character / 8)] & (0x80 >> (character % 8)) != 0
    }
}

/// The server's state of the mask.
#[derive(Debug, Default)]
pub(crate) struct Forwarding {
    /// The characters that have to make the client send the typed bytes.
    wanted: Vec<u8>,
    told: Mask,
    is_outstanding: bool,
    is_refused: bool,
}

impl Forwarding {
    pub(crate) fn set(&mut self, characters: &[u8]) {
        self.wanted = characters.to_vec();
    }

    /// LINEMODE has begun or ended, so the client has no mask.
    pub(crate) fn reset(&mut self) {
        *self = Forwarding { wanted: core::mem::take(&mut self.wanted), ..Forwarding::default() };
    }

    /// The next message to a client that has the characters `agreed` for FORW1 and FORW2, if a
    /// message is needed. RFC 1184 2.3-b.
    pub(crate) fn next(&mut self, agreed: [Option<u8>; 2]) -> Option<Vec<u8>> {
        if self.is_outstanding || self.is_refused {
            return None;
        }
        let mut missing = self.wanted.clone();
        missing.retain(|&c| !agreed.contains(&Some(c)) && !matches!(c, b'\r' | b'\n'));
        let mask = Mask::of(&missing);
        if mask == self.told {
            return None;
        }
        (self.told, self.is_outstanding) = (mask, true);
        let verb = if missing.is_empty() { DONT } else { DO };
        Some([&[verb, LM_FORWARDMASK], mask.octets()].concat())
    }

    /// Note that the client answered WILL or WONT.
    pub(crate) fn answered(&mut self, will: bool) {
        self.is_refused = !will && self.told != Mask::default();
        self.is_outstanding = false;
    }
}

/// Which parts of a terminal's work the client does (RFC 1184 section 2.2).
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
    /// The bit that marks an acknowledgement.
    pub const ACK: u8 = 4;

    /// The bits, without [`Mode::ACK`].
    pub fn mask(self) -> u8 {
        let bit = |is_on: bool, bit: u8| if is_on { bit } else { 0 };
        bit(self.edit, 1) | bit(self.trapsig, 2) | bit(self.soft_tab, 8) | bit(self.lit_echo, 16)
    }

    /// The mode of these bits.
    pub fn from_mask(mask: u8) -> Mode {
        let is_on = |bit| mask & bit != 0;
        Mode { edit: is_on(1), trapsig: is_on(2), soft_tab: is_on(8), lit_echo: is_on(16) }
    }
}
