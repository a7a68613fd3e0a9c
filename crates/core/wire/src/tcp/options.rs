//! TCP options: maximum segment size, window scale, SACK, timestamps, Fast Open, user timeout.
//!
//! Called by: `stack/rx.rs` (`timestamps_only` for prediction, `Options::parse` for what prediction
//! refused) and `tcp::header`. RFC 9293 section 3.2, RFC 7323 (window scale, timestamps), RFC 2018
//! (SACK), RFC 5482 (user timeout), RFC 6691.

use base::{DropReason, SeqNumber, WindowScale};

use crate::bytes::{be32, put};

/// Maximum bytes of options in a header.
pub const OPTIONS_LEN_MAX: usize = 40;

const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;
const USER_TIMEOUT: u8 = 28;
/// In the user timeout option: the value is minutes, not seconds.
const MINUTES: u16 = 0x8000;
const FAST_OPEN: u8 = 34;
/// The kind for experiments (RFC 6994), which Fast Open used before it had its own kind.
const EXPERIMENT: u8 = 254;
/// The experiment identifier of Fast Open.
const EXPERIMENT_FAST_OPEN: [u8; 2] = [0xf9, 0x89];

/// The timestamps option, RFC 7323 section 3.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamps {
    /// TSval: the sender's clock.
    pub value: u32,
    /// TSecr: the receiver's clock, echoed; meaningful if ACK is set.
    pub echo: u32,
}

/// Up to four blocks of a SACK option: `[left, right)` in sequence space (RFC 2018 section 3).
/// Nothing is checked here: `left` may even be after `right`. The scoreboard judges the blocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SackBlocks {
    blocks: [(SeqNumber, SeqNumber); SackBlocks::MAX],
    len: u8,
}

impl SackBlocks {
    /// Blocks that fit in 40 bytes of options; three beside timestamps.
    pub const MAX: usize = 4;

    /// No blocks.
    pub const EMPTY: SackBlocks =
        SackBlocks { blocks: [(SeqNumber(0), SeqNumber(0)); SackBlocks::MAX], len: 0 };

    /// Append a block; `false` if there are four already.
    #[inline]
    pub fn push(&mut self, left: SeqNumber, right: SeqNumber) -> bool {
        let Some(slot) = self.blocks.get_mut(usize::from(self.len)) else { return false };
        *slot = (left, right);
        self.len += 1;
        true
    }

    /// The blocks, in the order of the option.
    #[inline]
    pub fn as_slice(&self) -> &[(SeqNumber, SeqNumber)] {
        self.blocks.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// The number of blocks.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Are there none?
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Each block as (left, right).
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (SeqNumber, SeqNumber)> + '_ {
        self.as_slice().iter().copied()
    }
}

impl PartialEq for SackBlocks {
    fn eq(&self, other: &SackBlocks) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for SackBlocks {}

/// The options of a segment; `Default` has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The largest segment that the sender accepts, in bytes; in a SYN only (RFC 9293 section
    /// 3.7.1).
    pub mss: Option<u16>,
    /// The scale of the sender's windows; in a SYN only (RFC 7323 section 2.2).
    pub window_scale: Option<WindowScale>,
    /// The sender accepts SACK options; in a SYN only (RFC 2018 section 2).
    pub sack_permitted: bool,
    /// RFC 7323 section 3.2.
    pub timestamps: Option<Timestamps>,
    /// How long the sender keeps unacknowledged data, in seconds; never 0. `emit` rounds up to
    /// minutes if the field cannot express the time in seconds (RFC 5482 section 3).
    pub user_timeout_s: Option<u32>,
    /// RFC 2018 section 3; a first block below the ACK is a D-SACK (RFC 2883).
    pub sack: SackBlocks,
    /// A Fast Open cookie, or a request for one; in a SYN only (RFC 7413 section 2).
    pub fast_open: Option<FastOpen>,
}

/// The Fast Open option, RFC 7413 section 2: a cookie, or if empty a cookie request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FastOpen {
    cookie: [u8; FastOpen::COOKIE_MAX],
    len: u8,
    /// Uses the experimental kind, as some peers still do.
    pub experimental: bool,
}

