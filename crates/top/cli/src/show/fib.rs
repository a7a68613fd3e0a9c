//! `show fib`: the routes that packets take, or the FIB's answer for one packet.
//!
//! Called by: `run.rs` asks, `show.rs` prints.

use core::fmt::Display;
use core::net::IpAddr;
use std::fmt::Write as _;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use wirespeed::control::Client;

use super::report::plain;
use super::within::Within;
use crate::Usage;
use crate::ip::{Words, lookup, vrf_table};
use crate::running::{ask, section, typed};
use wirespeed::control::protocol::{DaemonRoute, Found, Port, Question, Route, Section};

/// The wanted part of the FIB: all of it, or the words of a lookup.
pub(super) enum Wanted<'a> {
    All(Option<Within<'a>>),
    Lookup(&'a [String]),
}

impl Wanted<'_> {
    /// Parse the words behind `fib`.
    pub(super) fn of(words: &[String]) -> Result<Wanted<'_>> {
        match words {
            [first, words @ ..] if first == "lookup" => Ok(Wanted::Lookup(words)),
            [first, ..] if first != "vrf" && first != "table" => {
                let first = wirespeed::control::text::plain(first);
                let why = format!("'{first}' is not known: `show fib`, or `show fib lookup ADDR`");
                bail!(Usage(why))
            }
            words => Ok(Wanted::All(Within::of(words)?)),
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
    let (key, value) = match wanted {
        Wanted::All(within) => {
            let mut all = section(client, stack, Section::Routes)?;
            if let Some(within) = within {
                let ports: Vec<Port> = section(client, stack, Section::Ports)?;
                within.keep(&mut all, &ports)?;
            }
            ("fib", json!(taken(all)))
        }
        Wanted::Lookup(words) => {
            let ports: Vec<Port> = section(client, stack, Section::Ports)?;
            let vrf = |name: &str| vrf_table(&ports, name);
            let lookup = lookup(&mut Words::new(words), |name| number(&ports, name), vrf)?;
            let dst = lookup.dst;
            let found = typed(ask(client, &Question::Lookup { stack, lookup })?.body)?;
            ("lookup", json!(Answer { dst, found }))
        }
    };
    Ok(Map::from_iter([(key.to_owned(), value)]))
}

/// The answer to a lookup.
#[derive(Serialize, Deserialize)]
struct Answer {
    dst: IpAddr,
    #[serde(flatten)]
    found: Found,
}

fn number(ports: &[Port], name: &str) -> Result<u16> {
    let port = ports.iter().find(|port| port.name == name);
    let name = wirespeed::control::text::plain(name);
    let why = || format!("there is no port '{name}': `wirespeed show ports` has their names");
    Ok(port.ok_or_else(|| Usage(why()))?.port)
}

/// For each prefix the first of its routes, which is the best, and the routes that share its
/// packets.
fn taken(mut routes: Vec<Route>) -> Vec<Route> {
    let mut best: Option<Route> = None;
    routes.retain(|row| match &best {
        Some(best) if (best.table, best.destination) == (row.table, row.destination) => {
            best.metric == row.metric && best.weight.is_some() && row.weight.is_some()
        }
        _ => {
            best = Some(row.clone());
            true
        }
    });
    routes
}

/// The answers to a lookup, for people: a block for each stack.
pub(super) fn text(document: &Value) -> String {
    let mut t = String::new();
    for stack in document["stacks"].as_array().into_iter().flatten() {
        // Writing to a String cannot fail.
        let _ = writeln!(t, "stack {}", plain(&stack["name"]));
        if let Ok(found) = Answer::deserialize(&stack["lookup"]) {
            let _ = answer(&mut t, &found);
        }
    }
    t
}

/// A figure, or a dash.
fn known(value: Option<impl Display>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn answer(t: &mut String, Answer { dst, found }: &Answer) -> std::fmt::Result {
    let found = match found {
        Found::Local { dev, origin, .. } => {
            let by = match origin.as_deref() {
                Some("program") => ", by a program at its mirror",
                _ => "",
            };
            return writeln!(t, "  {dst}  is an address of port {dev}{by}");
        }
        Found::Dropped { drop, route } => {
            writeln!(
                t,
                "  {dst}  is dropped: {drop} (`wirespeed ip route` has the routes, `ip rule` the \
                 rules)"
            )?;
            return route.iter().try_for_each(|route| prefix(t, route));
        }
        Found::Leaves(leaving) => leaving,
    };
    let broadcast = if found.broadcast { ", a broadcast" } else { "" };
    writeln!(t, "  {dst}  leaves by port {} to {}{broadcast}", found.dev, found.next_hop)?;
    if let Some(rule) = &found.rule {
        let rule = crate::ip::rule_text(rule);
        let (priority, rule) = rule.split_once(":\t").unwrap_or_default();
        writeln!(t, "    rule       {priority}: {rule}")?;
    }
    match &found.route {
        None => writeln!(t, "    prefix     none: the address is of one link")?,
        Some(route) => prefix(t, route)?,
    }
    for other in &found.others {
        let via = other.via.map_or(String::new(), |via| format!(" via {via}"));
        let Route { dev, origin, metric, discard, .. } = other;
        let by =
            discard.as_ref().map_or_else(|| format!("dev {dev}"), |kind| format!("type {kind}"));
        let why = match &found.route {
            Some(used) if *metric > used.metric => format!("metric {} is lower", used.metric),
            Some(used) if *origin != used.origin => format!("proto {} comes first", used.origin),
            _ => "it came later, or its link is down".to_owned(),
        };
        writeln!(t, "    not used  {via} {by} proto {origin} metric {metric}: {why}")?;
    }
    for hop in &found.next_hops {
        let via = hop.via.map_or("on the link".to_owned(), |via| format!("via {via}"));
        let weight = hop.weight.map_or(String::new(), |weight| format!(" weight {weight}"));
        writeln!(t, "    next hop   {via} dev {}{weight}", hop.dev)?;
    }
    let neighbour = found.neighbour.as_deref().unwrap_or("not known");
    writeln!(t, "    neighbour  {neighbour} {}", known(found.mac))?;
    writeln!(t, "    source     {}", known(found.source))?;
    writeln!(
        t,
        "    mtu        {} (port {}, route {}, neighbour {}, path {})",
        found.mtu,
        found.port_mtu,
        known(found.route_mtu),
        known(found.neighbour_mtu),
        known(found.path_mtu)
    )
}

fn prefix(t: &mut String, route: &Route) -> std::fmt::Result {
    let Route { destination, table, origin, metric, discard, daemon, .. } = route;
    let mut more = discard.as_ref().map_or(String::new(), |kind| format!(" type {kind}"));
    if let Some(DaemonRoute { protocol, age_s, stale }) = daemon {
        let stale = if *stale { ", not sent again yet" } else { "" };
        more += &format!(", {protocol}, {age_s} s old{stale}");
    }
    writeln!(t, "    prefix     {destination} table {table} proto {origin} metric {metric}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(to: &str, table: u32, metric: u32, weight: Option<u8>) -> Route {
        let row = json!({
            "destination": to, "table": table, "metric": metric, "weight": weight, "port": 1,
            "dev": "wan", "origin": "static", "no_forward": false,
        });
        Route::deserialize(row).expect("a route")
    }

    #[test]
    fn packets_take_the_best_route_and_those_that_share_with_it() {
        let routes = vec![
            route("10.0.0.0/8", 254, 1, Some(1)),
            route("10.0.0.0/8", 254, 1, None),
            route("10.0.0.0/8", 254, 1, Some(2)),
            route("10.0.0.0/8", 254, 2, Some(3)),
            route("10.0.0.0/8", 7, 9, None),
            route("10.0.0.0/8", 7, 9, None),
            route("11.0.0.0/8", 7, 0, None),
        ];
        let rows = taken(routes);
        let weights: Vec<_> = rows.iter().map(|row| row.weight).collect();
        assert_eq!(weights, [Some(1), Some(2), None, None]);
        assert_eq!((rows[2].table, rows[3].destination.to_string()), (7, "11.0.0.0/8".to_owned()));
    }
}
