//! BSD's loopback interface: an address family, then the packet (LINKTYPE_NULL, LINKTYPE_LOOP).
//!
//! Called by: `link`.

use crate::data::{Cut, Data};
use crate::net;
use crate::print::{Printer, put};
use crate::text::{Names, name};

const HEADER_LEN: usize = 4;

const FAMILIES: Names = &[
    (2, "IPv4"),
    (6, "NS"),
    (7, "ISO"),
    (16, "Appletalk"),
    (23, "IPX"),
    (24, "IPv6"),
    (28, "IPv6"),
    (30, "IPv6"),
];

pub(super) fn print(p: &mut Printer, data: Data<'_>) -> Result<usize, Cut> {
    p.protocol = "null";
    // The family is in the byte order of the capturing machine. All families fit into the lower 16
    // bits.
    let family = match data.u32_le(0)? {
        family if family & 0xffff_0000 != 0 => family.swap_bytes(),
        family => family,
    };
    if p.style.link {
        header(p, family, data.len);
    }
    let rest = data.skip(HEADER_LEN);
    match family {
        2 => net::ip(p, rest)?,
        24 | 28 | 30 => net::ip6(p, rest)?,
        _ => {
            if !p.style.link {
                header(p, family, data.len);
            }
            p.unknown(rest.bytes);
        }
    }
    Ok(HEADER_LEN)
}

fn header(p: &mut Printer, family: u32, len: usize) {
    match p.style.quiet {
        false => put!(p, "AF {} ({family})", name(FAMILIES, family, "Unknown")),
        true => p.out.push_str(&name(FAMILIES, family, "Unknown AF {}")),
    }
    put!(p, ", length {len}: ");
}
