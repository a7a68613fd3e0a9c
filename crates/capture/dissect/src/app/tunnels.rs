//! Tunnels over UDP: VXLAN (RFC 7348), OTV, VXLAN-GPE, Geneve (RFC 8926), ESP (RFC 3948).
//!
//! Called by: `app`.

use super::isakmp;
use crate::data::{Cut, Data, Done};
use crate::link;
use crate::names::ethertype_name;
use crate::net;
use crate::net::carrier::Carrier;
use crate::print::{Printer, put};
use crate::text::{Names, bits};

const HEADER_LEN: usize = 8;

const GENEVE_FLAGS: Names = &[
    (0x80, "O"),
    (0x40, "C"),
    (0x20, "R1"),
    (0x10, "R2"),
    (0x08, "R3"),
    (0x04, "R4"),
    (0x02, "R5"),
    (0x01, "R6"),
];

/// Print VXLAN; the inner frame is printed on a line of its own.
pub(super) fn vxlan(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "vxlan";
    p.out.push_str("VXLAN");
    if data.len < HEADER_LEN {
        p.invalid();
        return Ok(());
    }
    let flags = data.u8(0)?;
    put!(p, ", flags [{}] (0x{flags:02x}), ", bits(&[(0x08, "I")], flags, "", "invalid"));
    put!(p, "vni {}\n", data.u24(4)?);
    data.u8(7)?;
    p.deeper(|p| link::ethernet(p, data.skip(HEADER_LEN))).map(drop)
}

/// Print OTV, which carries Ethernet between the sites of one network, with a header like VXLAN's.
pub(super) fn otv(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "otv";
    p.out.push_str("OTV, ");
    if data.len < HEADER_LEN {
        put!(p, "[length {} < {HEADER_LEN}]", data.len);
        p.invalid();
        return if data.here() < data.len { Err(Cut) } else { Ok(()) };
    }
    let flags = data.u8(0)?;
    put!(p, "flags [{}] (0x{flags:02x}), ", if flags & 8 != 0 { "I" } else { "." });
    put!(p, "overlay {}, instance {}\n", data.u24(1)?, data.u24(4)?);
    data.u8(7)?;
    p.deeper(|p| link::ethernet(p, data.skip(HEADER_LEN))).map(drop)
}

/// Print VXLAN-GPE, which is like VXLAN, but for any inner protocol.
pub(super) fn vxlan_gpe(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "vxlan_gpe";
    p.out.push_str("VXLAN-GPE, ");
    if data.len < HEADER_LEN {
        put!(p, " (len {} < {HEADER_LEN})", data.len);
        p.invalid();
        return Ok(());
    }
    let letters: Names = &[(0x08, "I"), (0x04, "P"), (0x01, "O")];
    put!(p, "flags [{}], ", bits(letters, data.u8(0)?, "", "none"));
    let (next, id) = (data.u8(3)?, data.u24(4)?);
    data.u8(7)?;
    put!(p, "vni {id}");
    p.out.push_str(if p.is_verbose() { "\n    " } else { ": " });
    let rest = data.skip(HEADER_LEN);
    p.deeper(|p| match next {
        1 => net::ip(p, rest),
        2 => net::ip6(p, rest),
        3 => link::ethernet(p, rest).map(drop),
        _ => {
            p.out.push_str("ERROR: unknown-next-protocol");
            p.invalid();
            Ok(())
        }
    })
}

pub(super) fn geneve(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "geneve";
    p.out.push_str("Geneve");
    if data.len < HEADER_LEN {
        put!(p, " [length {} < 8]", data.len);
        p.invalid();
        return Ok(());
    }
    if !data.has(0, HEADER_LEN) {
        p.cut();
        return Ok(());
    }
    let (first, flags, kind) = (data.u8(0)?, data.u8(1)?, data.u16(2)?);
    if first >> 6 != 0 {
        put!(p, " ERROR: unknown-version {}", first >> 6);
        return Ok(());
    }
    put!(p, ", Flags [{}]", bits(GENEVE_FLAGS, flags, "", "none"));
    put!(p, ", vni 0x{:x}", data.u24(4)?);
    if data.u8(7)? != 0 {
        put!(p, ", rsvd 0x{:x}", data.u8(7)?);
    }
    if p.style.link {
        put!(p, ", proto {} (0x{kind:04x})", ethertype_name(kind, "unknown"));
    }
    let options = usize::from(first & 0x3f) * 4;
    let rest = data.skip(HEADER_LEN);
    if rest.len < options {
        put!(p, " truncated-geneve - {} bytes missing", options - rest.len);
        return Ok(());
    }
    if !rest.has(0, options) {
        p.cut();
        return Ok(());
    }
    if options > 0 {
        put!(p, ", options [{options} bytes]");
    }
    p.out.push_str(if p.is_verbose() { "\n\t" } else { ": " });
    let inner = rest.skip(options);
    p.deeper(|p| {
        if link::ethertype(p, kind, inner, None)? {
            return Ok(());
        }
        if kind == 0x6558 {
            return link::ethernet(p, inner).map(drop);
        }
        put!(p, "geneve-proto-0x{kind:x}");
        Ok(())
    })
}

/// Print ESP, IKE, or the single byte that keeps a NAT entry alive.
pub(super) fn esp(p: &mut Printer, data: Data<'_>, carrier: &Carrier) -> Done {
    p.protocol = "isakmp_rfc3948";
    if data.len < 1 {
        p.cut();
        return Ok(());
    }
    if data.len == 1 && data.u8(0)? == 0xff {
        p.out.push_str("isakmp-nat-keep-alive");
        return Ok(());
    }
    if data.len < 4 {
        p.cut();
        return Ok(());
    }
    if data.get(0, 4)? == [0; 4] {
        p.out.push_str("NONESP-encap: ");
        return isakmp::print(p, data.skip(4), carrier);
    }
    p.out.push_str("UDP-encap: ");
    net::esp(p, data)
}
