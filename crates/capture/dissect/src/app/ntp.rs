//! NTP; `-v` prints the fields of a time message (RFC 5905).
//!
//! Called by: `app`.

use crate::data::{Cut, Data, Done};
use crate::print::{Printer, put};
use crate::text::{Names, name};

const MODES: Names = &[
    (0, "unspecified"),
    (1, "symmetric active"),
    (2, "symmetric passive"),
    (3, "Client"),
    (4, "Server"),
    (5, "Broadcast"),
    (6, "Control Message"),
    (7, "Reserved"),
];

const LEAPS: Names = &[(0x00, ""), (0x40, "+1s"), (0x80, "-1s"), (0xc0, "clock unsynchronized")];

/// Bytes of a time message without authentication.
const TIME_LEN: usize = 48;

/// Bytes of a control message before its data.
const CONTROL_LEN: usize = 12;

/// The number of bytes of a key's number, and of a digest by MD5 or SHA-1.
const KEY_LEN: usize = 4;
const DIGEST_LENS: [usize; 2] = [16, 20];

/// The number of seconds from NTP's epoch, 1900, to that of Unix, 1970.
const UNIX_EPOCH_SECS: i64 = 2_208_988_800;

pub(super) fn print(p: &mut Printer, data: Data<'_>) -> Done {
    p.protocol = "ntp";
    let status = data.u8(0)?;
    let mode = status & 7;
    put!(p, "NTPv{}, {}", status >> 3 & 7, name(MODES, mode, "Unknown mode"));
    put!(p, ", length {}", data.len);
    if !p.is_verbose() {
        return Ok(());
    }
    let leap = status & 0xc0;
    put!(p, "\n\tLeap indicator: {} ({leap})", name(LEAPS, leap, "Unknown"));
    match mode {
        6 => control(p, data),
        7 => Ok(()),
        _ => time(p, data),
    }
}

/// Print a control message (RFC 9327), without its data.
fn control(p: &mut Printer, data: Data<'_>) -> Done {
    if data.len < CONTROL_LEN {
        p.invalid();
        return Ok(());
    }
    let what = data.u8(1)?;
    let either = |bit: u8, set: &'static str, clear| if what & bit != 0 { set } else { clear };
    put!(p, ", {}", either(0x80, "Response", "Request"));
    put!(p, ", {}, {}", either(0x40, "Error", "OK"), either(0x20, "More", "Last"));
    put!(p, ", OpCode={}\n\tSequence={}", what & 0x1f, data.u16(2)?);
    // Like the C library's `%#x`, which writes no 0x before a zero.
    match data.u16(4)? {
        0 => p.out.push_str(", Status=0"),
        status => put!(p, ", Status={status:#x}"),
    }
    let count = data.u16(10)?;
    put!(p, ", Assoc.={}, Offset={}, Count={count}", data.u16(6)?, data.u16(8)?);
    let count = usize::from(count);
    if data.len < CONTROL_LEN + count {
        p.invalid();
    } else if count != 0 {
        data.get(CONTROL_LEN, count)?;
        p.out.push_str("\n\tTO-BE-DONE: data not interpreted");
    }
    Ok(())
}

fn time(p: &mut Printer, data: Data<'_>) -> Done {
    if data.len < TIME_LEN {
        p.invalid();
        return Ok(());
    }
    let stratum = data.u8(1)?;
    let what = match stratum {
        0 => "unspecified",
        1 => "primary reference",
        2..=15 => "secondary reference",
        _ => "reserved",
    };
    let (poll, precision) = (data.u8(2)? as i8, data.u8(3)? as i8);
    put!(p, ", Stratum {stratum} ({what}), poll {poll}");
    match poll {
        0..32 => put!(p, " ({}s)", 1_u32 << poll),
        -31..0 => put!(p, " (1/{}s)", 1_u32 << -poll),
        _ => {}
    }
    put!(p, ", precision {precision}");
    let short = |at| -> Result<String, Cut> {
        let fraction = u64::from(data.u16(at + 2)?) * 1_000_000 / 65_536;
        Ok(format!("{}.{fraction:06}", data.u16(at)?))
    };
    put!(p, "\n\tRoot Delay: {}, Root dispersion: {}", short(4)?, short(8)?);
    p.out.push_str(", Reference-ID: ");
    match stratum {
        0 => p.out.push_str("(unspec)"),
        1 => {
            let len = if data.u8(15)? == 0 { 3 } else { 4 };
            p.chars(data.get(12, len)?);
        }
        // This is a server's IPv4 address, or a part of a digest of its IPv6 address: the packet
        // does not say which of the two.
        _ => put!(p, "0x{:08x}", data.u32(12)?),
    }
    let at = [16, 24, 32, 40].map(|at| data.u64(at));
    let [reference, origin, receive, transmit] = [at[0]?, at[1]?, at[2]?, at[3]?];
    put!(p, "\n\t  Reference Timestamp:  {}", stamp(reference));
    put!(p, "\n\t  Originator Timestamp: {}", stamp(origin));
    put!(p, "\n\t  Receive Timestamp:    {}", stamp(receive));
    put!(p, "\n\t  Transmit Timestamp:   {}", stamp(transmit));
    put!(p, "\n\t    Originator - Receive Timestamp:  {}", since(origin, receive));
    put!(p, "\n\t    Originator - Transmit Timestamp: {}", since(origin, transmit));
    key(p, data)
}

