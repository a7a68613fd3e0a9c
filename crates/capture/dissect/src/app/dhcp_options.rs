//! The options of DHCP (RFC 2132 and later RFCs), printed with `-v`.
//!
//! Called by: `dhcp`. The names are those of tcpdump, which are from bootptab. An unknown option is
//! printed as bytes, or as numbers of 16 or 32 bits, as its length allows.

use crate::data::{Cut, Data, Done};
use crate::hex;
use crate::print::{Printer, put};
use crate::text::{Names, name};

/// How the value of an option is printed.
#[derive(Clone, Copy)]
enum As {
    Text,
    Addresses,
    /// Pairs of addresses, each pair in parentheses.
    Pairs,
    Words,
    Signed,
    Shorts,
    Bytes,
    Bool,
    /// The option has a function of its own.
    Own(fn(&mut Printer, Data<'_>) -> Done),
}
use As::{Addresses, Bool, Bytes, Own, Pairs, Shorts, Signed, Text, Words};

const MESSAGE_TYPE: u8 = 53;
const PARAMETER_REQUEST: u8 = 55;
const PAD: u8 = 0;
const END: u8 = 255;

#[rustfmt::skip]
const OPTIONS: &[(u8, &str, As)] = &[
    (1, "Subnet-Mask", Addresses), (2, "Time-Zone", Signed), (3, "Default-Gateway", Addresses),
    (4, "Time-Server", Addresses), (5, "IEN-Name-Server", Addresses),
    (6, "Domain-Name-Server", Addresses), (7, "LOG", Addresses), (8, "CS", Addresses),
    (9, "LPR-Server", Addresses), (10, "IM", Addresses), (11, "RL", Addresses),
    (12, "Hostname", Text), (13, "BS", Shorts), (14, "DP", Text), (15, "Domain-Name", Text),
    (16, "SS", Addresses), (17, "RP", Text), (18, "EP", Text), (19, "IPF", Bool),
    (20, "SRT", Bool), (21, "PF", Pairs), (22, "RSZ", Shorts), (23, "TTL", Bytes),
    (24, "MTU-Timeout", Words), (25, "MTU-Table", Shorts), (26, "MTU", Shorts), (27, "LSN", Bool),
    (28, "BR", Addresses), (29, "MD", Bool), (30, "MS", Bool), (31, "Router-Discovery", Bool),
    (32, "RSA", Addresses), (33, "Static-Route", Pairs), (34, "UT", Bool), (35, "AT", Words),
    (36, "IE", Bool), (37, "TT", Bytes), (38, "KI", Words), (39, "KG", Bool), (40, "YD", Text),
    (41, "YS", Addresses), (42, "NTP", Addresses), (43, "Vendor-Option", Bytes),
    (44, "Netbios-Name-Server", Addresses), (45, "WDD", Addresses),
    (46, "Netbios-Node", Own(netbios_node)), (47, "Netbios-Scope", Text), (48, "XFS", Addresses),
    (49, "XDM", Addresses), (50, "Requested-IP", Addresses), (51, "Lease-Time", Words),
    (52, "OO", Own(overload)), (MESSAGE_TYPE, "DHCP-Message", Bytes), (54, "Server-ID", Addresses),
    (PARAMETER_REQUEST, "Parameter-Request", Bytes), (56, "MSG", Text), (57, "MSZ", Shorts),
    (58, "RN", Words), (59, "RB", Words), (60, "Vendor-Class", Text),
    (61, "Client-ID", Own(client_id)), (64, "N+D", Shorts), (65, "N+S", Addresses),
    (66, "TFTP", Text), (67, "BF", Text), (68, "MH", Addresses), (69, "SMTP", Addresses),
    (70, "POP3", Addresses), (71, "NNTP", Addresses), (72, "WWW", Addresses),
    (73, "FG", Addresses), (74, "IRC", Addresses), (75, "STS", Addresses), (76, "STDA", Addresses),
    (77, "User-Class", Own(user_class)), (78, "SLP-DA", Bytes), (79, "SLP-SCOPE", Bytes),
    (80, "SLP-NA", Text), (81, "FQDN", Own(fqdn)), (82, "Agent-Information", Own(relay_agent)),
    (83, "ARMT", Bytes), (88, "TZSTR", Text), (89, "FQDNS", Bytes), (90, "AUTH", Bytes),
    (91, "Last-Transaction-Time", Words), (92, "Associated-IP", Addresses), (93, "ARCH", Shorts),
    (94, "NDI", Bytes), (95, "LDAP", Text), (97, "GUID", Bytes), (98, "UAP", Text),
    (100, "POSIX-TZ", Text), (101, "TZ-Name", Text), (108, "IPv6-Only-Preferred", Words),
    (112, "NI", Addresses), (113, "NITAG", Text), (114, "URL", Text), (116, "Auto-Configure", Bool),
    (117, "NSSEARCH", Shorts), (118, "SUBNET", Addresses),
    (121, "Classless-Static-Route", Own(routes)), (143, "SZTP-Redirect", Own(redirects)),
    (150, "TFTP-Server-Address", Addresses), (161, "MUD-URL", Text),
    (249, "Classless-Static-Route-Microsoft", Own(routes)), (PAD, "PAD", Bytes),
    (END, "END", Bytes),
];

const MESSAGES: Names = &[
    (1, "Discover"),
    (2, "Offer"),
    (3, "Request"),
    (4, "Decline"),
    (5, "ACK"),
    (6, "NACK"),
    (7, "Release"),
    (8, "Inform"),
    (10, "LeaseQuery"),
    (11, "LeaseUnassigned"),
    (12, "LeaseUnknown"),
    (13, "LeaseActive"),
];

/// Print all options, from the magic cookie to the end.
pub(super) fn print(p: &mut Printer, data: Data<'_>) -> Done {
    let mut rest = data;
    while let Ok(code) = rest.u8(0) {
        rest = rest.skip(1);
        match code {
            PAD | END if p.style.verbose > 2 => {
                put!(p, "\n\t    {} ({code}), length 0", find(code).0);
                let more = rest.bytes.iter().take_while(|next| **next == PAD).count();
                if code == PAD && more > 0 {
                    put!(p, ", occurs {}", more + 1);
                    rest = rest.skip(more);
                }
                continue;
            }
            PAD => continue,
            END => break,
            _ => {}
        }
        let len = usize::from(rest.u8(0)?);
        let (what, shape) = find(code);
        let colon = if len > 0 { ": " } else { "" };
        put!(p, "\n\t    {what} ({code}), length {len}{colon}");
        rest = rest.skip(1);
        rest.get(0, len)?;
        option(p, code, shape, rest.within(len))?;
        rest = rest.skip(len);
    }
    Ok(())
}

fn find(code: u8) -> (&'static str, Option<As>) {
    let known = OPTIONS.iter().find(|(known, ..)| *known == code);
    known.map_or(("Unknown", None), |(_, what, shape)| (*what, Some(*shape)))
}

fn option(p: &mut Printer, code: u8, shape: Option<As>, value: Data<'_>) -> Done {
    let unknown = match value.len % 4 {
        0 => Words,
        2 => Shorts,
        _ => Bytes,
    };
    match shape.unwrap_or(unknown) {
        _ if code == MESSAGE_TYPE && value.len == 1 => {
            p.out.push_str(&name(MESSAGES, value.u8(0)?, "Unknown ({})"));
        }
        _ if code == PARAMETER_REQUEST => {
            for (at, code) in value.bytes.iter().enumerate() {
                let between = if at % 4 == 0 { "\n\t      " } else { ", " };
                put!(p, "{between}{} ({code})", find(*code).0);
            }
        }
        Text => quoted(p, value.bytes),
        Addresses => list(p, value, 4, |at| Ok(value.v4(at)?.to_string()))?,
        Words => list(p, value, 4, |at| Ok(value.u32(at)?.to_string()))?,
        Signed => list(p, value, 4, |at| Ok((value.u32(at)? as i32).to_string()))?,
        Shorts => list(p, value, 2, |at| Ok(value.u16(at)?.to_string()))?,
        Pairs if value.len == 0 || !value.len.is_multiple_of(8) => {
            p.out.push_str(if value.len == 0 { " " } else { "" });
            p.out.push_str("[length != N x 8 bytes]");
        }
        Pairs => {
            list(p, value, 8, |at| Ok(format!("({}:{})", value.v4(at)?, value.v4(at + 4)?)))?;
        }
        Bool if value.len != 1 => wrong_length(p, "!= 1 byte"),
        Bool => match value.u8(0)? {
            0 => p.out.push('N'),
            1 => p.out.push('Y'),
            other => put!(p, "{other}?"),
        },
        Bytes => {
            let text: Vec<String> = value.bytes.iter().map(u8::to_string).collect();
            p.out.push_str(&text.join("."));
        }
        Own(print) => print(p, value)?,
    }
    Ok(())
}

/// Print values of `size` bytes, with commas between them, and how many bytes are left over.
fn list(
    p: &mut Printer,
    value: Data<'_>,
    size: usize,
    one: impl Fn(usize) -> Result<String, Cut>,
) -> Done {
    for at in 0..value.len / size {
        p.out.push_str(if at > 0 { "," } else { "" });
        p.out.push_str(&one(at * size)?);
    }
    left_over(p, value.len % size);
    Ok(())
}

fn left_over(p: &mut Printer, len: usize) {
    if len > 0 {
        put!(p, "\n\t  trailing data length {len}");
    }
}

fn wrong_length(p: &mut Printer, how: &str) {
    put!(p, "[length {how}]");
    p.invalid();
}

fn quoted(p: &mut Printer, bytes: &[u8]) {
    p.out.push('"');
    p.chars(bytes);
    p.out.push('"');
}

fn netbios_node(p: &mut Printer, value: Data<'_>) -> Done {
    const NODES: Names = &[(1, "b-node"), (2, "p-node"), (4, "m-node"), (8, "h-node")];
    one_of(p, value, NODES)
}

/// Print which fields of the header hold options (RFC 2132 section 9.3).
fn overload(p: &mut Printer, value: Data<'_>) -> Done {
    one_of(p, value, &[(1, "file"), (2, "sname"), (3, "file+sname")])
}

fn one_of(p: &mut Printer, value: Data<'_>, names: Names) -> Done {
    if value.len < 1 {
        wrong_length(p, "< 1 byte");
        return Ok(());
    }
    p.out.push_str(&name(names, value.u8(0)?, "#{}"));
    left_over(p, value.len - 1);
    Ok(())
}

/// Print a hardware type and address, or an identifier of type 0 (RFC 2132 section 9.14).
fn client_id(p: &mut Printer, value: Data<'_>) -> Done {
    const HARDWARE: Names = &[
        (1, "ether"),
        (6, "ieee802"),
        (7, "arcnet"),
        (15, "frelay"),
        (23, "strip"),
        (24, "ieee1394"),
    ];
    if value.len < 1 {
        wrong_length(p, "< 1 byte");
        return Ok(());
    }
    match value.u8(0)? {
        0 => quoted(p, &value.bytes[1..]),
        kind => {
            put!(p, "{} ", name(HARDWARE, kind, "hardware-type {},"));
            if value.len > 1 {
                put!(p, "{}", value.hardware(1, value.len - 1)?);
            }
        }
    }
    Ok(())
}

/// Print the client's name, and who registers it in the DNS (RFC 4702).
fn fqdn(p: &mut Printer, value: Data<'_>) -> Done {
    if value.len < 3 {
        wrong_length(p, "< 3 bytes");
        return Ok(());
    }
    let flags = value.u8(0)?;
    if flags & 0xf0 != 0 {
        put!(p, "[MBZ nibble 0x{:x} != 0] ", flags >> 4);
        p.invalid();
    }
    if flags & 0x0f != 0 {
        let set = [(1, 'S'), (2, 'O'), (4, 'E'), (8, 'N')];
        let set: String = set.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, c)| c).collect();
        put!(p, "[{set}] ");
    }
    if value.u16(1)? != 0 {
        put!(p, "{}/{} ", value.u8(1)?, value.u8(2)?);
    }
    quoted(p, &value.bytes[3..]);
    Ok(())
}

