//! Values of options, as users write them.
//!
//! Called by: clap, for the options of `args.rs`.

use wirespeed::{Duration, GAP_MAX};

/// `16K`, `4GiB`, `1GB`, `1000`: a number of bytes.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit: u64 = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 1,
        "K" | "KIB" => 1 << 10,
        "M" | "MIB" => 1 << 20,
        "G" | "GIB" => 1 << 30,
        "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return Err("expected a number of bytes such as 1000, 16K, 4MiB or 2GB".to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_| "expected a number such as 16K".to_owned())?;
    number.checked_mul(unit).ok_or_else(|| "that is more than 64 bits can count".to_owned())
}

/// The faults of `--fault`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Faults {
    pub(super) odds: wirespeed::device::fault::Odds,
    pub(super) seed: u64,
}

pub(super) fn faults(text: &str) -> Result<Faults, String> {
    let expected = || {
        "expected NAME=VALUE, separated by commas: drop, duplicate, reorder and corrupt from 0 to \
         1, seed a whole number"
            .to_owned()
    };
    let mut faults = Faults { seed: 1, ..Faults::default() };
    for part in text.split(',') {
        let (name, value) = part.split_once('=').ok_or_else(expected)?;
        if name == "seed" {
            faults.seed = value.parse().map_err(|_| expected())?;
            continue;
        }
        let p: f64 = value.parse().ok().filter(|p| (0.0..=1.0).contains(p)).ok_or_else(expected)?;
        match name {
            "drop" => faults.odds.drop = p,
            "duplicate" => faults.odds.duplicate = p,
            "reorder" => faults.odds.reorder = p,
            "corrupt" => faults.odds.corrupt = p,
            _ => return Err(expected()),
        }
    }
    Ok(faults)
}

pub(super) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(s) if (0.0..=86_400.0).contains(&s) => Ok(s),
        _ => Err("expected seconds between 0 and 86400, such as 2.5".to_owned()),
    }
}

/// `60us`: a time with its unit, as long as gaps can be.
pub(crate) fn gap(text: &str) -> Result<Duration, String> {
    match sim::units::time(text)? {
        gap if gap <= GAP_MAX => Ok(gap),
        _ => Err(format!("'{text}' is longer than a second: give a shorter gap")),
    }
}

/// At least 0.1 s, because the loops report progress every 50 ms.
pub(super) fn interval(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(s) if s == 0.0 || (0.1..=3600.0).contains(&s) => Ok(s),
        _ => Err("expected seconds from 0.1 to 3600, such as 2.5, or 0 for no lines".to_owned()),
    }
}

/// At least 1 s: TCP's own timers prevent shorter ones.
pub(super) fn timeout(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(s) if (1.0..=86_400.0).contains(&s) => Ok(s),
        _ => Err("expected seconds from 1 to 86400, such as 2.5".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_what_they_say() {
        assert_eq!(size("1000"), Ok(1000));
        assert_eq!(size("16K"), Ok(16 << 10));
        assert_eq!(size("4g"), Ok(4 << 30));
        assert_eq!(size("3MiB"), Ok(3 << 20));
        assert_eq!(size("3MB"), Ok(3_000_000));
        assert_eq!(size("2GB"), Ok(2_000_000_000));
        for bad in ["", "K", "-1", "1T", "1.5M", "18446744073709551615K"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn gaps_have_units() {
        for (text, ns) in
            [("60us", 60_000), ("0", 0), ("0.5ms", 500_000), ("1s", 1_000_000_000), ("7ns", 7)]
        {
            assert_eq!(gap(text), Ok(Duration::from_nanos(ns)), "{text}");
        }
        for bad in ["", "60", "us", "-1us", "1.1s", "infs", "60 us", "1m"] {
            assert!(gap(bad).is_err(), "{bad}");
        }
    }
}
