//! Blocks of pcapng: their types, and the body of a block, which is read field by field.
//!
//! Called by: `pcapng`. A body counts the bytes that are left, so that no field and no option is
//! read from the next block. Source: draft-ietf-opsawg-pcapng, sections 3 and 4.

use std::io::BufRead;

use crate::input::{Input, Order};
use crate::packet::{Error, NAME_BYTES_MAX};

/// The type of a section header, the same in both byte orders.
pub(crate) const SECTION_BYTES: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
pub(crate) const SECTION: u32 = u32::from_be_bytes(SECTION_BYTES);
pub(crate) const INTERFACE: u32 = 1;
pub(crate) const PACKET: u32 = 2;
pub(crate) const SIMPLE_PACKET: u32 = 3;
pub(crate) const ENHANCED_PACKET: u32 = 6;

/// Types that carry no packet: names, statistics, interrupts, encapsulations, journals, secrets and
/// the four of custom blocks.
const OTHERS: [u32; 9] = [4, 5, 7, 8, 9, 10, 0x0bad, 0x4000_0bad, 0x8000_0001];

/// Does this type exist? An unknown type is a sign of damage, but a block of such a type is only
/// skipped.
pub(crate) fn is_known(kind: u32) -> bool {
    [SECTION, INTERFACE, PACKET, SIMPLE_PACKET, ENHANCED_PACKET].contains(&kind)
        || OTHERS.contains(&kind)
}

/// The end of options.
const END: u16 = 0;

/// `len` rounded up to whole words of four bytes.
pub(crate) fn padded(len: u32) -> u64 {
    u64::from(len).next_multiple_of(4)
}

/// The bytes of a block's body that have not been read yet.
pub(crate) struct Body<'a, R> {
    input: &'a mut Input<R>,
    pub(crate) order: Order,
    pub(crate) left: u64,
}

impl<'a, R: BufRead> Body<'a, R> {
    pub(crate) fn new(input: &'a mut Input<R>, order: Order, left: u64) -> Body<'a, R> {
        Body { input, order, left }
    }

    /// The next N bytes; `None` if the block has fewer left.
    pub(crate) fn fields<const N: usize>(&mut self) -> Result<Option<[u8; N]>, Error> {
        if self.left < N as u64 {
            return Ok(None);
        }
        self.left -= N as u64;
        self.input.exact().map(Some)
    }

    /// A packet's data: `captured` bytes, or as many of them as the block has. At most `kept` of
    /// these are returned.
    pub(crate) fn data(&mut self, captured: u32, kept: u32) -> Result<Vec<u8>, Error> {
        let there = u32::try_from(self.left).unwrap_or(u32::MAX).min(captured);
        let bytes = self.input.bytes(there.min(kept))?;
        self.left -= bytes.len() as u64;
        self.skip(padded(there) - bytes.len() as u64)?;
        Ok(bytes)
    }

    /// Call `each` for each option with its code, its length, and the first bytes of its value. An
    /// option that is longer than the rest of the block ends the options.
    pub(crate) fn options(&mut self, mut each: impl FnMut(u16, &[u8])) -> Result<(), Error> {
        let mut value = [0; NAME_BYTES_MAX];
        while let Some([a, b, c, d]) = self.fields()? {
            let (code, len) = (self.order.u16([a, b]), self.order.u16([c, d]));
            if code == END || u64::from(len) > self.left {
                break;
            }
            let kept = value.get_mut(..len.into()).map_or(NAME_BYTES_MAX, |value| value.len());
            let value = &mut value[..kept];
            self.input.fill(value)?;
            self.left -= kept as u64;
            each(code, value);
            self.skip(padded(len.into()) - kept as u64)?;
        }
        Ok(())
    }

    /// Skip `len` bytes, or the rest of the block if it is shorter.
    pub(crate) fn skip(&mut self, len: u64) -> Result<(), Error> {
        let len = len.min(self.left);
        self.left -= len;
        self.input.skip(len)
    }
}
