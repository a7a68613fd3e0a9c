//! MPLS: the label stack, and the content (RFC 3032, 3270).
//!
//! Called by: Ethertypes, PPP, HDLC, UDP.

use super::{ip, ip6};
use crate::data::{Data, Done};
use crate::print::{Printer, put};

/// The names of the reserved labels.
const RESERVED: [&str; 16] = [
    "IPv4 explicit NULL",
    "router alert",
    "IPv6 explicit NULL",
    "implicit NULL",
    "rsvd",
    "rsvd",
    "rsvd",
    "rsvd",
    "rsvd",
    "rsvd",
    "rsvd",
    "rsvd",
    "rsvd",
    "rsvd",
    "rsvd",
    "rsvd",
];

pub(crate) fn print(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "mpls";
    p.out.push_str("MPLS");
    let mut at = 0;
    let label = loop {
        if data.len < at + 4 {
            p.invalid();
            return Ok(());
        }
        let entry = data.u32(at)?;
        let label = entry >> 12;
        p.out.push_str(if at > 0 && p.is_verbose() { "\n\t" } else { " " });
        put!(p, "(label {label}");
        if p.is_verbose()
            && let Some(name) = RESERVED.get(label as usize)
        {
            put!(p, " ({name})");
        }
        put!(p, ", tc {}", entry >> 9 & 7);
        let is_last = entry & 0x100 != 0;
        p.out.push_str(if is_last { ", [S]" } else { "" });
        put!(p, ", ttl {})", entry & 0xff);
        at += 4;
        if is_last {
            break label;
        }
    };
    let rest = data.skip(at);
    let first = match label {
        0 | 3 => 0x45,
        2 => 0x60,
        _ if rest.len < 1 => return Ok(()),
        // No field identifies the content, so the first byte of the content decides.
        _ => rest.u8(0)?,
    };
    if matches!(first, 0x45..=0x4f | 0x60..=0x6f | 0x81..=0x83) {
        p.out.push_str(if p.is_verbose() { "\n\t" } else { " " });
    }
    p.deeper(|p| match first {
        0x45..=0x4f => ip(p, rest),
        0x60..=0x6f => ip6(p, rest),
        0x81..=0x83 => crate::local::osi(p, rest),
        _ => p.unknown_of(rest, rest.len),
    })
}
