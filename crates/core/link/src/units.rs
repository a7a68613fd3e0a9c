//! Parses values on the command line: rates, times, shares, sizes. The grammar is that of
//! tc(8). A bare number that could be read in two ways is refused.
//!
//! Called by: `wirespeed wire` and `--link` of a gateway; the program `wirespeed-sim` and
//! experiments, as `sim::units`. A value of several parts is one of [`crate::Settings`].
//! docs/decisions/0061-values.md has the reason for each rule.

use base::Duration;

/// The number at the beginning of a text, and the rest in lower case.
fn split(text: &str) -> Result<(f64, String), String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 =
        number.parse().map_err(|_| format!("'{text}' does not begin with a number"))?;
    Ok((number, unit.to_ascii_lowercase()))
}

/// A rate in bits a second, such as `100Mbit`, `1gbit` or `500kbit`. k, M, G and T are powers of
/// 1000, Ki, Mi and Gi powers of 1024, in lower or upper case. A bare number is bits a second, and
/// so is `100M`.
///
/// # Errors
/// A sentence that says how to write the value.
pub fn rate(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    if unit.ends_with("bps") {
        return Err(format!(
            "'{text}': tc reads bps as bytes a second, others as bits; write bits as 100Mbit"
        ));
    }
    let factor = match unit.strip_suffix("bit").unwrap_or(&unit) {
        "" => 1.0,
        "k" => 1e3,
        "m" => 1e6,
        "g" => 1e9,
        "t" => 1e12,
        "ki" => 1024.0,
        "mi" => 1024.0 * 1024.0,
        "gi" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err(format!("'{text}': write bits a second as 500kbit, 100Mbit or 10Gbit")),
    };
    let rate = (number * factor) as u64;
    if rate == 0 { Err(format!("'{text}' is not a rate: write 1bit or more")) } else { Ok(rate) }
}

/// A time, such as `50ms`, `100us` or `2s`. A bare number is refused, unless it is 0: to tc it
/// would be microseconds.
///
/// # Errors
/// A sentence that says how to write the value.
pub fn time(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text)?;
    let ns = match unit.as_str() {
        "ns" | "nsec" | "nsecs" => 1.0,
        "us" | "usec" | "usecs" => 1e3,
        "ms" | "msec" | "msecs" => 1e6,
        "s" | "sec" | "secs" => 1e9,
        "" if number == 0.0 => 1.0,
        _ => return Err(format!("'{text}': write a time with its unit, as 100us, 50ms or 2s")),
    };
    Ok(Duration::from_nanos((number * ns) as u64))
}

/// A share, such as `1%`, from 0% to 100%. A bare number is refused, unless it is 0: to tc it would
/// be percent, to others a part of 1.
///
/// # Errors
/// A sentence that says how to write the value.
pub fn share(text: &str) -> Result<f64, String> {
    let (number, unit) = split(text)?;
    let share = match unit.as_str() {
        "%" => number / 100.0,
        "" if number == 0.0 => 0.0,
        _ => return Err(format!("'{text}': write a share in percent, as 1% or 0.01%")),
    };
    if share > 1.0 { Err(format!("'{text}' is more than 100%")) } else { Ok(share) }
}

/// A number of bytes, such as `150000`, `64k` or `8M`. As in tc, k, M and G are powers of 1024, and
/// so are kb, Mb, Gb and KiB, MiB, GiB. A bare number is bytes.
///
/// # Errors
/// A sentence that says how to write the value.
pub fn bytes(text: &str) -> Result<u32, String> {
    let (number, unit) = split(text)?;
    let factor = match unit.as_str() {
        "" | "b" => 1.0,
        "k" | "kb" | "kib" => 1024.0,
        "m" | "mb" | "mib" => 1024.0 * 1024.0,
        "g" | "gb" | "gib" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err(format!("'{text}': write bytes as 150000, 64k or 8M")),
    };
    let bytes = number * factor;
    if bytes > 1e9 {
        Err(format!("'{text}': at most 1,000,000,000 bytes"))
    } else {
        Ok(bytes as u32)
    }
}

