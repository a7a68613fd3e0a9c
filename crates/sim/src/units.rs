//! Values on the command line: rates, times, shares, sizes, shards.
//!
//! Called by: the program `wirespeed-sim`, experiments.

use base::Duration;

/// The number in front, and what follows it.
fn split(text: &str) -> Result<(f64, &str), String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 =
        number.parse().map_err(|_| format!("'{text}' does not begin with a number"))?;
    Ok((number, unit))
}

/// `100M`, `1G`, `500k`: bits a second, in powers of 1000.
///
/// # Errors
/// A sentence that says how to write it.
pub fn rate(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    let factor = match unit {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        _ => return Err(format!("'{text}': write bits a second as 500k, 100M or 10G")),
    };
    let rate = (number * factor) as u64;
    if rate == 0 { Err(format!("'{text}' is no rate: at least 1")) } else { Ok(rate) }
}

/// `50ms`, `100us`, `2s`.
///
/// # Errors
/// A sentence that says how to write it.
pub fn time(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text)?;
    let ns = match unit {
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return Err(format!("'{text}': write a time as 100us, 50ms or 2s")),
    };
    Ok(Duration::from_nanos((number * ns) as u64))
}

/// `1%` or `0.01`, from nothing to all.
///
/// # Errors
/// A sentence that says how to write it.
pub fn share(text: &str) -> Result<f64, String> {
    let (number, unit) = split(text)?;
    let share = match unit {
        "" => number,
        "%" => number / 100.0,
        _ => return Err(format!("'{text}': write a share as 1% or 0.01")),
    };
    if share > 1.0 { Err(format!("'{text}' is more than all")) } else { Ok(share) }
}

/// `150000`, `64K`, `8M`: bytes, in powers of 1024.
///
/// # Errors
/// A sentence that says how to write it.
pub fn bytes(text: &str) -> Result<u32, String> {
    let (number, unit) = split(text)?;
    let factor = match unit {
        "" => 1.0,
        "k" | "K" => 1024.0,
        "M" => 1024.0 * 1024.0,
        _ => return Err(format!("'{text}': write bytes as 150000, 64K or 8M")),
    };
    let bytes = number * factor;
    if bytes > 1e9 {
        Err(format!("'{text}': at most 1,000,000,000 bytes"))
    } else {
        Ok(bytes as u32)
    }
}

/// `I/N`: part I of N, from 0.
///
/// # Errors
/// A sentence that says how to write it.
pub fn shard(text: &str) -> Result<(u64, u64), String> {
    let parts = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    match parts {
        Some((index, count)) if index < count => Ok((index, count)),
        _ => Err(format!("'{text}': write I/N with I from 0 to N - 1, as 0/8")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_understood() {
        assert_eq!(rate("100M"), Ok(100_000_000));
        assert_eq!(rate("2.5G"), Ok(2_500_000_000));
        assert_eq!(time("50ms"), Ok(Duration::from_millis(50)));
        assert_eq!(share("1%"), Ok(0.01));
        assert_eq!(share("0.0001"), Ok(0.0001));
        assert_eq!(bytes("8M"), Ok(8 << 20));
        assert_eq!(shard("3/8"), Ok((3, 8)));
    }

    #[test]
    fn what_means_nothing_is_refused() {
        assert!(rate("fast").is_err() && rate("0").is_err() && rate("1T").is_err());
        assert!(time("50").is_err() && time("5min").is_err());
        assert!(share("200%").is_err() && share("x").is_err());
        assert!(bytes("2000M").is_err());
        assert!(shard("8/8").is_err() && shard("0/0").is_err() && shard("1").is_err());
    }
}
