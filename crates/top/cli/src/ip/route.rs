//! `ip route`.
//!
//! Called by: `ip.rs`. Source: ip-route(8).

use core::net::IpAddr;

use anyhow::Result;
use wirespeed::{Cidr, MAIN_TABLE};

use super::args::Args;
use super::get;
use super::line::{Line, Metrics, NextHop, destination, gateway};
use super::run::{Asked, verb};
use super::words::{Words, garbage, prefix, table, unknown, usage};
use wirespeed::control::protocol::{Address, Change, Hop, Object, Route, RouteSpec, Section, Verb};

const COMMANDS: [&str; 10] =
    ["list", "show", "lst", "get", "add", "change", "chg", "replace", "delete", "flush"];
const PROTOCOLS: [&str; 7] = ["static", "kernel", "ra", "redirect", "dhcp", "fpm", "rtnetlink"];
/// Origins of routes that only a routing daemon removes.
const OF_DAEMONS: [&str; 2] = ["fpm", "rtnetlink"];
/// The types of routes that drop their packets.
const DISCARDS: [&str; 3] = ["blackhole", "unreachable", "prohibit"];

/// How a prefix selects routes.
#[derive(Clone, Copy)]
enum Match {
    Exact,
    /// Routes to networks that contain the prefix.
    Longer,
    /// Routes to networks inside the prefix.
    Root,
}

/// The routes that are selected.
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
    let mut found: Vec<Route> = asked.rows(Section::Routes)?;
    found.retain(|row| args.wants(row.destination.addr) && selector.selects(row));
    // Linux lists routes by address, too.
    found.sort_by_key(|row| {
        let dest = row.destination;
        (row.table == MAIN_TABLE, dest.addr, dest.prefix_len)
    });
    if command == "flush" {
        found.retain(|row| !OF_DAEMONS.contains(&row.origin.as_str()));
        let gone: Vec<Change> = found.iter().map(removal).collect();
        asked.change(&gone)?;
        return Ok(String::new());
    }
    let addresses = asked.rows(Section::Addresses)?;
    let rows = grouped(&found, &asked, &addresses, &selector);
    args.listed(&rows, Line::text)
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
            "vrf" => selector.table = Some(asked.vrf(words.value("vrf")?)?),
            "dev" => selector.dev = Some(asked.port(words.value("dev")?)?),
            "via" => {
                selector.via = Some(match words.value("via")? {
                    "inet" | "inet6" => words.parsed("via")?,
                    via => Words::new(&[via.to_owned()]).parsed("via")?,
                });
            }
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
    fn selects(&self, row: &Route) -> bool {
        let dest = row.destination;
        let is_in = |(how, to): (Match, Cidr)| match how {
            Match::Exact => dest == to.network(),
            Match::Longer => dest.prefix_len <= to.prefix_len && dest.contains(to.addr),
            Match::Root => dest.prefix_len >= to.prefix_len && to.contains(dest.addr),
        };
        self.table.is_none_or(|table| row.table == table)
            && self.to.is_none_or(is_in)
            && self.dev.is_none_or(|port| row.port == port)
            && self.via.is_none_or(|via| row.via == Some(via))
            && self.proto.as_ref().is_none_or(|proto| row.origin == *proto)
            && self.metric.is_none_or(|metric| row.metric == metric)
    }
}

/// Routes as they are shown: routes that share packets (ECMP) are one line.
fn grouped(found: &[Route], asked: &Asked, addresses: &[Address], by: &Selector) -> Vec<Line> {
    // The fields that are equal in routes that share packets.
    let key = |r: &Route| {
        let rest = (r.include.clone(), r.exclude.clone(), r.no_forward, r.origin.clone());
        r.weight.map(|_| (r.destination, r.table, r.metric, rest))
    };
    let mut rows: Vec<Line> = Vec::new();
    let mut last = None;
    for route in found {
        let key = key(route);
        if key.is_none() || key != last {
            rows.push(shown(route, asked, addresses, by));
        }
        if let (Some(weight), Some(row)) = (route.weight, rows.last_mut()) {
            let (dev, weight) = (route.dev.clone(), Some(weight));
            let (gateway, via) = gateway(route.destination.addr, route.via);
            row.nexthops.push(NextHop { dev, weight, flags: [], gateway, via });
        }
        last = key;
    }
    rows
}

