//! What tracking needs of a TCP segment: sequence space, window, flags, the edge of its SACK blocks
//! and the window scale of a SYN.
//!
//! Called by: the stack for each TCP packet whose state it has found, and by `parse.rs` for the
//! length of headers. Options are walked only if they are other than timestamps alone. The checksum
//! is the end hosts' business. RFC 9293 section 3.1, RFC 7323, RFC 2018. Counters:
//! `filter_malformed`, `filter_tcp_state`.

use base::{DropReason, SeqNumber};
use wire::tcp::{Flags, HEADER_LEN, Options};

/// The window scale of a SYN without the option.
pub(super) const NO_SCALE: u8 = 15;

/// A segment as tracking sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number of the SYN or of the first byte.
    pub seq: SeqNumber,
    /// The next sequence number expected; 0 without ACK.
    pub ack: SeqNumber,
    /// Bytes of data.
    pub len: u32,
    /// The window field as sent.
    pub window: u16,
    /// Control bits.
    pub flags: Flags,
    /// Window scale of a SYN, at most 14; `None` without the option.
    pub scale: Option<u8>,
    /// The highest right edge of its SACK blocks that is later than `ack`, else `ack`.
    pub sack: SeqNumber,
}

impl Segment {
    /// Read a segment of `len` bytes with its header, of which `bytes` are here: at least the
    /// header. Padding behind the packet must not be in `len`.
    ///
    /// # Errors
    /// [`DropReason::FilterMalformed`] if the header is cut or longer than the segment,
    /// [`DropReason::FilterTcpState`] if its flags contradict each other.
    #[inline(always)]
    pub fn parse(bytes: &[u8], len: u32) -> Result<Segment, DropReason> {
        let b = bytes.first_chunk::<HEADER_LEN>().ok_or(DropReason::FilterMalformed)?;
        let header_len = u32::from(b[12] >> 4) * 4;
        if header_len < HEADER_LEN as u32 || header_len > len {
            return Err(DropReason::FilterMalformed);
        }
        let flags = Flags(b[13]);
        if !are_possible(flags) {
            return Err(DropReason::FilterTcpState);
        }
        let word = |at: usize| u32::from_be_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
        let ack = SeqNumber(if flags.contains(Flags::ACK) { word(8) } else { 0 });
        let mut segment = Segment {
            seq: SeqNumber(word(4)),
            ack,
            len: len - header_len,
            window: u16::from_be_bytes([b[14], b[15]]),
            flags,
            scale: None,
            sack: ack,
        };
        if header_len > HEADER_LEN as u32 {
            let options = bytes.get(HEADER_LEN..header_len as usize);
            let options = options.ok_or(DropReason::FilterMalformed)?;
            if flags.contains(Flags::SYN) || !has_timestamps_alone(options) {
                (segment.scale, segment.sack) = read(flags, ack, options);
            }
        }
        Ok(segment)
    }

    /// The flags of a segment of which all is here; `None` where [`Segment::parse`] fails.
    #[inline(always)]
    #[must_use]
    pub fn flags(bytes: &[u8]) -> Option<Flags> {
        let b = bytes.first_chunk::<HEADER_LEN>()?;
        let (header_len, flags) = (usize::from(b[12] >> 4) * 4, Flags(b[13]));
        let fits = (HEADER_LEN..=bytes.len()).contains(&header_len);
        (fits && are_possible(flags)).then_some(flags)
    }

    /// The sequence number behind the segment: SYN and FIN take one each.
    #[inline(always)]
    #[must_use]
    pub fn end(&self) -> SeqNumber {
        let controls = u32::from(self.flags.contains(Flags::SYN));
        self.seq + self.len + controls + u32::from(self.flags.contains(Flags::FIN))
    }

    /// Is it a SYN without ACK?
    #[inline(always)]
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.flags.contains(Flags::SYN) && !self.flags.contains(Flags::ACK)
    }
}

