//! IKE, both versions: the kind of exchange, and its initiator (RFC 2408, 7296).
//!
//! Called by: `app`, `tunnels`. The payloads are not printed.

use crate::data::{Data, Done};
use crate::net::carrier::Carrier;
use crate::print::{Printer, put};
use crate::text::{Names, name};

const HEADER_LEN: usize = 28;

const EXCHANGES: Names = &[
    (0, "none"),
    (1, "base"),
    (2, "ident"),
    (3, "auth"),
    (4, "agg"),
    (5, "inf"),
    (32, "oakley-quick"),
    (33, "oakley-newgroup"),
    (34, "ikev2_init"),
    (35, "ikev2_auth"),
    (36, "child_sa"),
    (37, "inf2"),
];

pub(super) fn print(p: &mut Printer, data: Data<'_>, carrier: &Carrier) -> Done {
    p.protocol = "isakmp";
    if !data.has(0, HEADER_LEN) {
        p.cut();
        return Ok(());
    }
    let (version, exchange, flags) = (data.u8(17)?, data.u8(18)?, data.u8(19)?);
    p.out.push_str("isakmp");
    if p.is_verbose() {
        put!(p, " {}.{} msgid {:08x}", version >> 4, version & 15, data.u32(20)?);
    }
    if p.style.verbose > 1 {
        put!(p, " cookie {:016x}->{:016x}", data.u64(0)?, data.u64(8)?);
    }
    p.out.push(':');
    let is_first = data.u32(20)? == 0;
    let letters = |known: &[(u8, char)]| -> String {
        known.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, letter)| *letter).collect()
    };
    match version >> 4 {
        1 => {
            p.out.push_str(if is_first { " phase 1" } else { " phase 2/others" });
            let cookies = (data.u64(0)?, data.u64(8)?);
            let role = p.initiators.role(cookies, carrier.src, carrier.dst);
            put!(p, "{role} {}", name(EXCHANGES, exchange, "#{}"));
            if flags != 0 {
                put!(p, "[{}]", letters(&[(1, 'E'), (2, 'C')]));
            }
        }
        2 => {
            p.out.push_str(if is_first { " parent_sa" } else { " child_sa " });
            put!(p, " {}", name(EXCHANGES, exchange, "#{}"));
            if flags != 0 {
                put!(p, "[{}]", letters(&[(0x08, 'I'), (0x10, 'V'), (0x20, 'R')]));
            }
        }
        _ => {}
    }
    if p.is_verbose() {
        p.out.push(':');
        let len = data.u32(24)?;
        if usize::try_from(len) != Ok(data.len) {
            put!(p, " (len mismatch: isakmp {len}/ip {})", data.len);
        }
    }
    Ok(())
}
