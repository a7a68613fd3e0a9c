//! DNS over UDP and TCP, and multicast DNS (RFC 1035, 2782, 3596, 6762, 6891 and others).
//!
//! Called by: `app`, and neighbour discovery for its domain names. `dns_records` prints the content
//! of records. Compression pointers are followed only backwards, so that no name loops.

use super::dns_records::{self as records, CLASSES, TYPES};
use crate::data::{Cut, Data, Done};
use crate::print::{Printer, put};
use crate::text::name as name_of;

const HEADER_LEN: usize = 12;

/// Only this many characters of a longer name are printed.
const NAME_CHARS_MAX: usize = 255;

const OPERATIONS: [&str; 16] = [
    "",
    " inv_q",
    " stat",
    " op3",
    " notify",
    " update",
    " op6",
    " op7",
    " op8",
    " updateA",
    " updateD",
    " updateDA",
    " updateM",
    " updateMA",
    " zoneInit",
    " zoneRef",
];

const RESULTS: [&str; 24] = [
    "",
    " FormErr",
    " ServFail",
    " NXDomain",
    " NotImp",
    " Refused",
    " YXDomain",
    " YXRRSet",
    " NXRRSet",
    " NotAuth",
    " NotZone",
    " Resp11",
    " Resp12",
    " Resp13",
    " Resp14",
    " NoChange",
    " BadVers",
    "Resp17",
    " Resp18",
    " Resp19",
    " Resp20",
    "Resp21",
    " Resp22",
    " BadCookie",
];

/// The record type OPT: options of the message (RFC 6891).
pub(super) const OPT: u16 = 41;

/// Print a message that follows its length (RFC 1035 section 4.2.2).
pub(super) fn over_tcp(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "domain";
    if data.len < 2 {
        put!(p, " [DNS over TCP: length {} < 2]", data.len);
        p.invalid();
        return Ok(());
    }
    let message = data.skip(2);
    let length = usize::from(data.u16(0)?);
    if length != message.len {
        put!(p, " [prefix length({length}) != length({})]", message.len);
        p.invalid();
        return Ok(());
    }
    p.out.push(' ');
    over_udp(p, message, false)
}

pub(super) fn over_udp(p: &mut Printer, data: Data<'_>, is_multicast: bool) -> Done {
    p.protocol = "domain";
    if data.len < HEADER_LEN {
        put!(p, "domain [length {} < {HEADER_LEN}]", data.len);
        p.invalid();
        return Ok(());
    }
    if !data.has(0, HEADER_LEN) {
        p.cut();
        return Ok(());
    }
    let message = Message { data, is_multicast };
    let is_response = data.u16(2)? & 0x8000 != 0;
    let is_whole = if is_response { message.response(p)? } else { message.request(p)? };
    match is_whole {
        Some(()) => put!(p, " ({})", data.len),
        None => p.cut(),
    }
    Ok(())
}

/// A message, and whether its class fields are those of multicast DNS.
#[derive(Clone, Copy)]
pub(super) struct Message<'a> {
    pub(super) data: Data<'a>,
    pub(super) is_multicast: bool,
}

