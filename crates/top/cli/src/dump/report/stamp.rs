//! Times in front of lines, in the formats of `-t`.
//!
//! Called by: `lines`. Every time that a packet can have is printed, up to the year 2554; tcpdump
//! before 4.99.4 prints an error instead of times from 2038 on.

use jiff::Timestamp;
use jiff::tz::TimeZone;

const SECOND_NS: u64 = 1_000_000_000;

/// Formats the times of packets.
pub(super) struct Stamps {
    /// How often `-t` was given.
    kind: u8,
    zone: TimeZone,
    /// The time that `-ttt` and `-ttttt` count from.
    reference_ns: Option<u64>,
}

impl Stamps {
    pub(super) fn new(kind: u8) -> Stamps {
        Stamps { kind, zone: TimeZone::system(), reference_ns: None }
    }

    /// A time with a space behind it; empty for `-t`.
    pub(super) fn text(&mut self, time_ns: u64) -> String {
        match self.kind {
            1 => String::new(),
            2 => format!("{}.{:06} ", time_ns / SECOND_NS, micros(time_ns)),
            3 | 5 => self.since(time_ns),
            kind => of_day(time_ns, &self.zone, kind == 4),
        }
    }

    /// The time since the first packet, or since the previous one.
    fn since(&mut self, time_ns: u64) -> String {
        let reference_ns = *self.reference_ns.get_or_insert(time_ns);
        if self.kind == 3 {
            self.reference_ns = Some(time_ns);
        }
        let sign = if time_ns < reference_ns { "-" } else { " " };
        // tcpdump subtracts microseconds.
        let between_us = (time_ns / 1_000).abs_diff(reference_ns / 1_000);
        format!("{sign}{}", of_day(between_us * 1_000, &TimeZone::UTC, false))
    }
}

fn micros(time_ns: u64) -> u64 {
    time_ns % SECOND_NS / 1_000
}

/// The time of day in `zone`, to microseconds.
fn of_day(time_ns: u64, zone: &TimeZone, with_date: bool) -> String {
    let stamp = Timestamp::from_nanosecond(i128::from(time_ns));
    // Nanoseconds of 64 bits end in the year 2554, those of a stamp in 9999.
    let at = stamp.unwrap_or(Timestamp::MAX).to_zoned(zone.clone());
    let date = match with_date {
        true => format!("{:04}-{:02}-{:02} ", at.year(), at.month(), at.day()),
        false => String::new(),
    };
    let (hour, minute, second) = (at.hour(), at.minute(), at.second());
    format!("{date}{hour:02}:{minute:02}:{second:02}.{:06} ", micros(time_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(kind: u8, times_ns: &[u64]) -> Vec<String> {
        let mut stamps = Stamps { zone: TimeZone::UTC, ..Stamps::new(kind) };
        times_ns.iter().map(|time_ns| stamps.text(*time_ns)).collect()
    }

    #[test]
    fn a_time_is_told_in_the_ways_of_tcpdump() {
        let times = [86_400 * SECOND_NS + 1_000, 86_401 * SECOND_NS + 3_000, 86_400 * SECOND_NS];
        assert_eq!(texts(0, &times)[0], "00:00:00.000001 ");
        assert_eq!(texts(1, &times)[0], "");
        assert_eq!(texts(2, &times)[0], "86400.000001 ");
        let between = [" 00:00:00.000000 ", " 00:00:01.000002 ", "-00:00:01.000003 "];
        assert_eq!(texts(3, &times), between);
        assert_eq!(texts(4, &times)[1], "1970-01-02 00:00:01.000003 ");
        let since = [" 00:00:00.000000 ", " 00:00:01.000002 ", "-00:00:00.000001 "];
        assert_eq!(texts(5, &times), since);
    }

    #[test]
    fn a_time_behind_the_years_2038_and_2106_is_told() {
        let first = |kind, time_ns| texts(kind, &[time_ns]).remove(0);
        let first_lost = (1 << 31) * SECOND_NS;
        assert_eq!(first(4, first_lost), "2038-01-19 03:14:08.000000 ");
        assert_eq!(first(2, first_lost), "2147483648.000000 ");
        assert_eq!(first(4, (1 << 32) * SECOND_NS), "2106-02-07 06:28:16.000000 ");
        assert_eq!(first(4, u64::MAX), "2554-07-21 23:34:33.709551 ");
        assert_eq!(first(0, u64::MAX), "23:34:33.709551 ");
    }
}