fn shown(route: &Route, asked: &Asked, addresses: &[Address], by: &Selector) -> Line {
    let is_v6 = route.destination.addr.is_ipv6();
    let port = asked.ports.iter().find(|port| port.port == route.port);
    let is_down = port.is_some_and(|port| !port.link_up);
    let is_shared = route.weight.is_some();
    let is_of_main = route.table == MAIN_TABLE;
    let (gateway, via) = gateway(route.destination.addr, route.via.filter(|_| !is_shared));
    let discard = route.discard.as_deref();
    let kind = discard.and_then(|name| DISCARDS.into_iter().find(|known| *known == name));
    // As ip(8): the loopback interface, for IPv6 alone.
    let dev = match kind {
        Some(_) => is_v6.then(|| "lo".to_owned()),
        None => Some(route.dev.clone()),
    };
    Line {
        kind,
        dst: destination(route.destination),
        // As ip(8): a gateway that the selector names is left out, but not the key `via`.
        gateway: gateway.filter(|_| by.via.is_none()),
        via,
        dev: dev.filter(|_| by.dev.is_none() && !is_shared),
        table: (by.table.is_none() && !is_of_main).then(|| route.table.to_string()),
        protocol: by.proto.is_none().then(|| route.origin.clone()),
        scope: (!is_v6 && route.via.is_none() && kind.is_none()).then_some("link"),
        prefsrc: source(route, addresses).filter(|_| !is_v6),
        metric: (is_v6 || route.metric != 0).then_some(route.metric),
        include: route.include.clone(),
        exclude: route.exclude.clone(),
        no_forward: route.no_forward.then_some(true),
        flags: if is_down { vec!["linkdown"] } else { Vec::new() },
        expires: route.expires_ms.map(|ms| ms / 1000),
        metrics: route.mtu.map(|mtu| [Metrics { mtu }]),
        pref: is_v6.then_some("medium"),
        ..Line::default()
    }
}

/// The address that a connected route comes from.
fn source(route: &Route, addresses: &[Address]) -> Option<IpAddr> {
    let of_it =
        |row: &&Address| row.port == route.port && row.address.network() == route.destination;
    let row = addresses.iter().filter(|_| route.origin == "kernel").find(of_it)?;
    Some(row.address.addr)
}

fn removal(row: &Route) -> Change {
    let spec = RouteSpec {
        to: row.destination.to_string(),
        table: row.table,
        metric: Some(row.metric),
        hops: match row.discard {
            Some(_) => Vec::new(),
            None => vec![Hop { via: row.via, port: Some(row.port), weight: None }],
        },
        discard: row.discard.clone(),
        ..RouteSpec::default()
    };
    Change { verb: Verb::Del, of: Object::Route(spec) }
}

/// Names with commas between them; without any, no group.
fn groups(word: &str) -> Vec<String> {
    word.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn spec(args: &Args, asked: &Asked, verb: Verb, words: &mut Words) -> Result<RouteSpec> {
    let mut spec = RouteSpec { table: MAIN_TABLE, ..RouteSpec::default() };
    let (mut to, mut hop, mut is_named) = (None::<String>, Hop::default(), false);
    while let Some(word) = words.next() {
        match word {
            // The word begins another next hop; the first next hop may have come without the word.
            "nexthop" => {
                if hop != Hop::default() {
                    spec.hops.push(std::mem::take(&mut hop));
                }
                hop.weight = Some(1);
            }
            "via" => match words.value("via")? {
                "inet" | "inet6" => {
                    (is_named, hop.via) = (true, Some(words.parsed("via")?));
                }
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
            "vrf" => spec.table = asked.vrf(words.value("vrf")?)?,
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
            word if DISCARDS.contains(&word) && spec.discard.is_none() => {
                spec.discard = Some(word.to_owned());
            }
            word if to.is_none() => to = Some(word.to_owned()),
            word => return garbage(word),
        }
    }
    if hop != Hop::default() {
        spec.hops.push(hop);
    }
    let Some(to) = to else { return usage("a prefix is required: `ip route add PREFIX via IP`") };
    // The version of `default`: with `inet6` the gateway says nothing of it, and IPv4 is meant.
    let is_by_v6 = |hop: &Hop| hop.via.is_some_and(|via| via.is_ipv6());
    let is_v6 = args.v6 || !is_named && spec.hops.iter().any(is_by_v6);
    spec.to = prefix(&to, is_v6)?.to_string();
    Ok(spec)
}
