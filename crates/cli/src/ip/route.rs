//! `ip route`.
//!
//! Called by: `ip.rs`. Source: ip-route(8).

use core::net::IpAddr;

use anyhow::Result;
use serde_json::{Value, json};
use wirespeed::{Cidr, MAIN_TABLE};

use super::args::Args;
use super::get;
use super::line::line;
use super::run::{Asked, text, verb};
use super::words::{Words, garbage, prefix, table, unknown, usage};
use wirespeed::control::protocol::{Change, Hop, Object, RouteSpec, Section, Verb};

const COMMANDS: [&str; 10] =
    ["list", "show", "lst", "get", "add", "change", "chg", "replace", "delete", "flush"];
const PROTOCOLS: [&str; 5] = ["static", "kernel", "ra", "redirect", "dhcp"];

/// How a prefix selects routes.
#[derive(Clone, Copy)]
enum Match {
    Exact,
    /// Those that it is in.
    Longer,
    /// Those in it.
    Root,
}

/// Which routes.
#[derive(Default)]
struct Selector {
    table: Option<u32>,
    to: Option<(Match, Cidr)>,
    dev: Option<u16>,
    via: Option<IpAddr>,
    proto: Option<String>,
    metric: Option<u32>,
}

/// Routes: shown, changed or looked up.
pub(super) fn run(args: &Args, mut words: Words) -> Result<String> {
    let Some(command) = words.command(&COMMANDS) else { return unknown("route") };
    let mut asked = Asked::open(args)?;
    if let Some(verb) = verb(command) {
        let spec = spec(args, &asked, verb, &mut words)?;
        asked.change(&[Change { verb, of: Object::Route(spec) }])?;
        return Ok(String::new());
    }
    if command == "get" {
        return get::run(args, &mut asked, &mut words);
    }
    let (selector, has_any) = selector(args, &asked, &mut words)?;
    if command == "flush" && !has_any {
        return usage("flush needs a selector: `ip route flush table N`, or a PREFIX");
    }
    let mut found = asked.rows(Section::Routes)?;
    found.retain(|row| args.wants(&text(row, "destination")) && selector.selects(row));
    // As Linux lists them: by address.
    found.sort_by_cached_key(|row| {
        let dest = text(row, "destination").parse::<Cidr>().ok();
        (row["table"].as_u64() == Some(MAIN_TABLE.into()), dest.map(|d| (d.addr, d.prefix_len)))
    });
    if command == "flush" {
        let gone: Vec<Change> = found.iter().filter_map(removal).collect();
        asked.change(&gone)?;
        return Ok(String::new());
    }
    let addresses = asked.rows(Section::Addresses)?;
    let rows = grouped(&found, &asked, &addresses, &selector);
    args.listed(&rows, line)
}

fn selector(args: &Args, asked: &Asked, words: &mut Words) -> Result<(Selector, bool)> {
    let mut selector = Selector { table: Some(MAIN_TABLE), ..Selector::default() };
    let mut has_any = false;
    while let Some(word) = words.next() {
        has_any = true;
        let how = match word {
            "root" => Match::Root,
            "match" => Match::Longer,
            _ => Match::Exact,
        };
        match word {
            "table" => selector.table = table(words.value("table")?)?,
            "dev" => selector.dev = Some(asked.port(words.value("dev")?)?),
            "via" => selector.via = Some(words.parsed("via")?),
            "metric" => selector.metric = Some(words.parsed("metric")?),
            "proto" | "protocol" => selector.proto = Some(protocol(words.value("proto")?)?),
            "to" | "root" | "match" | "exact" => {
                selector.to = Some((how, prefix(words.value(word)?, args.v6)?));
            }
            word if selector.to.is_none() => selector.to = Some((how, prefix(word, args.v6)?)),
            word => return garbage(word),
        }
    }
    Ok((selector, has_any))
}