/// Print how a relay identifies the circuit and the client (RFC 3046).
fn relay_agent(p: &mut Printer, value: Data<'_>) -> Done {
    const SUBOPTIONS: Names = &[(1, "Circuit-ID"), (2, "Remote-ID"), (6, "Subscriber-ID")];
    let mut rest = value;
    while rest.len >= 2 {
        let (kind, len) = (rest.u8(0)?, usize::from(rest.u8(1)?));
        rest = rest.skip(2);
        let what = name(SUBOPTIONS, kind, "Unknown");
        put!(p, "\n\t      {what} SubOption {kind}, length {len}: ");
        if len > rest.len {
            p.out.push_str("length goes past end of option");
            return Ok(());
        }
        match kind {
            1 | 2 | 6 => p.chars(rest.get(0, len)?),
            _ => hex::only_indented(&mut p.out, "\n\t\t", rest.get(0, len)?),
        }
        rest = rest.skip(len);
    }
    left_over(p, rest.len);
    Ok(())
}

/// Print prefixes, which are encoded without their trailing zeros, each with a router (RFC 3442).
fn routes(p: &mut Printer, value: Data<'_>) -> Done {
    if value.len < 5 {
        wrong_length(p, "< 5 bytes");
        return Ok(());
    }
    let mut rest = value;
    while rest.len > 0 {
        p.out.push_str(if rest.len < value.len { "," } else { "" });
        let width = rest.u8(0)?;
        rest = rest.skip(1);
        let bytes = usize::from(width).div_ceil(8);
        if width > 32 {
            put!(p, "[Mask width ({width}) > 32]");
            p.invalid();
            return Ok(());
        }
        if rest.len < bytes + 4 {
            put!(p, "[Remaining length ({}) < {} bytes]", rest.len, bytes + 4);
            p.invalid();
            return Ok(());
        }
        let mut prefix = [0; 4];
        prefix[..bytes].copy_from_slice(rest.get(0, bytes)?);
        match width {
            0 => p.out.push_str("(default"),
            _ => put!(p, "({}/{width}", core::net::Ipv4Addr::from(prefix)),
        }
        put!(p, ":{})", rest.v4(bytes)?);
        rest = rest.skip(bytes + 4);
    }
    Ok(())
}

