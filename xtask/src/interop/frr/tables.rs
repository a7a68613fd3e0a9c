//! Routes of our router and of a kernel, in one form to compare.
//!
//! Called by: the cases of the suite `frr`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::super::Workbench;
use super::super::host::Host;
use super::super::router::scene::{LIMIT, Scene};

/// Routes as text: type, destination, and the next hops in order.
pub(super) type Table = BTreeSet<String>;

/// The first number of a routing protocol of FRR (`/etc/iproute2/rt_protos.d/frr.conf`).
const FIRST_OF_FRR: u64 = 186;
const BIRD: u64 = 12;

/// The routes of the main table that FRR's daemons or BIRD wrote into a namespace's kernel.
pub(super) fn of_kernel(bench: &Workbench, host: &Host<'_>) -> Result<Table> {
    let of_frr = |row: &Value| {
        let number = row["protocol"].as_str().and_then(|number| number.parse::<u64>().ok());
        number.is_some_and(|number| number >= FIRST_OF_FRR || number == BIRD)
    };
    let mut table = Table::new();
    for version in ["-4", "-6"] {
        let mut ip = Command::new("ip");
        ip.args(["-n", host.name(), "-N", "-j", version, "route", "show"]);
        let rows = rows(&bench.run(&mut ip, LIMIT)?)?;
        table.extend(rows.iter().filter(|row| of_frr(row)).map(|row| line(row, version)));
    }
    Ok(table)
}

/// The routes of our router that came by FPM.
pub(super) fn of_ours(scene: &Scene<'_>) -> Result<Table> {
    of_daemon(scene, "fpm")
}

/// The routes of our router with this origin.
pub(super) fn of_daemon(scene: &Scene<'_>, origin: &str) -> Result<Table> {
    of_program(origin, |words| scene.ip(words))
}

/// The routes of a router of ours with this origin, by the output of `wirespeed ip`.
pub(super) fn of_program(origin: &str, ip: impl Fn(&[&str]) -> Result<String>) -> Result<Table> {
    let mut table = Table::new();
    for version in ["-4", "-6"] {
        let printed = ip(&[version, "-j", "route", "show", "proto", origin])?;
        table.extend(rows(&printed)?.iter().map(|row| line(row, version)));
    }
    Ok(table)
}

/// The unicast routes of protocols in zebra's own table, as `show ip route json` prints it.
pub(super) fn of_zebra(json: &str, version: &str) -> Result<Table> {
    let by_prefix: BTreeMap<String, Vec<Value>> =
        serde_json::from_str(json).with_context(|| format!("no JSON: {json}"))?;
    let is_chosen = |row: &&Value| {
        let protocol = row["protocol"].as_str().unwrap_or_default();
        row["selected"] == true && !["connected", "local", "kernel"].contains(&protocol)
    };
    let chosen = by_prefix.values().flatten().filter(is_chosen);
    let line_of = |row: &Value| {
        let word = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let hops = row["nexthops"].as_array().cloned().unwrap_or_default();
        let used = hops.iter().filter(|hop| hop["fib"] == true);
        let mut hops: Vec<String> = used
            .map(|hop| format!("{} {}", shown_hop(hop["ip"].as_str()), word(hop, "interfaceName")))
            .collect();
        hops.sort();
        format!("{version} unicast {} {}", word(row, "prefix"), hops.join(", "))
    };
    Ok(chosen.map(line_of).collect())
}

/// A next hop as tables have it.
fn shown_hop(via: Option<&str>) -> &str {
    let via = via.unwrap_or("link");
    // The same cable has other link addresses in another network.
    if via.starts_with("fe80:") { "link-local" } else { via }
}

/// Check that both have the same routes.
pub(super) fn same(ours: &Table, kernel: &Table) -> Result<()> {
    let text = |all: Vec<&String>| all.into_iter().cloned().collect::<Vec<_>>().join("; ");
    let more = text(ours.difference(kernel).collect());
    let less = text(kernel.difference(ours).collect());
    ensure!(ours == kernel, "we have and the kernel has not: {more}; the reverse: {less}");
    Ok(())
}

fn rows(json: &str) -> Result<Vec<Value>> {
    serde_json::from_str(json).with_context(|| format!("no JSON: {json}"))
}

fn line(row: &Value, version: &str) -> String {
    let word = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    // With numbers for protocols ip(8) prints numbers for types, too.
    let kind = match row["type"].as_str().unwrap_or("unicast") {
        "6" => "blackhole",
        "7" => "unreachable",
        "8" => "prohibit",
        kind => kind,
    };
    let hop = |row: &Value| {
        let via = shown_hop(row["gateway"].as_str().or(row["via"]["host"].as_str()));
        format!("{via} {}", word(row, "dev"))
    };
    let mut hops: Vec<String> = match row["nexthops"].as_array() {
        Some(hops) => hops.iter().map(hop).collect(),
        // The kernel says `dev lo` for IPv6 routes that drop packets.
        None if kind != "unicast" => Vec::new(),
        None => vec![hop(row)],
    };
    hops.sort();
    format!("{version} {kind} {} {}", word(row, "dst"), hops.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zebras_table_has_the_form_of_a_kernels() {
        let zebras = r#"{"10.1.0.0/24":[{"prefix":"10.1.0.0/24","protocol":"connected",
            "selected":true,"nexthops":[{"fib":true,"interfaceName":"lan"}]}],
            "10.2.0.0/24":[{"prefix":"10.2.0.0/24","protocol":"bgp","selected":true,"nexthops":[
            {"fib":true,"ip":"fe80::2","interfaceName":"b"},
            {"ip":"fe80::3","interfaceName":"c"},
            {"fib":true,"ip":"fe80::1","interfaceName":"a"}]}]}"#;
        let kernels: Value = serde_json::from_str(
            r#"{"dst":"10.2.0.0/24","nexthops":[{"via":{"host":"fe80::1"},"dev":"a"},
            {"via":{"host":"fe80::2"},"dev":"b"}]}"#,
        )
        .unwrap();
        let expected = Table::from([line(&kernels, "-4")]);
        assert_eq!(of_zebra(zebras, "-4").unwrap(), expected);
        assert_eq!(of_zebra("{}", "-4").unwrap(), Table::new());
    }
}
