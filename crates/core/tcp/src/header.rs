//! Writing TCP headers: the window to offer, options, and the checksum (full, partial or none).
//!
//! Called by: output. RFC 9293 sections 3.1 and 3.8.6.2.2, RFC 7323, RFC 2018.

use base::SeqNumber;
use mbuf::{Flags as MbufFlags, Mbuf};
use wire::checksum::{Ladder, Sum};
use wire::tcp::{self, ChecksumField, Established, Flags, Header, Options, Timestamps};

use crate::Cx;
use crate::marks::Marks;
use crate::sendq::bytepass_sum;
use crate::tcb::Tcb;

/// Prepend the usual header (no options, or timestamps alone) to a payload.
/// RFC 7323 3.2-a, 4.3-b.
#[inline(always)]
pub(crate) fn put_header(
    tcb: &mut Tcb,
    m: &mut Mbuf,
    seq: SeqNumber,
    flags: Flags,
    cx: &Cx,
) -> Option<()> {
    let header = Established {
        ports: tcb.ports,
        seq,
        ack: tcb.rcv_nxt,
        flags,
        window: offer_window(tcb),
        timestamps: tcb
            .marks
            .has(Marks::TIMESTAMPS)
            .then(|| Timestamps { value: tcb.ts_value(cx), echo: tcb.ts_recent }),
    };
    let checksum = checksum_wanted(tcb, cx);
    let payload = match checksum {
        ChecksumField::Full if !m.is_empty() => sum_of(m, cx.ladder),
        _ => Sum::ZERO,
    };
    let segment_len = header.len() + m.len();
    let buf = m.prepend(header.len())?;
    header.emit(buf, segment_len, tcb.pseudo_sum, payload, checksum);
    mark_checksum(tcb, m);
    Some(())
}

/// The window to offer: never less than before, and no small increases (RFC 9293 section
/// 3.8.6.2.2). Returns the header field and advances RCV.ADV.
/// RFC 9293 SHLD-14, MUST-39. RFC 7323 2.3-b.
#[inline(always)]
pub(crate) fn offer_window(tcb: &mut Tcb) -> u16 {
    let scale = tcb.rcv_wscale;
    let offered = tcb.rcv_wnd();
    let space = tcb.receive.space() as u32;
    let step = (tcb.receive.limit_bytes() as u32 / 2).min(u32::from(tcb.rcv_mss));
    let window = if space >= offered + step { space } else { offered };
    // Rounded down: the right edge in the header may move back by less than a unit (RFC 7323
    // section 2.4), but RCV.ADV does not move back. If the field were rounded up, one-byte segments
    // would advance RCV.ADV without end.
    let field = scale.scale(window);
    tcb.rcv_adv = tcb.rcv_adv.max(tcb.rcv_nxt + scale.unscale(field));
    field
}

#[cold]
pub(crate) fn write_with_sack(
    tcb: &mut Tcb,
    m: &mut Mbuf,
    seq: SeqNumber,
    flags: Flags,
    window: u16,
    cx: &Cx,
) -> Option<()> {
    let with_timestamps = tcb.marks.has(Marks::TIMESTAMPS);
    let mut options = Options {
        timestamps: with_timestamps
            .then(|| Timestamps { value: tcb.ts_value(cx), echo: tcb.ts_recent }),
        ..Options::default()
    };
    // RFC 2018 3-a.
    // Only pure ACKs carry SACK blocks: a full-sized data segment has no room for them.
    if tcb.marks.has(Marks::SACK) && m.is_empty() {
        options.sack = tcb.sack_blocks.report(with_timestamps);
    }
    write_header(tcb, m, seq, flags, window, &options, cx)
}

/// Write a header with any options.
pub(crate) fn write_header(
    tcb: &Tcb,
    m: &mut Mbuf,
    seq: SeqNumber,
    flags: Flags,
    window: u16,
    options: &Options,
    cx: &Cx,
) -> Option<()> {
    let payload_len = m.len();
    let payload_sum = payload_sum(tcb, m, cx);
    let mut area = [0; 40];
    let options_len = options.emit(&mut area);
    let header_len = 20 + options_len;
    let header = m.prepend(header_len)?;
    let [a, b, c, d] = tcb.ports;
    let fields = Header {
        src_port: u16::from_be_bytes([a, b]),
        dst_port: u16::from_be_bytes([c, d]),
        seq,
        ack: if flags.contains(Flags::ACK) { tcb.rcv_nxt } else { SeqNumber(0) },
        header_len,
        flags,
        window,
        urgent: 0,
    };
    fields.emit(header);
    header[20..].copy_from_slice(&area[..options_len]);
    let header_sum = cx.ladder.sum(header);
    let field = checksum_field(tcb, header_len + payload_len, header_sum, payload_sum, cx);
    tcp::set_checksum(header, field);
    mark_checksum(tcb, m);
    Some(())
}

/// The payload's sum; zero if a device computes checksums or they are off.
#[inline(always)]
fn payload_sum(tcb: &Tcb, m: &Mbuf, cx: &Cx) -> Sum {
    if m.is_empty() || !tcb.makes_checksums(cx) {
        return Sum::ZERO;
    }
    sum_of(m, cx.ladder)
}

/// The sum of a payload: the one kept from the copy, else computed now.
#[inline(always)]
pub fn sum_of(m: &Mbuf, ladder: Ladder) -> Sum {
    if m.has(MbufFlags::SUMMED) { Sum(m.csum()) } else { sum_now(m, ladder) }
}

#[cold]
fn sum_now(m: &Mbuf, ladder: Ladder) -> Sum {
    bytepass_sum(ladder, m.as_slice())
}

/// Where the checksum is computed: here, in the device, or nowhere.
#[inline(always)]
fn checksum_wanted(tcb: &Tcb, cx: &Cx) -> ChecksumField {
    if tcb.makes_checksums(cx) {
        ChecksumField::Full
    } else if tcb.offload_checksum {
        ChecksumField::Partial
    } else {
        ChecksumField::Zero
    }
}

/// The checksum field: the finished checksum, or the pseudo-header's sum for a device to finish.
/// RFC 9293 MUST-2.
#[inline(always)]
fn checksum_field(tcb: &Tcb, len: usize, header: Sum, payload: Sum, cx: &Cx) -> [u8; 2] {
    let pseudo = tcb.pseudo_sum.plus(Sum::of_be16(len as u16));
    match checksum_wanted(tcb, cx) {
        ChecksumField::Full => pseudo.plus(header).plus(payload).field(),
        ChecksumField::Partial => pseudo.0.to_ne_bytes(),
        ChecksumField::Zero => [0, 0],
    }
}

/// Request checksum offload if the port has it; from here on `csum` is the TCP header's offset.
#[inline(always)]
fn mark_checksum(tcb: &Tcb, m: &mut Mbuf) {
    m.clear(MbufFlags::SUMMED);
    if tcb.offload_checksum {
        m.set(MbufFlags::CSUM_PARTIAL);
        m.set_csum(0);
    }
}
