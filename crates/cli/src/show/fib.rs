//! `show fib`: the routes that packets take, or what the FIB says of one packet.
//!
//! Called by: `run.rs` asks, `show.rs` prints.

use std::fmt::Write as _;

use anyhow::{Result, bail};
use serde_json::{Map, Value, json};
use wirespeed::control::Client;

use super::report::plain;
use crate::Usage;
use crate::ip::{Words, lookup};
use crate::running::{ask, whole};
use wirespeed::control::protocol::{Question, Section};

/// What of the FIB: all of it, or the words of a lookup.
pub(super) enum Wanted<'a> {
    All,
    Lookup(&'a [String]),
}

impl Wanted<'_> {
    /// Of the words behind `fib`.
    pub(super) fn of(words: &[String]) -> Result<Wanted<'_>> {
        match words {
            [] => Ok(Wanted::All),
            [first, words @ ..] if first == "lookup" => Ok(Wanted::Lookup(words)),
            [first, ..] => {
                let first = wirespeed::control::text::plain(first);
                let why = format!("'{first}' is not known: `show fib`, or `show fib lookup ADDR`");
                bail!(Usage(why))
            }
        }
    }
}

/// Ask a stack.
///
/// # Errors
/// [`Usage`]: the words are wrong, or name a port that this stack does not have.
pub(super) fn ask_stack(
    client: &mut Client,
    stack: usize,
    wanted: &Wanted<'_>,
) -> Result<Map<String, Value>> {
    let ports = whole(client, stack, Section::Ports)?;
    let ports = ports.as_array().map_or(&[][..], Vec::as_slice);
    let (key, value) = match wanted {
        Wanted::All => ("fib", taken(whole(client, stack, Section::Routes)?, ports)),
        Wanted::Lookup(words) => {
            let lookup = lookup(&mut Words::new(words), |name| number(ports, name))?;
            let dst = lookup.dst.to_string();
            let mut found = ask(client, &Question::Lookup { stack, lookup })?.body;
            found["dst"] = json!(dst);
            ("lookup", found)
        }
    };
    Ok(Map::from_iter([(key.to_owned(), value)]))
}

fn number(ports: &[Value], name: &str) -> Result<u16> {
    let port = ports.iter().find(|port| port["name"] == name);
    let number = port.and_then(|port| port["port"].as_u64()?.try_into().ok());
    let name = wirespeed::control::text::plain(name);
    let why = || format!("there is no port '{name}': `wirespeed show ports` has their names");
    Ok(number.ok_or_else(|| Usage(why()))?)
}

/// Of the routes of each prefix the first, which is the best, and those that share its packets.
fn taken(routes: Value, ports: &[Value]) -> Value {
    let Value::Array(mut rows) = routes else { return routes };
    let mut best = Value::Null;
    rows.retain_mut(|row| {
        let port = ports.iter().find(|port| port["port"] == row["port"]);
        row["dev"] = port.map_or(Value::Null, |port| port["name"].clone());
        let same = |key: &str| best[key] == row[key];
        if same("table") && same("destination") {
            return same("metric") && !best["weight"].is_null() && !row["weight"].is_null();
        }
        best = row.clone();
        true
    });
    Value::Array(rows)
}

/// The answers to a lookup, for people: a block for each stack.
pub(super) fn text(document: &Value) -> String {
    let mut t = String::new();
    for stack in document["stacks"].as_array().into_iter().flatten() {
        // Writing to a String cannot fail.
        let _ = writeln!(t, "stack {}", plain(&stack["name"]));
        let _ = answer(&mut t, &stack["lookup"]);
    }
    t
}

fn answer(t: &mut String, found: &Value) -> std::fmt::Result {
    let at = |key: &str| plain(&found[key]);
    match found["result"].as_str() {
        Some("local") => {
            return writeln!(t, "  {}  is an address of port {}", at("dst"), at("dev"));
        }
        Some("leaves") => {}
        _ => {
            return writeln!(
                t,
                "  {}  is dropped: {} (`wirespeed ip route` has the routes, `ip rule` the rules)",
                at("dst"),
                at("drop")
            );
        }
    }
    let broadcast = if found["broadcast"] == true { ", a broadcast" } else { "" };
    writeln!(t, "  {}  leaves by port {} to {}{broadcast}", at("dst"), at("dev"), at("next_hop"))?;
    if !found["rule"].is_null() {
        let rule = crate::ip::rule_text(&found["rule"]);
        let (priority, rule) = rule.split_once(":\t").unwrap_or_default();
        writeln!(t, "    rule       {priority}: {rule}")?;
    }
    let route = &found["route"];
    let of = |key: &str| plain(&route[key]);
    match route.is_null() {
        true => writeln!(t, "    prefix     none: the address is of one link")?,
        false => writeln!(
            t,
            "    prefix     {} table {} proto {} metric {}",
            of("destination"),
            at("table"),
            of("origin"),
            of("metric")
        )?,
    }
    for hop in found["next_hops"].as_array().into_iter().flatten() {
        let via = if hop["via"].is_null() { "on the link" } else { "via" };
        let weight = hop["weight"].as_u64().map_or(String::new(), |w| format!(" weight {w}"));
        let via = hop["via"].as_str().map_or(via.to_owned(), |ip| format!("{via} {ip}"));
        writeln!(t, "    next hop   {via} dev {}{weight}", plain(&hop["dev"]))?;
    }
    let known = |key: &str| found[key].as_str().unwrap_or("not known").to_owned();
    writeln!(t, "    neighbour  {} {}", known("neighbour"), at("mac"))?;
    writeln!(t, "    source     {}", at("source"))?;
    writeln!(
        t,
        "    mtu        {} (port {}, route {}, neighbour {}, path {})",
        at("mtu"),
        at("port_mtu"),
        at("route_mtu"),
        at("neighbour_mtu"),
        at("path_mtu")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(to: &str, table: u32, metric: u32, weight: Option<u8>) -> Value {
        json!({ "destination": to, "table": table, "metric": metric, "weight": weight, "port": 1 })
    }

    #[test]
    fn packets_take_the_best_route_and_those_that_share_with_it() {
        let ports = [json!({ "port": 1, "name": "wan" })];
        let routes = json!([
            route("10.0.0.0/8", 254, 1, Some(1)),
            route("10.0.0.0/8", 254, 1, None),
            route("10.0.0.0/8", 254, 1, Some(2)),
            route("10.0.0.0/8", 254, 2, Some(3)),
            route("10.0.0.0/8", 7, 9, None),
            route("10.0.0.0/8", 7, 9, None),
            route("11.0.0.0/8", 7, 0, None),
        ]);
        let rows = taken(routes, &ports);
        let weights: Vec<_> = rows.as_array().into_iter().flatten().map(|r| &r["weight"]).collect();
        assert_eq!(weights, [&json!(1), &json!(2), &Value::Null, &Value::Null]);
        assert_eq!((&rows[2]["table"], &rows[3]["destination"]), (&json!(7), &json!("11.0.0.0/8")));
        assert_eq!(rows[0]["dev"], "wan");
    }
}
