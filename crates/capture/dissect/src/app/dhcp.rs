//! BOOTP and DHCP (RFC 951, 2131, 2132), and the message types of DHCPv6 (RFC 8415).
//!
//! Called by: `app`. `-v` prints the fields of the header and the options. For DHCPv6 only the kind
//! of message and its transaction ID are printed.

use super::dhcp_options;
use crate::data::{Data, Done};
use crate::print::{Printer, put};
use crate::text::{Names, bits, name};

const OPERATIONS: Names = &[(1, "Request"), (2, "Reply")];

const FLAGS: Names = &[(0x8000, "Broadcast")];

const COOKIE: u32 = 0x6382_5363;

pub(super) fn print(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "bootp";
    let operation = data.u8(0)?;
    put!(p, "BOOTP/DHCP, {}", name(OPERATIONS, operation, "unknown (0x{02x})"));
    let (kind, len) = (data.u8(1)?, data.u8(2)?);
    if (kind, len, operation) == (1, 6, 1) {
        put!(p, " from {}", data.mac(28)?);
    }
    put!(p, ", length {}", data.len);
    if !p.is_verbose() {
        return Ok(());
    }
    if !data.has(8, 2) {
        p.cut();
        return Ok(());
    }
    if kind != 1 {
        put!(p, ", htype {kind}");
    }
    if (kind, len) != (1, 6) {
        put!(p, ", hlen {len}");
    }
    let (hops, id, seconds, flags) = (data.u8(3)?, data.u32(4)?, data.u16(8)?, data.u16(10)?);
    if hops != 0 {
        put!(p, ", hops {hops}");
    }
    if id != 0 {
        put!(p, ", xid 0x{id:x}");
    }
    if seconds != 0 {
        put!(p, ", secs {seconds}");
    }
    put!(p, ", Flags [{}]", bits(FLAGS, flags, ", ", "none"));
    if p.style.verbose > 1 {
        put!(p, " (0x{flags:04x})");
    }
    for (at, what) in [(12, "Client"), (16, "Your"), (20, "Server"), (24, "Gateway")] {
        if data.u32(at)? != 0 {
            put!(p, "\n\t  {what}-IP {}", data.v4(at)?);
        }
    }
    if (kind, len) == (1, 6) {
        put!(p, "\n\t  Client-Ethernet-Address {}", data.mac(28)?);
    }
    for (at, len, what) in [(44, 64, "sname"), (108, 128, "file")] {
        if data.u8(at)? != 0 {
            put!(p, "\n\t  {what} \"");
            let end = p.chars_to_zero(data.bytes.get(at..).unwrap_or_default(), len);
            p.out.push('"');
            if end == 0 {
                p.cut();
                return Ok(());
            }
        }
    }
    options(p, data)
}

fn options(p: &mut Printer, data: Data<'_>) -> Done {
    if !data.has(236, 4) {
        p.cut();
        return Ok(());
    }
    let cookie = data.u32(236)?;
    if cookie != COOKIE {
        if cookie != 0 {
            put!(p, "\n\t  Vendor-#0x{cookie:x}");
        }
        return Ok(());
    }
    put!(p, "\n\t  Vendor-rfc1048 Extensions\n\t    Magic Cookie 0x{cookie:08x}");
    dhcp_options::print(p, data.skip(240))
}

const MESSAGES_6: Names = &[
    (1, "solicit"),
    (2, "advertise"),
    (3, "request"),
    (4, "confirm"),
    (5, "renew"),
    (6, "rebind"),
    (7, "reply"),
    (8, "release"),
    (9, "decline"),
    (10, "reconf"),
    (11, "inf-req"),
    (12, "relay-fwd"),
    (13, "relay-reply"),
    (14, "lease-query"),
    (15, "lease-query-reply"),
    (16, "lease-query-done"),
    (17, "lease-query-data"),
    (18, "reconf-req"),
    (19, "reconf-reply"),
    (20, "v4-query"),
    (21, "v4-resp"),
];

pub(super) fn version_6(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "dhcp6";
    p.out.push_str("dhcp6");
    if data.here() < 4 {
        p.cut();
        return Ok(());
    }
    let kind = data.u8(0)?;
    put!(p, " {}", name(MESSAGES_6, kind, "msgtype-{}"));
    if !p.is_verbose() {
        return Ok(());
    }
    match kind {
        12 | 13 => put!(p, " (linkaddr={} peeraddr={}", data.v6(2)?, data.v6(18)?),
        _ => put!(p, " (xid={:x}", data.u24(1)?),
    }
    p.out.push(')');
    Ok(())
}
