//! `ip addr`.
//!
//! Called by: `ip.rs`. Source: ip-address(8).

use core::net::IpAddr;
use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;

use super::args::Args;
use super::link::Link;
use super::run::{Asked, verb};
use super::words::{Words, garbage, prefix, unknown, usage};
use wirespeed::control::protocol::{Address, Change, Object, Section, Verb};

const COMMANDS: [&str; 8] = ["list", "show", "lst", "add", "change", "replace", "delete", "flush"];
/// For ever, in the JSON of ip(8).
const FOREVER: u64 = 0xffff_ffff;
/// Properties of an address, as selectors and in output.
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
    let all: Vec<Address> = asked.rows(Section::Addresses)?;
    let is_wanted = |row: &&Address| {
        let (ip, info) = (row.address.addr, Info::of(row));
        dev.is_none_or(|port| row.port == port)
            && args.wants(ip)
            && to.is_none_or(|to| to.contains(ip))
            && scope.is_none_or(|scope| info.scope == scope)
            && flags.iter().all(|flag| info.flags.contains_key(flag))
    };
    let found: Vec<&Address> = all.iter().filter(is_wanted).collect();
    if command == "flush" {
        let gone: Vec<Change> = found.iter().map(|row| removal(row)).collect();
        asked.change(&gone)?;
        return Ok(String::new());
    }
    let is_narrow = to.is_some() || scope.is_some() || !flags.is_empty() || args.v4 || args.v6;
    let mut rows = Vec::new();
    for port in asked.ports.iter().filter(|row| dev.is_none_or(|port| row.port == port)) {
        let own = found.iter().filter(|row| row.port == port.port);
        let infos: Vec<Info> = own.map(|row| Info::of(row)).collect();
        if infos.is_empty() && is_narrow {
            continue;
        }
        let mut shown = Link::of(port);
        shown.addr_info = Some(infos);
        if args.v4 || args.v6 || to.is_some() {
            (shown.link_type, shown.address, shown.broadcast) = (None, None, None);
        }
        rows.push(shown);
    }
    args.listed(&rows, lines)
}

/// An address with the keys of `ip -j addr`.
#[derive(Serialize)]
pub(super) struct Info {
    family: &'static str,
    local: IpAddr,
    prefixlen: u8,
    scope: &'static str,
    /// Its properties, of [`FLAGS`].
    #[serde(flatten)]
    flags: BTreeMap<&'static str, bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    valid_life_time: u64,
    preferred_life_time: u64,
}

impl Info {
    fn of(row: &Address) -> Info {
        let ip = row.address.addr;
        let is_link = match ip {
            IpAddr::V4(ip) => ip.is_link_local(),
            IpAddr::V6(ip) => ip.is_unicast_link_local(),
        };
        let has = |flag: &str| match flag {
            "dynamic" => row.valid_ms.is_some(),
            flag => row.state == flag || row.origin == flag,
        };
        let seconds = |ms: Option<u64>| ms.map_or(FOREVER, |ms| ms / 1000);
        Info {
            family: if ip.is_ipv6() { "inet6" } else { "inet" },
            local: ip,
            prefixlen: row.address.prefix_len,
            scope: if is_link { "link" } else { "global" },
            flags: FLAGS.into_iter().filter(|flag| has(flag)).map(|flag| (flag, true)).collect(),
            label: ip.is_ipv4().then(|| row.dev.clone()),
            valid_life_time: seconds(row.valid_ms),
            preferred_life_time: seconds(row.preferred_ms),
        }
    }
}

/// All lines of a port.
fn lines(row: &Link) -> String {
    let mut lines = row.head();
    if row.link_type.is_some() {
        lines += &format!("\n{}", row.second());
    }
    for info in row.addr_info.iter().flatten() {
        let flags = FLAGS.iter().filter(|flag| info.flags.contains_key(*flag));
        let flags: String = flags.map(|flag| format!("{flag} ")).collect();
        let life = |seconds| match seconds {
            FOREVER => "forever".to_owned(),
            seconds => format!("{seconds}sec"),
        };
        lines += &format!(
            "\n    {} {}/{} scope {} {flags}{}\n       valid_lft {} preferred_lft {}",
            info.family,
            info.local,
            info.prefixlen,
            info.scope,
            info.label.as_deref().unwrap_or_default(),
            life(info.valid_life_time),
            life(info.preferred_life_time),
        );
    }
    lines
}

fn removal(row: &Address) -> Change {
    let (port, cidr) = (row.port, row.address.to_string());
    let of = Object::Address { port, cidr, valid_s: None, preferred_s: None, nodad: false };
    Change { verb: Verb::Del, of }
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
