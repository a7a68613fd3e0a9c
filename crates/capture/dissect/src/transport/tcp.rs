//! TCP segments: flags, numbers, and the payload (RFC 9293).
//!
//! Called by: `net::demux`. `tcp_options` prints options, `app` the payload by port.

use std::net::SocketAddr;

use super::tcp_options::{Bases, Options};
use super::{ends, tcp_options};
use crate::app;
use crate::data::{Cut, Data, Done};
use crate::net::carrier::Carrier;
use crate::print::{Printer, put};

const PROTOCOL: u8 = 6;
const HEADER_LEN: usize = 20;
const CHECKSUM_AT: usize = 16;

pub(super) const FIN: u8 = 0x01;
pub(super) const SYN: u8 = 0x02;
pub(super) const RST: u8 = 0x04;
pub(super) const ACK: u8 = 0x10;
const URG: u8 = 0x20;

/// The letters of the control bits, in the order in which tcpdump prints them.
const LETTERS: [(u8, char); 8] = [
    (FIN, 'F'),
    (SYN, 'S'),
    (RST, 'R'),
    (0x08, 'P'),
    (ACK, '.'),
    (URG, 'U'),
    (0x40, 'E'),
    (0x80, 'W'),
];

/// Maximum number of bytes of a reset's text that are printed.
const RESET_BYTES_MAX: usize = 30;

pub(crate) fn print(p: &mut Printer, data: Data<'_>, carrier: &Carrier) -> Done {
    p.protocol = "tcp";
    let Ok(dst_port) = data.u16(2) else {
        let (from, to) = carrier.ends();
        put!(p, "{from} > {to}:");
        p.cut();
        return Ok(());
    };
    let src_port = data.u16(0)?;
    ends(p, carrier, PROTOCOL, Some((src_port, dst_port)));
    if !data.has(0, HEADER_LEN) {
        p.cut();
        return Ok(());
    }
    let header_len = usize::from(data.u8(12)? >> 4) * 4;
    let len = data.len.wrapping_sub(header_len) as u32;
    if header_len < HEADER_LEN {
        put!(p, " tcp {len} [bad hdr length {header_len} - too short, < {HEADER_LEN}]");
        return Ok(());
    }
    if p.style.quiet {
        put!(p, "tcp {len}");
        if header_len > data.len {
            put!(p, " [bad hdr length {header_len} - too long, > {}]", data.len);
        }
        return Ok(());
    }
    let flags = data.u8(13)?;
    put!(p, "Flags [{}]", letters(flags));
    let bases = bases(p, data, carrier, (src_port, dst_port), flags)?;
    if header_len > data.len {
        put!(p, " [bad hdr length {header_len} - too long, > {}]", data.len);
        return Ok(());
    }
    if p.is_verbose() && !p.style.trusting && !carrier.is_fragment {
        checksum(p, data, carrier);
    }
    numbers(p, data, flags, len, bases)?;
    if header_len > HEADER_LEN {
        p.out.push_str(", options [");
        let options = data.skip(HEADER_LEN);
        let segment = Options { data: options, len: header_len - HEADER_LEN, flags };
        if !tcp_options::print(p, &segment, data, bases)? {
            return Ok(());
        }
        p.out.push(']');
    }
    put!(p, ", length {len}");
    if len == 0 {
        return Ok(());
    }
    if !data.has(0, header_len) {
        let here = data.here();
        put!(p, " [remaining caplen({here}) < header length({header_len})]");
        return Err(Cut);
    }
    let payload = data.skip(header_len);
    if flags & RST != 0 && p.is_verbose() {
        reset_text(p, payload);
        return Ok(());
    }
    app::over_tcp(p, payload, (src_port, dst_port))
}

fn letters(flags: u8) -> String {
    let set: String =
        LETTERS.iter().filter(|(flag, _)| flags & flag != 0).map(|(_, letter)| *letter).collect();
    if set.is_empty() { "none".to_owned() } else { set }
}

/// The bases for relative numbers. As in tcpdump, a segment without ACK has no bases, and does not
/// begin a flow.
fn bases(
    p: &mut Printer,
    data: Data<'_>,
    carrier: &Carrier,
    (src_port, dst_port): (u16, u16),
    flags: u8,
) -> Result<Bases, Cut> {
    if p.style.absolute || flags & ACK == 0 {
        return Ok(Bases::default());
    }
    let ends = (SocketAddr::new(carrier.src, src_port), SocketAddr::new(carrier.dst, dst_port));
    let numbers = (data.u32(4)?, data.u32(8)?);
    let (base, sack) = p.flows.base(ends, numbers, flags & SYN != 0);
    Ok(Bases { seq: base.seq, ack: base.ack, sack })
}

fn checksum(p: &mut Printer, data: Data<'_>, carrier: &Carrier) {
    if let Some(sum) = carrier.checksum(PROTOCOL, data, CHECKSUM_AT) {
        put!(p, ", cksum 0x{:04x}", sum.has);
        match sum.is_right {
            true => p.out.push_str(" (correct)"),
            false => put!(p, " (incorrect -> 0x{:04x})", sum.ought),
        }
    }
}

fn numbers(p: &mut Printer, data: Data<'_>, flags: u8, len: u32, bases: Bases) -> Done {
    let seq = data.u32(4)?.wrapping_sub(bases.seq);
    if p.style.verbose > 1 || len > 0 || flags & (SYN | FIN | RST) != 0 {
        put!(p, ", seq {seq}");
        if len > 0 {
            put!(p, ":{}", seq.wrapping_add(len));
        }
    }
    if flags & ACK != 0 {
        put!(p, ", ack {}", data.u32(8)?.wrapping_sub(bases.ack));
    }
    put!(p, ", win {}", data.u16(14)?);
    if flags & URG != 0 {
        put!(p, ", urg {}", data.u16(18)?);
    }
    Ok(())
}

/// Print the text that a reset carries (RFC 9293 section 3.5.3).
fn reset_text(p: &mut Printer, data: Data<'_>) {
    p.out.push_str(if data.has(0, data.len) { " [RST" } else { " [!RST" });
    if data.len > RESET_BYTES_MAX {
        p.out.push('+');
    }
    p.out.push(' ');
    p.chars(data.within(data.len.min(RESET_BYTES_MAX)).bytes);
    p.out.push(']');
}
