//! `ip vrf`, and the tables of VRFs by name.
//!
//! Called by: `ip.rs`, `route.rs`, `get.rs`, and `show`. Source: ip-vrf(8). A VRF is known while it
//! has ports.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use serde::Serialize;

use super::args::Args;
use super::run::Asked;
use super::words::{Words, garbage, unknown};
use crate::Usage;
use wirespeed::control::protocol::Port;
use wirespeed::control::text::plain;

const COMMANDS: [&str; 3] = ["list", "show", "lst"];

/// A row with the keys of `ip -j vrf`.
#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    table: u32,
}

/// The VRFs with their tables.
pub(super) fn run(args: &Args, mut words: Words) -> Result<String> {
    if words.command(&COMMANDS).is_none() {
        return unknown("vrf");
    }
    let wanted = words.next();
    if let Some(word) = words.next() {
        return garbage(word);
    }
    let asked = Asked::open(args)?;
    if let Some(name) = wanted {
        table(&asked.ports, name)?;
    }
    let all = tables(&asked.ports).into_iter();
    let all = all.filter(|(name, _)| wanted.is_none_or(|wanted| wanted == *name));
    let rows: Vec<Row> = all.map(|(name, table)| Row { name, table }).collect();
    let text = args.listed(&rows, |row| format!("{:<16}  {:>5}", plain(row.name), row.table))?;
    Ok(if args.json || rows.is_empty() { text } else { HEAD.to_owned() + &text })
}

/// As ip(8) prints it.
const HEAD: &str = "Name              Table\n-----------------------\n";

fn tables(ports: &[Port]) -> BTreeMap<&str, u32> {
    let vrfs = ports.iter().filter_map(|port| port.vrf.as_ref());
    vrfs.map(|vrf| (vrf.name.as_str(), vrf.table)).collect()
}

/// The table of the VRF with this name.
///
/// # Errors
/// [`Usage`]: there is none.
pub(crate) fn table(ports: &[Port], name: &str) -> Result<u32> {
    match tables(ports).get(name) {
        Some(&table) => Ok(table),
        None => bail!(Usage(format!(
            "there is no VRF \"{}\": `wirespeed ip vrf` has their names",
            plain(name)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirespeed::control::protocol::Vrf;

    #[test]
    fn a_vrf_is_listed_once_and_found_by_name() {
        let port = |vrf: Option<(&str, u32)>| Port {
            vrf: vrf.map(|(name, table)| Vrf { name: name.to_owned(), table }),
            ..Port::default()
        };
        let ports = [Some(("red", 20)), None, Some(("blue", 10)), Some(("red", 20))].map(port);
        assert_eq!(tables(&ports).into_iter().collect::<Vec<_>>(), [("blue", 10), ("red", 20)]);
        assert_eq!(table(&ports, "blue").ok(), Some(10));
        let why = table(&ports, "green").expect_err("there is none").to_string();
        assert!(why.contains("\"green\"") && why.contains("ip vrf"), "{why}");
    }
}
