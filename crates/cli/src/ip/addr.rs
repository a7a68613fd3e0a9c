//! `ip addr`.
//!
//! Called by: `ip.rs`. Source: ip-address(8).

use core::net::IpAddr;

use anyhow::Result;
use serde_json::{Value, json};

use super::args::Args;
use super::link;
use super::run::{Asked, text, verb};
use super::words::{Words, garbage, prefix, unknown, usage};
use wirespeed::control::protocol::{Change, Object, Section, Verb};

const COMMANDS: [&str; 8] = ["list", "show", "lst", "add", "change", "replace", "delete", "flush"];
/// For ever, in the JSON of ip(8).
const FOREVER: u64 = 0xffff_ffff;
/// What an address may be, as a selector and in output.
const FLAGS: [&str; 5] = ["dynamic", "tentative", "deprecated", "dadfailed", "temporary"];

/// Addresses: shown or changed.
pub(super) fn run(args: &Args, mut words: Words) -> Result<String> {
    let Some(command) = words.command(&COMMANDS) else { return unknown("addr") };
    let mut asked = Asked::open(args)?;
    if let Some(verb) = verb(command) {
        let change = changed(args, &asked, verb, &mut words)?;
        asked.change(&[change])?;
        return Ok(String::new());
    }
    let (mut dev, mut to, mut scope, mut flags) = (None, None, None, Vec::new());
    let mut has_any = false;
    while let Some(word) = words.next() {
        has_any = true;
        match word {
            "dev" => dev = Some(asked.port(words.value("dev")?)?),
            "to" => to = Some(prefix(words.value("to")?, args.v6)?),
            "scope" => scope = Some(words.value("scope")?),
            "up" => {}
            word if FLAGS.contains(&word) => flags.push(word),
            word if dev.is_none() => dev = Some(asked.port(word)?),
            word => return garbage(word),
        }
    }
    if command == "flush" && !has_any {
        return usage("flush needs a selector: `ip addr flush dev PORT`");
    }
    let all = asked.rows(Section::Addresses)?;
    let is_wanted = |row: &&Value| {
        let (cidr, info) = (text(row, "address"), info(&asked, row));
        let ip = cidr.split('/').next().and_then(|ip| ip.parse::<IpAddr>().ok());
        dev.is_none_or(|port| row["port"] == port)
            && args.wants(&cidr)
            && ip.is_some_and(|ip| to.is_none_or(|to| to.contains(ip)))
            && scope.is_none_or(|scope| info["scope"] == scope)
            && flags.iter().all(|flag| info[*flag] == true)
    };
    let found: Vec<&Value> = all.iter().filter(is_wanted).collect();
    if command == "flush" {
        let gone: Vec<Change> = found.iter().filter_map(|row| removal(row)).collect();
        asked.change(&gone)?;
        return Ok(String::new());
    }
    let is_narrow = to.is_some() || scope.is_some() || !flags.is_empty() || args.v4 || args.v6;
    let mut rows = Vec::new();
    for port in asked.ports.iter().filter(|row| dev.is_none_or(|port| row["port"] == port)) {
        let own = found.iter().filter(|row| row["port"] == port["port"]);
        let infos: Vec<Value> = own.map(|row| info(&asked, row)).collect();
        if infos.is_empty() && is_narrow {
            continue;
        }
        let mut shown = link::shown(port);
        if args.v4 || args.v6 || to.is_some() {
            let keys = ["link_type", "address", "broadcast"];
            keys.iter().for_each(|key| drop(shown.as_object_mut().and_then(|o| o.remove(*key))));
        }
        shown["addr_info"] = Value::Array(infos);
        rows.push(shown);
    }
    args.listed(&rows, lines)
}

/// An address with the keys of `ip -j addr`.
fn info(asked: &Asked, row: &Value) -> Value {
    let cidr = text(row, "address");
    let (local, len) = cidr.split_once('/').unwrap_or((&cidr, "0"));
    let is_link = local.starts_with("fe80:") || local.starts_with("169.254.");
    let seconds = |key: &str| row[key].as_u64().map_or(FOREVER, |ms| ms / 1000);
    let mut info = json!({
        "family": if local.contains(':') { "inet6" } else { "inet" },
        "local": local,
        "prefixlen": len.parse::<u8>().unwrap_or(0),
        "scope": if is_link { "link" } else { "global" },
        "valid_life_time": seconds("valid_ms"),
        "preferred_life_time": seconds("preferred_ms"),
    });
    if !local.contains(':') {
        info["label"] = asked.name(row);
    }
    if row["valid_ms"].is_u64() {
        info["dynamic"] = json!(true);
    }
    for key in [text(row, "state"), text(row, "origin")] {
        if FLAGS.contains(&key.as_str()) {
            info[key] = json!(true);
        }
    }
    info
}

/// All lines of a port.
fn lines(row: &Value) -> String {
    let mut lines = link::head(row);
    if !row["link_type"].is_null() {
        lines += &format!("\n{}", link::second(row));
    }
    for info in row["addr_info"].as_array().into_iter().flatten() {
        let flags = FLAGS.iter().filter(|flag| info[**flag] == true);
        let flags: String = flags.map(|flag| format!("{flag} ")).collect();
        let life = |key: &str| match info[key].as_u64() {
            None | Some(FOREVER) => "forever".to_owned(),
            Some(seconds) => format!("{seconds}sec"),
        };
        lines += &format!(
            "\n    {} {}/{} scope {} {flags}{}\n       valid_lft {} preferred_lft {}",
            text(info, "family"),
            text(info, "local"),
            info["prefixlen"],
            text(info, "scope"),
            text(info, "label"),
            life("valid_life_time"),
            life("preferred_life_time"),
        );
    }
    lines
}

fn removal(row: &Value) -> Option<Change> {
    let port = row["port"].as_u64()?.try_into().ok()?;
    let cidr = text(row, "address");
    let of = Object::Address { port, cidr, valid_s: None, preferred_s: None, nodad: false };
    Some(Change { verb: Verb::Del, of })
}

fn changed(args: &Args, asked: &Asked, verb: Verb, words: &mut Words) -> Result<Change> {
    let (mut cidr, mut port, mut valid_s, mut preferred_s) = (None, None, None, None);
    let mut nodad = false;
    while let Some(word) = words.next() {
        match word {
            "dev" => port = Some(asked.port(words.value("dev")?)?),
            "valid_lft" => valid_s = lifetime(words, "valid_lft")?,
            "preferred_lft" => preferred_s = lifetime(words, "preferred_lft")?,
            "nodad" => nodad = true,
            "brd" | "broadcast" if words.value("brd")? == "+" => {}
            "brd" | "broadcast" => {
                return usage("a broadcast address is that of the network: brd +");
            }
            "local" => cidr = Some(prefix(words.value("local")?, args.v6)?),
            word if cidr.is_none() => cidr = Some(prefix(word, args.v6)?),
            word => return garbage(word),
        }
    }
    let (Some(cidr), Some(port)) = (cidr, port) else {
        return usage("an address and its port are required: `ip addr add 192.0.2.1/24 dev PORT`");
    };
    let cidr = cidr.to_string();
    Ok(Change { verb, of: Object::Address { port, cidr, valid_s, preferred_s, nodad } })
}

fn lifetime(words: &mut Words, of: &str) -> Result<Option<u64>> {
    match words.value(of)? {
        "forever" => Ok(None),
        seconds => Words::new(&[seconds.to_owned()]).parsed(of).map(Some),
    }
}
