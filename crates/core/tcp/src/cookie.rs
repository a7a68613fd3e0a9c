//! SYN cookies: a SYN-ACK for which the listener keeps no state. The numbers in the peer's ACK hold
//! everything that a listener would have to remember.
//!
//! Called by: the stack, when there is no room for half-open connections. RFC 4987 section 3.6,
//! after Bernstein's scheme of 1996. The options that have no room in the sequence number are in
//! the low bits of the timestamp, which the peer echoes.
//!
//! A keyed hash of 24 bits binds a cookie to addresses, ports, the peer's sequence number and a
//! span of 64 seconds; two spans are accepted. A blind attacker needs eight million guesses on
//! average.

use base::{Instant, KeyedHash, Mss, SeqNumber, WindowScale};
use wire::tcp::{Options, Timestamps};

use crate::{Config, Segment};

/// MSS values. Three bits of a cookie name the largest one that is not above the peer's MSS.
const SIZES: [u16; 8] = [48, 216, 536, 1220, 1360, 1440, 1460, 8940];
/// Length of a span in seconds, as a shift; a cookie is valid in its own span and in the next.
const SPAN_SHIFT: u32 = 6;
/// How long a cookie may be valid, at most, in seconds.
pub const LIFE_SECONDS: u64 = 2 << SPAN_SHIFT;

const HASH_MASK: u32 = 0x00ff_ffff;
/// Low bits of a timestamp that hold options: four for the window scale, one for SACK, one spare.
const BITS: u32 = 6;
const NO_SCALE: u32 = 15;
const SACK: u32 = 1 << 4;

/// Separates this hash from that of initial sequence numbers.
const KIND: u64 = 2;

fn span(now: Instant) -> u64 {
    (now.as_nanos() / 1_000_000_000) >> SPAN_SHIFT
}

/// The sequence number of a SYN-ACK with a cookie. `flow` is the keyed hash of addresses and ports,
/// `irs` the sequence number of the peer's SYN, `mss` the peer's MSS.
pub fn sequence_number(
    secret: &KeyedHash,
    flow: u64,
    irs: SeqNumber,
    mss: Mss,
    now: Instant,
) -> SeqNumber {
    let size = SIZES.iter().rposition(|&size| size <= mss.0).unwrap_or(0) as u64;
    made(secret, flow, irs, size, span(now))
}

fn made(secret: &KeyedHash, flow: u64, irs: SeqNumber, size: u64, span: u64) -> SeqNumber {
    let hash = secret.hash([flow, u64::from(irs.0) << 32 | size, span, KIND]) as u32;
    SeqNumber((span as u32) << 27 | (size as u32) << 24 | hash & HASH_MASK)
}

/// The timestamps of a SYN-ACK with a cookie. `value` is the clock, set back a little so that its
/// low bits can encode the options that the peer offered and `config` permits.
pub fn timestamps(value: u32, offered: &Options, config: &Config) -> Option<Timestamps> {
    let theirs = offered.timestamps.filter(|_| config.timestamps)?;
    let scale = offered.window_scale.filter(|_| config.window_scaling);
    let mut bits = scale.map_or(NO_SCALE, |scale| u32::from(scale.shift()));
    if offered.sack_permitted && config.sack {
        bits |= SACK;
    }
    let back = if value & ((1 << BITS) - 1) < bits { 1 << BITS } else { 0 };
    let value = (value.wrapping_sub(back) >> BITS) << BITS | bits;
    Some(Timestamps { value, echo: theirs.value })
}

/// The options of the SYN whose cookie the ACK `seg` returns; `None` if it has no valid cookie.
pub fn check(secret: &KeyedHash, flow: u64, seg: &Segment, now: Instant) -> Option<Options> {
    let cookie = seg.ack - 1;
    let size = u64::from(cookie.0 >> 24 & 7);
    let here = span(now);
    let is_of = |span: u64| made(secret, flow, seg.seq - 1, size, span) == cookie;
    if !is_of(here) && !here.checked_sub(1).is_some_and(is_of) {
        return None;
    }
    let mut options = Options { mss: SIZES.get(size as usize).copied(), ..Options::default() };
    if let Some(ts) = seg.timestamps {
        let scale = ts.echo & 0xf;
        options.window_scale = (scale != NO_SCALE).then(|| WindowScale::new(scale as u8));
        options.sack_permitted = ts.echo & SACK != 0;
        options.timestamps = Some(ts);
    }
    Some(options)
}

#[cfg(test)]
mod tests;