fn protocol(word: &str) -> Result<String> {
    match PROTOCOLS.contains(&word) {
        true => Ok(word.to_owned()),
        false => usage(&format!("argument \"{word}\" is wrong: proto is one of {PROTOCOLS:?}")),
    }
}

impl Selector {
    fn selects(&self, row: &Value) -> bool {
        let Ok(dest) = text(row, "destination").parse::<Cidr>() else { return false };
        let is_in = |(how, to): (Match, Cidr)| match how {
            Match::Exact => dest == to.network(),
            Match::Longer => dest.prefix_len <= to.prefix_len && dest.contains(to.addr),
            Match::Root => dest.prefix_len >= to.prefix_len && to.contains(dest.addr),
        };
        self.table.is_none_or(|table| row["table"] == table)
            && self.to.is_none_or(is_in)
            && self.dev.is_none_or(|port| row["port"] == port)
            && self.via.is_none_or(|via| text(row, "via").parse() == Ok(via))
            && self.proto.as_ref().is_none_or(|proto| row["origin"] == proto.as_str())
            && self.metric.is_none_or(|metric| row["metric"] == metric)
    }
}

/// Rows with the keys of `ip -j route`: those that share packets are one.
fn grouped(found: &[Value], asked: &Asked, addresses: &[Value], by: &Selector) -> Vec<Value> {
    let mut rows: Vec<Value> = Vec::new();
    let mut last: Option<&Value> = None;
    for route in found {
        let same = |key: &str| last.is_some_and(|last| last[key] == route[key]);
        let is_shared = !route["weight"].is_null();
        let of_group = is_shared
            && last.is_some_and(|last| !last["weight"].is_null())
            && ["destination", "table", "metric", "include", "exclude", "no_forward"]
                .iter()
                .all(|key| same(key));
        last = Some(route);
        let mut row = match (of_group, rows.pop()) {
            (true, Some(row)) => row,
            (_, before) => {
                rows.extend(before);
                shown(route, asked, addresses, by)
            }
        };
        if is_shared {
            let mut hop =
                json!({ "dev": asked.name(route), "weight": route["weight"], "flags": [] });
            if route["via"].is_string() {
                hop["gateway"] = route["via"].clone();
            }
            match row["nexthops"].as_array_mut() {
                Some(hops) => hops.push(hop),
                None => row["nexthops"] = json!([hop]),
            }
        }
        rows.push(row);
    }
    rows
}

fn shown(route: &Value, asked: &Asked, addresses: &[Value], by: &Selector) -> Value {
    let dest = text(route, "destination");
    let is_v6 = dest.contains(':');
    let host = if is_v6 { "/128" } else { "/32" };
    let dst = match dest.as_str() {
        "0.0.0.0/0" | "::/0" => "default",
        dest => dest.strip_suffix(host).unwrap_or(dest),
    };
    let port = asked.ports.iter().find(|port| port["port"] == route["port"]);
    let is_down = port.is_some_and(|port| port["link_up"] == false);
    let flags = if is_down { vec!["linkdown"] } else { Vec::new() };
    let mut row = json!({ "dst": dst, "flags": flags });
    let is_shared = !route["weight"].is_null();
    if route["via"].is_string() && by.via.is_none() && !is_shared {
        row["gateway"] = route["via"].clone();
    }
    if by.dev.is_none() && !is_shared {
        row["dev"] = asked.name(route);
    }
    if by.table.is_none() && route["table"] != MAIN_TABLE {
        row["table"] = json!(route["table"].to_string());
    }
    if by.proto.is_none() {
        row["protocol"] = route["origin"].clone();
    }
    if !is_v6 && route["via"].is_null() {
        row["scope"] = json!("link");
    }
    if let Some(source) = source(route, addresses).filter(|_| !is_v6) {
        row["prefsrc"] = json!(source);
    }
    if is_v6 || route["metric"] != 0 {
        row["metric"] = route["metric"].clone();
    }
    if let Some(ms) = route["expires_ms"].as_u64() {
        row["expires"] = json!(ms / 1000);
    }
    for key in ["include", "exclude"] {
        if route[key].is_array() {
            row[key] = route[key].clone();
        }
    }
    if route["no_forward"] == true {
        row["no_forward"] = json!(true);
    }
    if route["mtu"].is_u64() {
        row["metrics"] = json!([{ "mtu": route["mtu"] }]);
    }
    if is_v6 {
        row["pref"] = json!("medium");
    }
    row
}

