//! The clock of a pcapng interface: what its units and its zero are.
//!
//! Called by: `pcapng`. Source: draft-ietf-opsawg-pcapng, `if_tsresol` and `if_tsoffset`: units of
//! 10^-n or 2^-n seconds, n up to 127, and seconds that are added.

const SECOND_NS: i128 = 1_000_000_000;

/// Decimal places of a nanosecond.
const NANO: u32 = 9;

/// The bit of `if_tsresol` that says powers of 2.
const BINARY: u8 = 0x80;

/// A clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    resolution: u8,
    offset_s: i64,
}

impl Clock {
    /// `resolution` is a value of `if_tsresol`.
    pub(crate) fn new(resolution: Option<u8>, offset_s: Option<i64>) -> Clock {
        // Without the option the units are microseconds.
        Clock { resolution: resolution.unwrap_or(6), offset_s: offset_s.unwrap_or(0) }
    }

    /// Nanoseconds since 1970, rounded down. Before 1970 it is 0, after 2554 the last that fits.
    pub(crate) fn ns(self, units: u64) -> u64 {
        let exponent = u32::from(self.resolution & !BINARY);
        let units = i128::from(units);
        let ns = if self.resolution & BINARY != 0 {
            // At most 2^94 before the shift.
            (units * SECOND_NS) >> exponent
        } else if exponent <= NANO {
            units * 10_i128.pow(NANO - exponent)
        } else {
            10_i128.checked_pow(exponent - NANO).map_or(0, |unit| units / unit)
        };
        let ns = ns.saturating_add(i128::from(self.offset_s) * SECOND_NS);
        u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
    }
}