impl FastOpen {
    /// Minimum bytes of a cookie; the length must be even.
    pub const COOKIE_MIN: usize = 4;
    /// Maximum bytes of a cookie.
    pub const COOKIE_MAX: usize = 16;
    /// A cookie request.
    pub const REQUEST: FastOpen =
        FastOpen { cookie: [0; FastOpen::COOKIE_MAX], len: 0, experimental: false };

    /// An option with this cookie, or a cookie request if it is empty; `None` if the length is
    /// invalid.
    pub fn new(cookie: &[u8], experimental: bool) -> Option<FastOpen> {
        let len = cookie.len();
        let fits =
            (FastOpen::COOKIE_MIN..=FastOpen::COOKIE_MAX).contains(&len) && len.is_multiple_of(2);
        let mut option = FastOpen { experimental, ..FastOpen::REQUEST };
        if len > 0 {
            option.cookie.get_mut(..len).filter(|_| fits)?.copy_from_slice(cookie);
            option.len = len as u8;
        }
        Some(option)
    }

    /// The cookie; empty for a cookie request.
    pub fn cookie(&self) -> &[u8] {
        self.cookie.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// Is it a cookie request?
    pub fn is_request(&self) -> bool {
        self.len == 0
    }

    /// Write the option at `at`, padded with NOPs; returns the end.
    fn emit(&self, buf: &mut [u8; OPTIONS_LEN_MAX], mut at: usize) -> usize {
        if self.experimental {
            put(buf, at, [EXPERIMENT, 4 + self.len]);
            put(buf, at + 2, EXPERIMENT_FAST_OPEN);
            at += 4;
        } else {
            put(buf, at, [FAST_OPEN, 2 + self.len]);
            at += 2;
        }
        for &byte in self.cookie() {
            put(buf, at, [byte]);
            at += 1;
        }
        while !at.is_multiple_of(4) {
            put(buf, at, [NOP]);
            at += 1;
        }
        at
    }
}

impl Options {
    /// Parse the options in `bytes`, the part of a header after its first 20 bytes.
    ///
    /// Unknown kinds are skipped by their length (RFC 9293 MUST-6), and so are known kinds with a
    /// wrong length. The last of a repeated option counts. A shift above 14 counts as 14 (RFC 7323
    /// section 2.3). Everything after End of Option List is ignored.
    ///
    /// # Errors
    /// [`DropReason::TcpOptions`] if a length is below 2 or past the end: RFC 9293 MUST-7 requires
    /// that an illegal length is handled without a crash, and dropping the segment does that.
    /// RFC 9293 MUST-4, MUST-64.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Options, DropReason> {
        let mut options = Options::default();
        let mut rest = bytes;
        while let [kind, after @ ..] = rest {
            match *kind {
                END => break,
                NOP => rest = after,
                kind => {
                    let len = usize::from(*after.first().ok_or(DropReason::TcpOptions)?);
                    let body = rest.get(2..len).ok_or(DropReason::TcpOptions)?;
                    options.take(kind, body);
                    rest = rest.get(len..).unwrap_or_default();
                }
            }
        }
        Ok(options)
    }

    /// Take one option, by kind and body.
    #[inline]
    fn take(&mut self, kind: u8, body: &[u8]) {
        match (kind, body) {
            (MSS, &[hi, lo]) => self.mss = Some(u16::from_be_bytes([hi, lo])),
            // RFC 7323 2.3-a.
            (WINDOW_SCALE, &[shift]) => self.window_scale = Some(WindowScale::new(shift)),
            (SACK_PERMITTED, &[]) => self.sack_permitted = true,
            (TIMESTAMPS, body) => {
                if let Ok(b) = <&[u8; 8]>::try_from(body) {
                    self.timestamps = Some(Timestamps { value: be32(b, 0), echo: be32(b, 4) });
                }
            }
            (SACK, body) => {
                let (blocks, odd) = body.as_chunks::<8>();
                if odd.is_empty() && (1..=SackBlocks::MAX).contains(&blocks.len()) {
                    self.sack = SackBlocks::EMPTY;
                    for b in blocks {
                        self.sack.push(SeqNumber(be32(b, 0)), SeqNumber(be32(b, 4)));
                    }
                }
            }
            (USER_TIMEOUT, &[hi, lo]) => {
                let field = u16::from_be_bytes([hi, lo]);
                let unit_s = if field & MINUTES != 0 { 60 } else { 1 };
                let seconds = u32::from(field & !MINUTES) * unit_s;
                self.user_timeout_s = (seconds > 0).then_some(seconds);
            }
            (FAST_OPEN, cookie) => self.fast_open = FastOpen::new(cookie, false),
            (EXPERIMENT, &[hi, lo, ref cookie @ ..]) if [hi, lo] == EXPERIMENT_FAST_OPEN => {
                self.fast_open = FastOpen::new(cookie, true);
            }
            _ => {}
        }
    }