impl Message<'_> {
    /// Print the message. `None` if it is cut off.
    fn response(self, p: &mut Printer) -> Result<Option<()>, Cut> {
        let flags = self.data.u16(2)?;
        let counts = self.counts()?;
        let code = self.result_code(flags, counts);
        let result = match RESULTS.get(usize::from(code)) {
            Some(result) => (*result).to_owned(),
            None => format!(" Resp{code}"),
        };
        let operation = OPERATIONS[usize::from(flags >> 11 & 15)];
        put!(p, "{}{operation}{result}", self.data.u16(0)?);
        p.out.push_str(if flags & 0x0400 != 0 { "*" } else { "" });
        p.out.push_str(if flags & 0x0080 != 0 { "" } else { "-" });
        p.out.push_str(if flags & 0x0200 != 0 { "|" } else { "" });
        p.out.push_str(if flags & 0x0020 != 0 { "$" } else { "" });
        let [questions, answers, authorities, additional] = counts;
        if questions != 1 {
            put!(p, " [{questions}q]");
        }
        let mut at = HEADER_LEN;
        for question in 0..questions {
            p.out.push_str(if question > 0 { "," } else { "" });
            let next = if p.style.verbose > 1 {
                p.out.push_str(" q:");
                self.question(p, at)
            } else {
                skip(self.data, at).map(|at| at + 4)
            };
            let Some(next) = next else { return Ok(None) };
            at = next;
        }
        put!(p, " {answers}/{authorities}/{additional}");
        let Some(next) = self.records(p, at, answers, true)? else { return Ok(None) };
        self.other_sections(p, next, authorities, additional)
    }

    /// Print the message. `None` if it is cut off.
    fn request(self, p: &mut Printer) -> Result<Option<()>, Cut> {
        let flags = self.data.u16(2)?;
        let operation = usize::from(flags >> 11 & 15);
        put!(p, "{}{}", self.data.u16(0)?, OPERATIONS[operation]);
        p.out.push_str(if flags & 0x0100 != 0 { "+" } else { "" });
        p.out.push_str(if flags & 0x0010 != 0 { "%" } else { "" });
        if flags & 0x06cf != 0 {
            put!(p, " [b2&3=0x{flags:x}]");
        }
        let [questions, answers, authorities, additional] = self.counts()?;
        let is_inverse = operation == 1;
        if is_inverse && questions != 0 {
            put!(p, " [{questions}q]");
        }
        if answers != u16::from(is_inverse) {
            put!(p, " [{answers}a]");
        }
        if !is_inverse && questions != 1 {
            put!(p, " [{questions}q]");
        }
        if authorities != 0 {
            put!(p, " [{authorities}n]");
        }
        if additional != 0 {
            put!(p, " [{additional}au]");
        }
        let mut at = HEADER_LEN;
        for question in 0..questions {
            if question > 0 && at >= self.data.here() {
                return Ok(None);
            }
            let Some(next) = self.question(p, at) else { return Ok(None) };
            at = next;
        }
        if p.style.verbose < 2 {
            return Ok(Some(()));
        }
        let Some(at) = self.records(p, at, answers, true)? else { return Ok(None) };
        self.other_sections(p, at, authorities, additional)
    }

    fn counts(self) -> Result<[u16; 4], Cut> {
        let at = |at| self.data.u16(at);
        Ok([at(4)?, at(6)?, at(8)?, at(10)?])
    }

    /// The result code of the header, with the upper bits from an OPT record.
    fn result_code(self, flags: u16, counts: [u16; 4]) -> u16 {
        flags & 15 | self.result_bits(counts).unwrap_or(0) << 4
    }

    fn result_bits(self, [questions, answers, authorities, additional]: [u16; 4]) -> Option<u16> {
        let (data, mut at) = (self.data, HEADER_LEN);
        for _ in 0..questions {
            at = skip(data, at)? + 4;
        }
        for _ in 0..u32::from(answers) + u32::from(authorities) {
            at = skip(data, at)? + 8;
            at += 2 + usize::from(data.u16(at).ok()?);
        }
        for _ in 0..additional {
            at = skip(data, at)?;
            if data.u16(at).ok()? == OPT {
                return data.u8(at + 4).ok().map(u16::from);
            }
            at += 10 + usize::from(data.u16(at + 8).ok()?);
        }
        None
    }

    /// Print a question. Returns where the next one begins, or `None` if the question is cut off.
    fn question(self, p: &mut Printer, at: usize) -> Option<usize> {
        let end = skip(self.data, at)?;
        self.data.get(end, 4).ok()?;
        let (kind, class) = (self.data.u16(end).ok()?, self.data.u16(end + 2).ok()?);
        put!(p, " {}", name_of(TYPES, kind, "Type{}"));
        let class_alone = if self.is_multicast { class & 0x7fff } else { class };
        if class_alone != 1 {
            put!(p, " {}", name_of(CLASSES, class_alone, "(Class {})"));
        }
        if self.is_multicast {
            p.out.push_str(if class & 0x8000 != 0 { " (QU)" } else { " (QM)" });
        }
        p.out.push_str("? ");
        name(p, self.data, at).map(|at| at + 4)
    }

    /// Print `count` records. Returns where the next one begins, or `None` if they are cut off.
    fn records(
        self,
        p: &mut Printer,
        at: usize,
        count: u16,
        is_first: bool,
    ) -> Result<Option<usize>, Cut> {
        let mut at = at;
        for record in 0..count {
            if at >= self.data.here() && (record > 0 || !is_first) {
                return Ok(None);
            }
            p.out.push_str(if record > 0 { "," } else { "" });
            let Some(next) = records::print(p, self, at)? else { return Ok(None) };
            at = next;
        }
        Ok(Some(at))
    }

    /// Print the sections that only `-vv` shows.
    fn other_sections(
        self,
        p: &mut Printer,
        at: usize,
        authorities: u16,
        additional: u16,
    ) -> Result<Option<()>, Cut> {
        if p.style.verbose < 2 {
            return Ok(Some(()));
        }
        let mut at = at;
        for (count, what) in [(authorities, " ns:"), (additional, " ar:")] {
            if count > 0 {
                if at >= self.data.here() {
                    return Ok(None);
                }
                p.out.push_str(what);
                let Some(next) = self.records(p, at, count, false)? else { return Ok(None) };
                at = next;
            }
        }
        Ok(Some(()))
    }
}

