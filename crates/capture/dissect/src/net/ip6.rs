//! IPv6: the header (RFC 8200), and the walk through extension headers to the payload.
//!
//! Called by: `link`, tunnels. `ip6_extensions` prints extension headers, `demux` the payload.

use core::net::IpAddr;

use super::carrier::Carrier;
use super::demux;
use super::ip::has_ports;
use super::ip6_extensions::{self as extensions, Jumbo};
use crate::data::{Cut, Data, Done};
use crate::names::IP_PROTOCOLS;
use crate::print::{Printer, put};
use crate::text::name;

const HEADER_LEN: usize = 40;

pub(crate) fn print(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "ip6";
    let Ok(header) = data.get(0, HEADER_LEN) else {
        p.cut();
        return Ok(());
    };
    if data.len < HEADER_LEN {
        put!(p, "truncated-ip6 {}", data.len);
        return Ok(());
    }
    if !p.style.link {
        p.out.push_str("IP6 ");
    }
    let version = header[0] >> 4;
    if version != 6 {
        put!(p, "version error: {version} != 6");
        return Ok(());
    }
    let payload_len = usize::from(data.u16(4)?);
    let mut len = data.len + HEADER_LEN;
    if payload_len != 0 {
        len = payload_len + HEADER_LEN;
        if data.len < len {
            put!(p, "truncated-ip6 - {} bytes missing!", len - data.len);
        }
    }
    let next = data.u8(6)?;
    if p.is_verbose() {
        verbose(p, data, next, payload_len)?;
    }
    walk(p, data, next, (payload_len, len))
}

fn verbose(p: &mut Printer, data: Data<'_>, next: u8, payload_len: usize) -> Done {
    let word = data.u32(0)?;
    p.out.push('(');
    let (class, label) = (word >> 20 & 0xff, word & 0xf_ffff);
    if class != 0 {
        put!(p, "class 0x{class:02x}, ");
    }
    if label != 0 {
        put!(p, "flowlabel 0x{label:05x}, ");
    }
    let next_name = name(IP_PROTOCOLS, next, "unknown");
    put!(p, "hlim {}, next-header {next_name} ({next}) ", data.u8(7)?);
    put!(p, "payload length: {payload_len}) ");
    Ok(())
}

/// Print the headers one after the other, then the payload. `len` is the length of the packet, its
/// IPv6 header included.
fn walk(p: &mut Printer, data: Data<'_>, first: u8, (payload_len, len): (usize, usize)) -> Done {
    let (src, dst) = (data.v6(8)?, data.v6(24)?);
    let packet = data.within(len);
    let mut jumbo = Jumbo { payload_len, is_found: false };
    let (mut next, mut before) = (first, None);
    let (mut at, mut is_fragment) = (HEADER_LEN, false);
    let mut previous = 0;
    // As in tcpdump, a header beyond the end of the packet is visited too, so that it is printed as
    // cut off.
    while previous < packet.here() {
        if len < at {
            p.cut();
            return Ok(());
        }
        if at == HEADER_LEN && !has_ports(next) {
            put!(p, "{src} > {dst}: ");
        }
        let header = packet.skip(at);
        let advance = match next {
            0 => {
                if let Some(wrong) = extensions::misplaced(before) {
                    p.out.push_str(wrong);
                    p.invalid();
                    return Ok(());
                }
                let advance = extensions::hop_by_hop(p, header, &mut jumbo)?;
                if jumbo.payload_len == 0 && !jumbo.is_found {
                    p.out.push_str("[No valid Jumbo Payload Hop-by-Hop option found]");
                    p.invalid();
                    return Ok(());
                }
                advance
            }
            60 => extensions::destination(p, header)?,
            44 => {
                is_fragment = true;
                let left = (payload_len + HEADER_LEN).wrapping_sub(at + 8);
                extensions::fragment(p, header, left)?.filter(|len| at + len < packet.here())
            }
            43 => {
                p.protocol = "ip6";
                if header.here() < 1 {
                    p.cut();
                    return Ok(());
                }
                extensions::routing(p, header)?
            }
            _ => {
                let carrier = Carrier {
                    src: IpAddr::V6(src.0),
                    dst: IpAddr::V6(dst.0),
                    last: IpAddr::V6(extensions::last_hop(packet, first).unwrap_or(dst.0)),
                    protocol: first,
                    is_fragment,
                    hops: data.u8(7)?,
                };
                let Some(payload) = payload(p, data, at, len, jumbo, before.is_some())? else {
                    return Ok(());
                };
                return p.deeper(|p| demux(p, next, payload, &carrier));
            }
        };
        let Some(advance) = advance else { return Ok(()) };
        before = Some(next);
        next = header.u8(0)?;
        previous = at;
        at += advance;
        p.protocol = "ip6";
    }
    Ok(())
}

/// The payload, with the length that the headers give. `None` if the lengths are inconsistent.
fn payload<'a>(
    p: &mut Printer,
    data: Data<'a>,
    at: usize,
    len: usize,
    jumbo: Jumbo,
    has_extensions: bool,
) -> Result<Option<Data<'a>>, Cut> {
    let mut total = len;
    if jumbo.is_found {
        total = jumbo.payload_len + HEADER_LEN;
        if total < at {
            p.cut();
            return Ok(None);
        }
        if data.len < total {
            put!(p, "truncated-ip6 - {} bytes missing!", total - data.len);
        }
    } else if jumbo.payload_len == 0 {
        // A payload length of 0 is inconsistent with extension headers.
        if has_extensions {
            p.cut();
            return Ok(None);
        }
        total = HEADER_LEN;
    }
    Ok(Some(data.within(total).skip(at)))
}