/// Print the fields after the times: a key's number, and the digest.
fn key(p: &mut Printer, data: Data<'_>) -> Done {
    let len = data.len - TIME_LEN;
    if len == KEY_LEN || len.checked_sub(KEY_LEN).is_some_and(|len| DIGEST_LENS.contains(&len)) {
        put!(p, "\n\tKey id: {}", data.u32(TIME_LEN)?);
        if len > KEY_LEN {
            p.out.push_str("\n\tAuthentication: ");
            p.hex_digits(data.get(TIME_LEN + KEY_LEN, len - KEY_LEN)?);
        }
    } else if len > 0 {
        put!(p, "\n\t({len} more header octets)");
    }
    Ok(())
}

/// Convert units of 2^-32 s to a decimal fraction of a second, in ns.
fn fraction(units: u32) -> u64 {
    (u64::from(units) * 1_000_000_000) >> 32
}

/// The text of a time: seconds since 1900, and the date unless the seconds are 0.
fn stamp(time: u64) -> String {
    let (secs, units) = ((time >> 32) as u32, time as u32);
    let mut text = format!("{secs}.{:09}", fraction(units));
    if secs != 0 {
        text += &format!(" ({})", date(i64::from(secs) - UNIX_EPOCH_SECS));
    }
    text
}

/// The text of how much later a time is than the client's; the time itself if the client gave none.
fn since(origin: u64, time: u64) -> String {
    if origin == 0 {
        return stamp(time);
    }
    // As in tcpdump, a difference of zero is printed with a minus.
    let (sign, difference) = match time > origin {
        true => ('+', time - origin),
        false => ('-', origin - time),
    };
    format!("{sign}{}.{:09}", difference >> 32, fraction(difference as u32))
}

/// The text of a time, in seconds since 1970, in the format of RFC 3339. Days are counted in eras
/// of 400 years, and years begin with March, so that the leap day is the last day of a year.
fn date(secs: i64) -> String {
    const ERA_DAYS: i64 = 146_097;
    /// Days from 0000-03-01 to 1970-01-01.
    const BEFORE_1970: i64 = 719_468;
    let (days, of_day) = (secs.div_euclid(86_400) + BEFORE_1970, secs.rem_euclid(86_400));
    let (era, of_era) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
    let leap_days = of_era / 1_460 - of_era / 36_524 + of_era / 146_096;
    let year = (of_era - leap_days) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march_first = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_first + 2) / 5 + 1;
    let month = if march_first < 10 { march_first + 3 } else { march_first - 9 };
    let year = era * 400 + year + i64::from(month < 3);
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::printed_by;

    fn printed(bytes: &[u8]) -> String {
        printed_by(print, 1, bytes).0
    }

    #[test]
    fn times_have_dates_before_and_after_1970() {
        assert_eq!(date(0), "1970-01-01T00:00:00Z");
        assert_eq!(date(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(date(1_709_251_199), "2024-02-29T23:59:59Z");
        assert_eq!(date(-1), "1969-12-31T23:59:59Z");
        assert_eq!(date(-UNIX_EPOCH_SECS), "1900-01-01T00:00:00Z");
        assert_eq!(stamp(0), "0.000000000");
        let half = 1 << 31;
        assert_eq!(
            stamp(2_208_988_801 << 32 | half),
            "2208988801.500000000 (1970-01-01T00:00:01Z)"
        );
        assert_eq!(since(2 << 32, 3 << 32 | half), "+1.500000000");
        assert_eq!(since(3 << 32 | half, 2 << 32), "-1.500000000");
        assert_eq!(since(7, 7), "-0.000000000");
    }

    #[test]
    fn an_answer_has_its_times_and_its_key() {
        let mut bytes = vec![0x24, 2, 6, 0xe9];
        bytes.resize(TIME_LEN, 0);
        bytes[12..16].copy_from_slice(&[192, 0, 2, 1]);
        bytes[27] = 1;
        bytes[35] = 2;
        bytes.extend([0, 0, 0, 9]);
        let text = printed(&bytes);
        assert!(
            text.contains(", Reference-ID: 0xc0000201\n\t  Reference Timestamp:  0.0"),
            "{text}"
        );
        let end = "\n\t    Originator - Receive Timestamp:  +1.000000000\
                   \n\t    Originator - Transmit Timestamp: -1.000000000\n\tKey id: 9";
        assert!(text.ends_with(end), "{text}");
        bytes.resize(TIME_LEN + KEY_LEN + 16, 0xab);
        assert!(printed(&bytes).ends_with(&format!("\n\tAuthentication: {}", "ab".repeat(16))));
        bytes.truncate(TIME_LEN + 8);
        assert!(printed(&bytes).ends_with("\n\t(8 more header octets)"));
    }

    #[test]
    fn a_control_message_says_what_it_is() {
        let bytes = [0x16, 0xa2, 0, 7, 6, 24, 0, 3, 0, 0, 0, 2, b'a', b'b'];
        let said = ", Response, OK, More, OpCode=2\n\tSequence=7, Status=0x618, Assoc.=3, \
                    Offset=0, Count=2\n\tTO-BE-DONE: data not interpreted";
        assert!(printed(&bytes).ends_with(said), "{}", printed(&bytes));
        assert!(printed(&bytes[..13]).ends_with("Count=2 (invalid)"));
    }
}
