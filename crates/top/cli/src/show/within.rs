//! The table whose routes `show routes` and `show fib` show: `vrf NAME`, or `table N`.
//!
//! Called by: `args.rs`, `run.rs`, `fib.rs`.

use anyhow::{Result, bail};
use wirespeed::control::protocol::{Port, Route};
use wirespeed::control::text::plain;

use crate::Usage;
use crate::ip::vrf_table;

/// A table, as the command line names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Within<'a> {
    Vrf(&'a str),
    Table(u32),
}

impl<'a> Within<'a> {
    /// Parse the words; `None` if there are none.
    ///
    /// # Errors
    /// [`Usage`]: other words.
    pub(super) fn of(words: &'a [String]) -> Result<Option<Within<'a>>> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let within = match *words.as_slice() {
            [] => return Ok(None),
            ["vrf", name] => Some(Within::Vrf(name)),
            ["table", "main"] => Some(Within::Table(wirespeed::MAIN_TABLE)),
            ["table", number] => number.parse().ok().map(Within::Table),
            _ => None,
        };
        let why = || format!("'{}' is not known: `vrf NAME` or `table N`", plain(&words.join(" ")));
        within.map_or_else(|| bail!(Usage(why())), |within| Ok(Some(within)))
    }

    /// Keep the routes of the table.
    ///
    /// # Errors
    /// [`Usage`]: there is no such VRF.
    pub(super) fn keep(self, routes: &mut Vec<Route>, ports: &[Port]) -> Result<()> {
        let table = match self {
            Within::Vrf(name) => vrf_table(ports, name)?,
            Within::Table(table) => table,
        };
        routes.retain(|route| route.table == table);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_a_table() {
        let of = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            Within::of(&words).map(|within| within.map(|within| format!("{within:?}"))).ok()
        };
        assert_eq!(of(&[]), Some(None));
        assert_eq!(of(&["vrf", "blue"]), Some(Some("Vrf(\"blue\")".to_owned())));
        assert_eq!(of(&["table", "10"]), Some(Some("Table(10)".to_owned())));
        assert_eq!(of(&["table", "main"]), Some(Some("Table(254)".to_owned())));
        for wrong in [&["vrf"][..], &["table", "x"], &["blue"], &["vrf", "a", "b"]] {
            assert_eq!(of(wrong), None);
        }
    }
}
