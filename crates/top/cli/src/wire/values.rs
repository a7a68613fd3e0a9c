//! The values of `wire`'s options: for both directions or for one, and those with several parts.
//!
//! Called by: clap, through `args.rs`. Each error says what is expected. Rates, times, shares and
//! sizes are parsed as in tc(8) (`sim::units`).

use link::real::Timing;
use link::units::time;
use wirespeed::{Duration, Mtu};

use crate::Usage;

/// A value for both directions, or for one: 0 is from A to B.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct OneWay<T> {
    direction: Option<usize>,
    value: T,
}

/// The value for a direction.
pub(super) fn of<T: Copy>(said: &[OneWay<T>], direction: usize) -> Option<T> {
    all_of(said, direction).next()
}

/// All values for a direction.
pub(super) fn all_of<T: Copy>(said: &[OneWay<T>], direction: usize) -> impl Iterator<Item = T> {
    said.iter().filter(move |s| s.direction.is_none_or(|w| w == direction)).map(|s| s.value)
}

/// Check that an option is given at most once for each direction.
///
/// # Errors
/// The option that is given twice, and what to give instead.
pub(super) fn once<T>(option: &str, said: &[OneWay<T>]) -> Result<(), Usage> {
    once_unless(option, said, |_, _| false)
}

/// The same, but two values for a direction are allowed if they `differ`.
pub(super) fn once_unless<T>(
    option: &str,
    said: &[OneWay<T>],
    differ: impl Fn(&T, &T) -> bool,
) -> Result<(), Usage> {
    for (n, later) in said.iter().enumerate() {
        let overlaps = |earlier: &&OneWay<T>| {
            let same = earlier.direction == later.direction;
            let overlap = same || earlier.direction.is_none() || later.direction.is_none();
            overlap && !differ(&earlier.value, &later.value)
        };
        if let Some(earlier) = said[..n].iter().find(overlaps) {
            let which = match later.direction.or(earlier.direction) {
                Some(0) => " for ab",
                Some(_) => " for ba",
                None => "",
            };
            return Err(Usage(format!(
                "{option} is given twice{which}: give it once, or once with ab: and once with \
                 ba: in front"
            )));
        }
    }
    Ok(())
}

type Parsed<T> = Result<T, String>;

/// Parser of a value with an optional direction in front.
pub(super) fn one_way<T>(
    parse: fn(&str) -> Parsed<T>,
) -> impl Fn(&str) -> Parsed<OneWay<T>> + Clone {
    move |text| {
        let (direction, rest) = match text.split_once(':') {
            Some(("ab", rest)) => (Some(0), rest),
            Some(("ba", rest)) => (Some(1), rest),
            Some((other, _)) if other.starts_with(|c: char| c.is_alphabetic()) => {
                return Err(format!("expected ab: or ba: and not {other}:"));
            }
            // The colon separates parts of the value.
            _ => (None, text),
        };
        Ok(OneWay { direction, value: parse(rest)? })
    }
}

pub(super) fn mtu(text: &str) -> Parsed<(Mtu, Duration)> {
    let (bytes, from) = text.split_once('@').unwrap_or((text, "0s"));
    let mtu = bytes.parse().ok().and_then(Mtu::new);
    Ok((mtu.ok_or("expected an MTU from 68 to 65535, such as 1500 or 1280@5s")?, time(from)?))
}

pub(super) fn timing(text: &str) -> Parsed<Timing> {
    match text {
        "sleep" => Ok(Timing::Sleep),
        "spin" => Ok(Timing::Spin),
        _ => Err("expected sleep or spin".to_owned()),
    }
}

pub(super) fn on_off(text: &str) -> Parsed<bool> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("expected on or off".to_owned()),
    }
}

#[cfg(test)]
mod tests;