/// Two shares: that a burst of losses begins, and that it ends, such as `0.1%:20%`.
///
/// # Errors
/// A sentence that says how to write the value.
pub fn burst(text: &str) -> Result<(f64, f64), String> {
    let pair = text.split_once(':');
    let (begin, end) =
        pair.ok_or("expected two shares, that a burst begins and that it ends, as 0.1%:20%")?;
    let (begin, end) = (share(begin)?, share(end)?);
    if end == 0.0 {
        return Err("a burst has to end some time: the second share is more than 0".to_owned());
    }
    Ok((begin, end))
}

/// A share of packets and how late they are, such as `1%:10ms`.
///
/// # Errors
/// A sentence that says how to write the value.
pub fn late(text: &str) -> Result<(f64, Duration), String> {
    let pair = text.split_once(':');
    let (how_many, by) = pair.ok_or("expected a share and how late, as 1%:10ms")?;
    Ok((share(how_many)?, time(by)?))
}

/// What CoDel does with a packet: `ecn` marks it, which is true, and `drop` drops it.
///
/// # Errors
/// A sentence that says how to write the value.
pub fn codel(text: &str) -> Result<bool, String> {
    match text {
        "drop" => Ok(false),
        "ecn" => Ok(true),
        _ => Err("expected drop, or ecn to mark packets whose sender heeds it".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_understood() {
        for text in ["100Mbit", "100mbit", "100M", "100000kbit", "0.1Gbit", "100000000"] {
            assert_eq!(rate(text), Ok(100_000_000), "{text}");
        }
        assert_eq!(rate("2.5G"), Ok(2_500_000_000));
        assert_eq!(rate("1Mibit"), Ok(1 << 20));
        for text in ["50ms", "50msec", "50msecs", "50000us", "0.05s", "0.05sec"] {
            assert_eq!(time(text), Ok(Duration::from_millis(50)), "{text}");
        }
        assert_eq!(time("0"), Ok(Duration::ZERO));
        assert_eq!((share("1%"), share("0.01%"), share("0")), (Ok(0.01), Ok(0.0001), Ok(0.0)));
        for text in ["8M", "8mb", "8MB", "8MiB", "8192k", "8192kb", "8388608", "8388608b"] {
            assert_eq!(bytes(text), Ok(8 << 20), "{text}");
        }
        assert_eq!(bytes("150kb"), Ok(153_600), "as tc has it");
    }

    #[test]
    fn what_has_two_parts() {
        assert_eq!(late("1%:10ms"), Ok((0.01, Duration::from_millis(10))));
        assert_eq!(burst("0.1%:20%"), Ok((0.001, 0.2)));
        assert!(burst("0.1%:0").is_err(), "a burst without an end");
        assert!(late("1%").is_err() && burst("1%").is_err() && late("1%,10").is_err());
        assert_eq!((codel("ecn"), codel("drop")), (Ok(true), Ok(false)));
        assert!(codel("mark").is_err_and(|why| why.contains("ecn")));
    }

    #[test]
    fn what_means_nothing_is_refused() {
        assert!(rate("fast").is_err() && rate("0").is_err() && rate("1X").is_err());
        assert!(time("5min").is_err() && time("ms").is_err() && time("-1ms").is_err());
        assert!(share("200%").is_err() && share("x").is_err());
        assert!(bytes("2000M").is_err() && bytes("1kbit").is_err());
    }

    #[test]
    fn what_means_two_things_is_refused_with_the_right_spelling() {
        assert!(rate("100mbps").is_err_and(|e| e.contains("100Mbit")), "bytes to tc");
        assert!(time("50").is_err_and(|e| e.contains("50ms")), "microseconds to tc");
        assert!(share("0.01").is_err_and(|e| e.contains("1%")), "percent to tc");
        assert!(share("1").is_err());
    }
}