    /// Write the options to the start of `buf` and return their length, a multiple of 4 from 0 to
    /// 40; the rest of `buf` is not changed.
    ///
    /// The order is the customary one, with every value aligned. In a SYN: MSS, SACK permitted,
    /// timestamps, NOP, window scale, Fast Open, user timeout if there is room. Otherwise: NOP NOP
    /// timestamps, NOP NOP SACK with as many blocks as fit (four, or three beside timestamps).
    /// RFC 9293 MUST-69, MUST-68.
    #[inline]
    pub fn emit(&self, buf: &mut [u8; OPTIONS_LEN_MAX]) -> usize {
        let mut at = 0;
        if let Some(mss) = self.mss {
            let [hi, lo] = mss.to_be_bytes();
            put(buf, at, [MSS, 4, hi, lo]);
            at += 4;
        }
        // SACK permitted replaces the two NOPs before timestamps.
        let lead = if self.sack_permitted { [SACK_PERMITTED, 2] } else { [NOP, NOP] };
        if let Some(timestamps) = self.timestamps {
            put(buf, at, lead);
            put(buf, at + 2, [TIMESTAMPS, 10]);
            put(buf, at + 4, timestamps.value.to_be_bytes());
            put(buf, at + 8, timestamps.echo.to_be_bytes());
            at += 12;
        } else if self.sack_permitted {
            put(buf, at, [NOP, NOP, SACK_PERMITTED, 2]);
            at += 4;
        }
        if let Some(scale) = self.window_scale {
            put(buf, at, [NOP, WINDOW_SCALE, 3, scale.shift()]);
            at += 4;
        }
        // At most 20 bytes so far: the largest cookie, or two blocks, still fit.
        if let Some(fast_open) = &self.fast_open {
            at = fast_open.emit(buf, at);
        }
        let has_room = at + 4 <= OPTIONS_LEN_MAX;
        if let Some(seconds) = self.user_timeout_s.filter(|&s| s > 0 && has_room) {
            let minutes = seconds.div_ceil(60).min(u32::from(!MINUTES)) as u16;
            let in_seconds = u16::try_from(seconds).ok().filter(|s| s & MINUTES == 0);
            let [hi, lo] = in_seconds.unwrap_or(minutes | MINUTES).to_be_bytes();
            put(buf, at, [USER_TIMEOUT, 4, hi, lo]);
            at += 4;
        }
        let fit = OPTIONS_LEN_MAX.saturating_sub(at + 4) / 8;
        let blocks = self.sack.as_slice();
        let blocks = blocks.get(..fit).unwrap_or(blocks);
        if !blocks.is_empty() {
            put(buf, at, [NOP, NOP, SACK, 2 + 8 * blocks.len() as u8]);
            at += 4;
            for (left, right) in blocks {
                put(buf, at, left.0.to_be_bytes());
                put(buf, at + 4, right.0.to_be_bytes());
                at += 8;
            }
        }
        at
    }
}

/// The timestamps of an option area that is exactly NOP NOP TIMESTAMPS, as RFC 7323 appendix A
/// recommends and every stack sends; `None` for any other area, which must be parsed.
#[inline(always)]
pub fn timestamps_only(options: &[u8]) -> Option<Timestamps> {
    const LEAD: u32 = u32::from_ne_bytes([NOP, NOP, TIMESTAMPS, 10]);
    let b = <&[u8; 12]>::try_from(options).ok()?;
    if u32::from_ne_bytes([b[0], b[1], b[2], b[3]]) != LEAD {
        return None;
    }
    Some(Timestamps { value: be32(b, 4), echo: be32(b, 8) })
}
