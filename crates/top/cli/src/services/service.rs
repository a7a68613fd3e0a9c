//! The services: their ports, and the data that they send.
//!
//! Called by: `tcp.rs` and `udp.rs`. RFC 862, RFC 863, RFC 864, RFC 867.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// A service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    Echo,
    Discard,
    Daytime,
    Chargen,
}

/// The services by port.
pub(super) const SERVICES: [(u16, Service); 4] =
    [(7, Service::Echo), (9, Service::Discard), (13, Service::Daytime), (19, Service::Chargen)];

/// The lines of RFC 864: 72 of the 95 printing characters, each line beginning one character later.
pub(super) fn pattern() -> Vec<u8> {
    let character = |n: usize| b' ' + (n % 95) as u8;
    let line = |from: usize| (from..from + 72).map(character).chain(*b"\r\n");
    (0..95).flat_map(line).collect()
}

/// The time of day as RFC 867 suggests it: `Tuesday, February 22, 1982 17:37:43-UTC`.
pub(super) fn daytime(now: Timestamp) -> Vec<u8> {
    let text = now.to_zoned(TimeZone::UTC).strftime("%A, %B %-d, %Y %H:%M:%S-UTC").to_string();
    (text + "\r\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_is_that_of_rfc_864() {
        let text = pattern();
        let lines: Vec<_> = text.split(|&b| b == b'\n').collect();
        assert_eq!(lines.len(), 96, "and nothing behind the last");
        assert!(
            lines[0].starts_with(b" !\"#$%&'()*+,-./0123456789:") && lines[0].ends_with(b"g\r")
        );
        assert!(lines[1].starts_with(b"!\"#") && lines[94].starts_with(b"~ !"));
        assert!(lines[..95].iter().all(|line| line.len() == 73));
    }

    #[test]
    fn the_time_of_day_is_that_of_rfc_867() {
        let at = "1982-02-22T17:37:43Z".parse().expect("a time");
        assert_eq!(daytime(at), b"Monday, February 22, 1982 17:37:43-UTC\r\n");
    }
}