/// What tracking needs of a segment as nearly all are: an ACK without SYN, FIN and RST, and with no
/// options but timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Usual {
    /// The sequence number behind it.
    pub(super) end: SeqNumber,
    pub(super) ack: SeqNumber,
    pub(super) window: u16,
}

impl Usual {
    /// `None` for any other segment, of which [`Segment::parse`] has the rest.
    #[inline(always)]
    pub(super) fn of(bytes: &[u8]) -> Option<Usual> {
        const CONTROLS: u8 = Flags::SYN.0 | Flags::FIN.0 | Flags::RST.0 | Flags::ACK.0;
        let b = bytes.first_chunk::<HEADER_LEN>()?;
        let header_len = match b[12] & 0xf0 {
            0x50 => HEADER_LEN,
            0x80 if bytes.get(HEADER_LEN..32).is_some_and(has_timestamps_alone) => 32,
            _ => return None,
        };
        let word = |at: usize| u32::from_be_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
        let segment = Usual {
            end: SeqNumber(word(4)) + (bytes.len() - header_len) as u32,
            ack: SeqNumber(word(8)),
            window: u16::from_be_bytes([b[14], b[15]]),
        };
        (b[13] & CONTROLS == Flags::ACK.0).then_some(segment)
    }
}

/// The window scale of a SYN, and the highest edge of SACK blocks.
#[cold]
fn read(flags: Flags, ack: SeqNumber, options: &[u8]) -> (Option<u8>, SeqNumber) {
    // Hosts ignore options that they cannot read (RFC 9293 MUST-5, MUST-7).
    let Ok(options) = Options::parse(options) else { return (None, ack) };
    let scale = options.window_scale.filter(|_| flags.contains(Flags::SYN));
    let mut sack = ack;
    for (left, right) in options.sack.iter() {
        if left.lt(right) {
            sack = sack.max(right);
        }
    }
    (scale.map(|scale| scale.shift()), sack)
}

/// Only a SYN and a RST may be without ACK, a SYN comes without FIN and RST, and a RST without FIN
/// (RFC 9293 section 3.10.7; the combinations are used by port scanners).
#[inline(always)]
fn are_possible(flags: Flags) -> bool {
    match flags.0 & (Flags::SYN.0 | Flags::RST.0 | Flags::FIN.0) {
        0 | 0x01 => flags.contains(Flags::ACK),
        other => other.is_power_of_two(),
    }
}

/// The usual options: two bytes of padding and timestamps (RFC 7323 appendix A).
#[inline(always)]
fn has_timestamps_alone(options: &[u8]) -> bool {
    options.len() == 12 && options.first_chunk::<4>() == Some(&[1, 1, 8, 10])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Headers of which most are well-formed: the short forms say what the whole one says.
        #[test]
        fn short_forms_say_what_the_whole_one_says(
            mut bytes in prop::collection::vec(any::<u8>(), 0..60),
            offset in 4_u8..10,
            flags in prop::sample::select(vec![0x10, 0x18, 0x02, 0x12, 0x11, 0x04, 0x00, 0x03]),
            has_timestamps: bool,
        ) {
            if let Some([.., a, b, _, _, _, _, _, _]) = bytes.first_chunk_mut::<20>() {
                (*a, *b) = (offset << 4, flags);
            }
            if has_timestamps && let Some(options) = bytes.get_mut(20..24) {
                options.copy_from_slice(&[1, 1, 8, 10]);
            }
            let whole = Segment::parse(&bytes, bytes.len() as u32).ok();
            prop_assert_eq!(Segment::flags(&bytes), whole.map(|segment| segment.flags));
            if let Some(Usual { end, ack, window }) = Usual::of(&bytes) {
                let whole = whole.expect("a usual segment is a segment");
                prop_assert_eq!((end, ack, window), (whole.end(), whole.ack, whole.window));
                prop_assert_eq!(whole.sack, whole.ack);
                let is_plain = whole.flags.0 & 0x17 == 0x10;
                prop_assert!(is_plain, "{:?}", whole.flags);
            }
        }
    }
}