/// Print the user classes that the client names (RFC 3004).
fn user_class(p: &mut Printer, value: Data<'_>) -> Done {
    if value.len < 2 {
        wrong_length(p, "< 2 bytes");
        return Ok(());
    }
    let (mut rest, mut number) = (value, 1);
    while rest.len > 0 {
        let len = usize::from(rest.u8(0)?);
        rest = rest.skip(1);
        put!(p, "\n\t      instance#{number}: ");
        if len == 0 || len > rest.len {
            match len {
                0 => p.out.push_str("[suboption length == 0]"),
                _ => put!(p, "[length {} < suboption length {len}", rest.len),
            }
            p.invalid();
            return Ok(());
        }
        quoted(p, rest.get(0, len)?);
        put!(p, ", length {len}");
        (rest, number) = (rest.skip(len), number + 1);
    }
    Ok(())
}

/// Print the servers from which a new machine gets its configuration (RFC 8572 section 8.3).
fn redirects(p: &mut Printer, value: Data<'_>) -> Done {
    let mut rest = value;
    while rest.len >= 2 {
        let len = usize::from(rest.u16(0)?);
        rest = rest.skip(2);
        put!(p, "\n\t            length {len}: ");
        if len > rest.len {
            p.out.push_str("length goes past end of option");
            return Ok(());
        }
        quoted(p, rest.get(0, len)?);
        rest = rest.skip(len);
    }
    if rest.len > 0 {
        wrong_length(p, "< 2 bytes");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
