//! The authentication header (RFC 4302).
//!
//! Called by: `demux`, which continues after this header.

use crate::data::{Cut, Data};
use crate::print::{Printer, put};

/// The number of bytes before the integrity check value.
const HEADER_LEN: usize = 12;

/// Print the header; returns its length.
pub(super) fn print(p: &mut Printer, data: Data<'_>) -> Result<usize, Cut> {
    p.protocol = "ah";
    p.out.push_str("AH(");
    let len = (usize::from(data.u8(1)?) + 2) * 4;
    if p.is_verbose() {
        put!(p, "length={}({len}-bytes),", data.u8(1)?);
    }
    let reserved = data.u16(2)?;
    if reserved != 0 {
        put!(p, "reserved=0x{reserved:x}[MustBeZero],");
    }
    put!(p, "spi=0x{:08x},seq=0x{:x},icv=0x", data.u32(4)?, data.u32(8)?);
    let here = data.here().min(len);
    p.hex_digits(data.bytes.get(HEADER_LEN..here).unwrap_or_default());
    data.get(0, len)?;
    p.out.push_str("): ");
    Ok(len)
}
