//! TCP segments: flags, numbers, options.
//!
//! Called by: `ip.rs`. Must not know: IP headers.

use std::fmt::Write;
use std::net::SocketAddr;

use wire::tcp::{CHECKSUM_OFFSET, Flags, HEADER_LEN, HEADER_LEN_MAX, Header};

use super::Printer;
use super::flows::Base;
use super::ip::{Carried, Checksum};

/// The letters of the control bits, in tcpdump's order.
const LETTERS: [(Flags, char); 8] = [
    (Flags::FIN, 'F'),
    (Flags::SYN, 'S'),
    (Flags::RST, 'R'),
    (Flags::PSH, 'P'),
    (Flags::ACK, '.'),
    (Flags::URG, 'U'),
    (Flags::ECE, 'E'),
    (Flags::CWR, 'W'),
];

impl Printer {
    pub(super) fn tcp(&mut self, out: &mut String, carried: &Carried<'_>) {
        let bytes = carried.bytes;
        // Of a header that was cut off, the fixed part is as good as ever.
        let mut front = [0_u8; HEADER_LEN_MAX];
        let here = bytes.len().min(HEADER_LEN_MAX);
        front[..here].copy_from_slice(&bytes[..here]);
        let h = match Header::parse(&front) {
            Ok(header) if here >= HEADER_LEN && header.header_len <= carried.len => header,
            _ => {
                let what = if here < HEADER_LEN { "[|tcp]" } else { "tcp, bad header length" };
                let _ = write!(out, "{}{what}", carried.ends(None));
                return;
            }
        };
        let _ = write!(out, "{}Flags [", carried.ends(Some((h.src_port, h.dst_port))));
        let letters = LETTERS.iter().filter(|(flag, _)| h.flags.contains(*flag));
        let before = out.len();
        out.extend(letters.map(|(_, letter)| letter));
        out.push_str(if out.len() == before { "none], " } else { "], " });
        if self.style.verbose
            && let Some(Checksum { has, ought, is_right }) = carried.checksum(CHECKSUM_OFFSET)
        {
            let _ = match is_right {
                true => write!(out, "cksum 0x{has:04x} (correct), "),
                false => write!(out, "cksum 0x{has:04x} (incorrect -> 0x{ought:04x}), "),
            };
        }
        self.numbers(out, &h, carried);
    }

    fn numbers(&mut self, out: &mut String, h: &Header, carried: &Carried<'_>) {
        let ends =
            (SocketAddr::new(carried.src, h.src_port), SocketAddr::new(carried.dst, h.dst_port));
        let len = carried.len.saturating_sub(h.header_len) as u32;
        let is_syn = h.flags.contains(Flags::SYN);
        // As tcpdump: a segment without ACK knows one end's numbers alone, and begins nothing.
        let base = match self.style.absolute || !h.flags.contains(Flags::ACK) {
            true => Base::default(),
            false => self.flows.base(ends, (h.seq.0, h.ack.0), is_syn),
        };
        let seq = h.seq.0.wrapping_sub(base.seq);
        if len > 0 {
            let _ = write!(out, "seq {seq}:{}, ", seq.wrapping_add(len));
        } else if h.flags.intersects(Flags::SYN | Flags::FIN | Flags::RST) {
            let _ = write!(out, "seq {seq}, ");
        }
        if h.flags.contains(Flags::ACK) {
            let _ = write!(out, "ack {}, ", h.ack.0.wrapping_sub(base.ack));
        }
        let _ = write!(out, "win {}", h.window);
        if h.flags.contains(Flags::URG) {
            let _ = write!(out, ", urg {}", h.urgent);
        }
        if h.header_len > HEADER_LEN {
            out.push_str(", options [");
            let there = h.header_len - HEADER_LEN;
            let here = carried.bytes.get(HEADER_LEN..).unwrap_or_default();
            let here = &here[..here.len().min(there)];
            options(out, here, here.len() < there, base.ack);
            if here.len() < there {
                if !out.ends_with(['[', ',']) {
                    out.push(',');
                }
                return out.push_str(" [|tcp]");
            }
            out.push(']');
        }
        let _ = write!(out, ", length {len}");
    }
}

/// Options in the order in which they stand; of those that were cut off, the whole ones.
fn options(out: &mut String, mut bytes: &[u8], is_cut: bool, sack_base: u32) {
    let mut separator = "";
    while let Some((&kind, rest)) = bytes.split_first() {
        out.push_str(separator);
        separator = ",";
        match kind {
            0 => return out.push_str("eol"),
            1 => {
                out.push_str("nop");
                bytes = rest;
                continue;
            }
            _ => {}
        }
        let len = rest.first().map_or(0, |&len| usize::from(len));
        let Some(data) = bytes.get(2..len).filter(|_| len >= 2) else {
            if is_cut && (rest.is_empty() || len > bytes.len()) {
                return;
            }
            return out.push_str("[bad opt]");
        };
        option(out, kind, data, sack_base);
        bytes = &bytes[len..];
    }
}

fn option(out: &mut String, kind: u8, data: &[u8], sack_base: u32) {
    let word =
        |at: usize| data.get(at..).and_then(|d| d.first_chunk()).map(|b| u32::from_be_bytes(*b));
    let _ = match (kind, data.len()) {
        (2, 2) => write!(out, "mss {}", u16::from_be_bytes([data[0], data[1]])),
        (3, 1) => write!(out, "wscale {}", data[0]),
        (4, 0) => write!(out, "sackOK"),
        (5, len) if len % 8 == 0 => {
            let _ = write!(out, "sack {} ", len / 8);
            for at in (0..len).step_by(8) {
                let from = word(at).unwrap_or(0).wrapping_sub(sack_base);
                let to = word(at + 4).unwrap_or(0).wrapping_sub(sack_base);
                let _ = write!(out, "{{{from}:{to}}}");
            }
            Ok(())
        }
        (8, 8) => write!(out, "TS val {} ecr {}", word(0).unwrap_or(0), word(4).unwrap_or(0)),
        (34, 0) => write!(out, "tfo  cookiereq"),
        (34, _) => {
            out.push_str("tfo  cookie ");
            data.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
        }
        _ => {
            let _ = write!(out, "unknown-{kind}");
            if !data.is_empty() {
                out.push_str(" 0x");
            }
            data.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
        }
    };
}