/// The address that a connected route is of.
fn source(route: &Value, addresses: &[Value]) -> Option<String> {
    let dest = text(route, "destination").parse::<Cidr>().ok()?;
    let of_it = |row: &&Value| {
        let cidr = text(row, "address").parse::<Cidr>();
        row["port"] == route["port"] && cidr.is_ok_and(|cidr| cidr.network() == dest)
    };
    let row = addresses.iter().filter(|_| route["origin"] == "kernel").find(of_it)?;
    Some(text(row, "address").split('/').next()?.to_owned())
}

fn removal(row: &Value) -> Option<Change> {
    let hop = Hop {
        via: text(row, "via").parse().ok(),
        port: row["port"].as_u64()?.try_into().ok(),
        weight: None,
    };
    let spec = RouteSpec {
        to: text(row, "destination"),
        table: row["table"].as_u64()?.try_into().ok()?,
        metric: row["metric"].as_u64()?.try_into().ok(),
        hops: vec![hop],
        ..RouteSpec::default()
    };
    Some(Change { verb: Verb::Del, of: Object::Route(spec) })
}

/// Names with commas between them; without any, no group.
fn groups(word: &str) -> Vec<String> {
    word.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn spec(args: &Args, asked: &Asked, verb: Verb, words: &mut Words) -> Result<RouteSpec> {
    let mut spec = RouteSpec { table: MAIN_TABLE, ..RouteSpec::default() };
    let (mut to, mut hop) = (None::<String>, Hop::default());
    while let Some(word) = words.next() {
        match word {
            // It begins another next hop; the first one may have come without the word.
            "nexthop" => {
                if hop != Hop::default() {
                    spec.hops.push(std::mem::take(&mut hop));
                }
                hop.weight = Some(1);
            }
            "via" => match words.value("via")? {
                "inet" | "inet6" => hop.via = Some(words.parsed("via")?),
                via => hop.via = Some(Words::new(&[via.to_owned()]).parsed("via")?),
            },
            "dev" => hop.port = Some(asked.port(words.value("dev")?)?),
            "weight" => match words.parsed("weight")? {
                weight @ 1.. => hop.weight = Some(weight),
                0 => return usage("a weight is 1 to 255"),
            },
            "metric" | "preference" => spec.metric = Some(words.parsed("metric")?),
            "mtu" => spec.mtu = Some(words.parsed("mtu")?),
            "table" => match table(words.value("table")?)? {
                Some(table) => spec.table = table,
                None => return usage("a route is in one table: give its number"),
            },
            "onlink" => spec.onlink = true,
            "include" => spec.include = Some(groups(words.value("include")?)),
            "exclude" => spec.exclude = Some(groups(words.value("exclude")?)),
            "no_forward" => spec.no_forward = true,
            "proto" | "protocol" => match (words.value("proto")?, verb) {
                (proto, Verb::Del) => spec.proto = Some(protocol(proto)?),
                ("static" | "boot", _) => {}
                _ => return usage("the routes of users are of proto static: leave proto out"),
            },
            "unicast" | "to" => {}
            word if to.is_none() => to = Some(word.to_owned()),
            word => return garbage(word),
        }
    }
    if hop != Hop::default() {
        spec.hops.push(hop);
    }
    let Some(to) = to else { return usage("a prefix is required: `ip route add PREFIX via IP`") };
    let is_v6 = args.v6 || spec.hops.iter().any(|hop| hop.via.is_some_and(|via| via.is_ipv6()));
    spec.to = prefix(&to, is_v6)?.to_string();
    Ok(spec)
}
