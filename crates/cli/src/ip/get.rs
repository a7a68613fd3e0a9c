//! `ip route get`: the route of a packet, by the FIB of the running stack.
//!
//! Called by: `route.rs`; the words are those of `show fib lookup` too. Source: ip-route(8).

use core::net::IpAddr;

use anyhow::Result;
use serde_json::{Value, json};
use wirespeed::MAIN_TABLE;

use super::args::Args;
use super::line::line;
use super::run::{Asked, text};
use super::words::{Words, garbage, usage};
use wirespeed::control::protocol::Lookup;

/// Look it up, and show it with the keys of `ip -j route get`.
pub(super) fn run(args: &Args, asked: &mut Asked, words: &mut Words) -> Result<String> {
    let lookup = lookup(words, |name| asked.port(name))?;
    let found = asked.lookup(lookup.clone())?;
    if found["result"] == "dropped" {
        crate::output::err(&format!(
            "error: the program answers: Network is unreachable: no route leads to {}; add one by \
             `ip route add` ({})",
            lookup.dst,
            text(&found, "drop")
        ));
        anyhow::bail!(super::Unreachable);
    }
    let mut row = match lookup.dst {
        IpAddr::V4(_) => v4(&lookup, &found),
        IpAddr::V6(_) => v6(&lookup, &found),
    };
    if let Some(input) = lookup.input {
        let input = asked.ports.iter().find(|port| port["port"] == input);
        row["iif"] = input.map_or(Value::Null, |port| port["name"].clone());
    }
    args.listed(&[row], line)
}

/// What both versions have.
fn both(lookup: &Lookup, found: &Value) -> Value {
    let mut row = json!({ "dst": lookup.dst.to_string(), "flags": [], "dev": found["dev"] });
    if let Some(src) = lookup.src {
        row["from"] = json!(src.to_string());
    }
    let source = match (found["result"].as_str(), lookup.src) {
        (Some("local"), _) => {
            row["type"] = json!("local");
            row["dst"].clone()
        }
        (_, Some(src)) => json!(src.to_string()),
        _ => found["source"].clone(),
    };
    // The sender of a packet that is forwarded has chosen its address.
    let has_chosen = lookup.input.is_some() || lookup.src.is_some() && lookup.dst.is_ipv4();
    if !has_chosen && source.is_string() {
        row["prefsrc"] = source;
    }
    if found["next_hop"].is_string() && found["next_hop"] != row["dst"] {
        row["gateway"] = found["next_hop"].clone();
    }
    if found["table"].is_u64() && found["table"] != MAIN_TABLE {
        row["table"] = json!(found["table"].to_string());
    }
    if found["mtu"] != found["port_mtu"] {
        row["metrics"] = json!([{ "mtu": found["mtu"] }]);
    }
    row
}

fn v4(lookup: &Lookup, found: &Value) -> Value {
    let mut row = both(lookup, found);
    row["cache"] = match row["type"].as_str() {
        Some(_) => json!(["local"]),
        None if lookup.dst.is_multicast() => {
            row["type"] = json!("multicast");
            json!(["mc"])
        }
        None if found["broadcast"] == true => {
            row["type"] = json!("broadcast");
            json!(["local", "brd"])
        }
        None => json!([]),
    };
    if lookup.mark != 0 {
        row["mark"] = json!(lookup.mark);
    }
    if lookup.input.is_none() {
        row["uid"] = json!(lookup.uid);
    }
    row
}

/// As Linux answers: the route itself, and neither whose packet it is nor a cache.
fn v6(lookup: &Lookup, found: &Value) -> Value {
    let mut row = both(lookup, found);
    if lookup.src.is_none() {
        row["from"] = json!("::");
    }
    if row["type"] == "local" {
        row["table"] = json!("local");
    } else if lookup.dst.is_multicast() {
        row["type"] = json!("multicast");
    }
    let route = &found["route"];
    row["protocol"] = if route.is_null() { json!("kernel") } else { route["origin"].clone() };
    row["metric"] = if route.is_null() { json!(0) } else { route["metric"].clone() };
    row["pref"] = json!("medium");
    row
}

/// ADDRESS [from IP] [iif PORT] [oif PORT] [mark N] [uid N].
pub(crate) fn lookup(words: &mut Words, port: impl Fn(&str) -> Result<u16>) -> Result<Lookup> {
    let first = match words.next() {
        Some("to") => words.value("to")?,
        Some(word) => word,
        None => return usage("an address is required: `ip route get 192.0.2.1`"),
    };
    let Ok(dst) = first.split('/').next().unwrap_or_default().parse::<IpAddr>() else {
        return usage(&format!("any valid address is expected rather than \"{first}\""));
    };
    let uid = rustix::process::getuid().as_raw();
    let (src, output, input, gids) = (None, None, None, Vec::new());
    let mut lookup = Lookup { dst, src, output, input, uid, gids, mark: 0 };
    while let Some(word) = words.next() {
        match word {
            "from" => lookup.src = Some(words.parsed("from")?),
            "iif" | "in" => lookup.input = Some(port(words.value(word)?)?),
            "oif" | "dev" => lookup.output = Some(port(words.value(word)?)?),
            "mark" => lookup.mark = words.number("mark")?,
            "uid" => lookup.uid = words.parsed("uid")?,
            word => return garbage(word),
        }
    }
    // The groups of others are not asked for: who is in a group by one of them looks by himself.
    if lookup.uid == rustix::process::getuid().as_raw() && lookup.uid != 0 {
        let others = rustix::process::getgroups().unwrap_or_default();
        let all = others.into_iter().chain([rustix::process::getgid()]);
        lookup.gids = all.map(|gid| gid.as_raw()).collect();
    }
    if lookup.src.is_some_and(|src| src.is_ipv4() != lookup.dst.is_ipv4()) {
        return usage("source and destination are of one version of IP");
    }
    let is_of_link = matches!(dst, IpAddr::V6(ip)
        if ip.is_unicast_link_local() || ip.is_multicast() && ip.segments()[0] & 0xf <= 2);
    if lookup.output.is_some() && !is_of_link {
        return usage(
            "the port is chosen by the routes: oif is for addresses of a link, as fe80::1",
        );
    }
    Ok(lookup)
}
