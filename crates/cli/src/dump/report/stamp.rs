//! Times in front of lines, in the formats of `-t`.
//!
//! Called by: `lines`. From 2^31 seconds after 1970, in 2038, tcpdump prints an error instead of
//! the time, and so does `dump`, so that their outputs can be compared.

use jiff::Timestamp;
use jiff::tz::TimeZone;

const SECOND_NS: u64 = 1_000_000_000;

/// The first second since 1970 that is not printed.
const SECONDS_MAX: u64 = 1 << 31;

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
            2 if time_ns / SECOND_NS >= SECONDS_MAX => "[Error converting time] ".to_owned(),
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
    let (Ok(stamp), true) = (stamp, time_ns / SECOND_NS < SECONDS_MAX) else {
        return "[Error converting time] ".to_owned();
    };
    let at = stamp.to_zoned(zone.clone());
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
    fn a_time_behind_the_year_2038_is_not_told() {
        let late = SECONDS_MAX * SECOND_NS;
        for kind in [0, 2, 4] {
            assert_eq!(texts(kind, &[late]), ["[Error converting time] "]);
        }
    }
}
