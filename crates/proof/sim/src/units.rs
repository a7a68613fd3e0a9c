//! Parses values on the command line: those of a path, and parts of a campaign.
//!
//! Called by: the program `wirespeed-sim`, experiments. The crate `link` parses rates, times,
//! shares and sizes.

pub use link::units::{bytes, rate, share, time};

/// `I/N`: part I of N parts, counted from 0.
///
/// # Errors
/// A sentence that says how to write the value.
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
    fn a_part_is_one_of_all() {
        assert_eq!(shard("3/8"), Ok((3, 8)));
        assert!(shard("8/8").is_err() && shard("0/0").is_err() && shard("1").is_err());
    }
}