/// Where a name ends; nothing is printed.
pub(super) fn skip(data: Data<'_>, at: usize) -> Option<usize> {
    let mut at = at;
    loop {
        let label = data.u8(at).ok()?;
        at += 1;
        match label >> 6 {
            _ if label == 0 => return Some(at),
            3 => return Some(at + 1),
            0 => at += usize::from(label),
            1 if label == 0x41 => at += 1 + bit_label_len(data, at)?.div_ceil(8),
            _ => return None,
        }
    }
}

/// The number of bits in a bit-string label (RFC 2673).
fn bit_label_len(data: Data<'_>, at: usize) -> Option<usize> {
    match data.u8(at).ok()? {
        0 => Some(256),
        bits => Some(usize::from(bits)),
    }
}

/// Print a name. Returns where it ends, or `None` if it is invalid or cut off.
pub(crate) fn name(p: &mut Printer, data: Data<'_>, at: usize) -> Option<usize> {
    let (mut at, mut limit, mut end) = (at, at, None);
    let (mut chars, mut is_empty) = (0_usize, true);
    loop {
        let label = data.u8(at).ok()?;
        at += 1;
        match label >> 6 {
            _ if label == 0 => break,
            3 => {
                end = end.or(Some(at + 1));
                let to = usize::from(label & 0x3f) << 8 | usize::from(data.u8(at).ok()?);
                if to >= limit {
                    p.out.push_str("<BAD PTR>");
                    return None;
                }
                (limit, at) = (to, to);
                is_empty = false;
                continue;
            }
            0 => {
                let len = usize::from(label);
                let shown = len.min(NAME_CHARS_MAX.saturating_sub(chars));
                p.chars_of(data, at, shown).ok()?;
                chars += len;
                at += len;
            }
            1 if label == 0x41 => at = bit_label(p, data, at)?,
            1 => {
                put!(p, "<ELT {}>", label & 0x3f);
                return None;
            }
            _ => {
                p.out.push_str("<BAD LABEL TYPE>");
                return None;
            }
        }
        is_empty = false;
        if chars <= NAME_CHARS_MAX {
            p.out.push('.');
        }
        chars += 1;
    }
    if is_empty {
        p.out.push('.');
    } else if chars > NAME_CHARS_MAX {
        p.out.push_str("<DOMAIN NAME TOO LONG>");
    }
    end.or(Some(at))
}

fn bit_label(p: &mut Printer, data: Data<'_>, at: usize) -> Option<usize> {
    let bits = bit_label_len(data, at)?;
    let bytes = data.get(at + 1, bits.div_ceil(8)).ok()?;
    p.out.push_str("\\[x");
    let digits = bits.div_ceil(4);
    for digit in 0..digits {
        let byte = bytes[digit / 2];
        put!(p, "{:x}", if digit % 2 == 0 { byte >> 4 } else { byte & 15 });
    }
    put!(p, "/{bits}]");
    Some(at + 1 + bytes.len())
}
