//! `ip link`, and the part of `ip addr` that is about the link.
//!
//! Called by: `ip.rs`, `addr.rs`. Source: ip-link(8). Links have no queue, hence no `qlen`.

use anyhow::Result;
use serde_json::{Value, json};

use super::args::Args;
use super::run::{Asked, text};
use super::words::{Words, garbage, unknown, usage};

/// The ports.
pub(super) fn run(args: &Args, mut words: Words) -> Result<String> {
    match words.command(&["list", "show", "lst", "set", "add", "delete"]) {
        Some("list") => {}
        Some(_) => {
            return usage(
                "links cannot be changed while the program runs: change the configuration of \
                 `wirespeed up`, then send SIGHUP",
            );
        }
        None => return unknown("link"),
    }
    let asked = Asked::open(args)?;
    let mut dev = None;
    while let Some(word) = words.next() {
        match word {
            "dev" => dev = Some(asked.port(words.value("dev")?)?),
            word if dev.is_none() => dev = Some(asked.port(word)?),
            word => return garbage(word),
        }
    }
    let wanted = asked.ports.iter().filter(|row| dev.is_none_or(|port| row["port"] == port));
    let mut rows: Vec<Value> = wanted.map(shown).collect();
    rows.iter_mut().for_each(|row| row["linkmode"] = json!("DEFAULT"));
    args.listed(&rows, |row| head(row) + "\n" + &second(row))
}

/// A port with the keys of `ip -j link`.
pub(super) fn shown(row: &Value) -> Value {
    let is_up = row["link_up"] == true;
    let is_ethernet = row["link"] == "ethernet";
    let mut flags = match is_ethernet {
        true => vec!["BROADCAST", "MULTICAST", "UP"],
        false => vec!["POINTOPOINT", "MULTICAST", "NOARP", "UP"],
    };
    if is_up {
        flags.push("LOWER_UP");
    } else {
        flags.insert(0, "NO-CARRIER");
    }
    let mut shown = json!({
        // As the scope identifier of RFC 4007 has it.
        "ifindex": row["port"].as_u64().map(|port| port + 1),
        "ifname": row["name"],
        "flags": flags,
        "mtu": row["mtu"],
        "qdisc": "noqueue",
        "operstate": if is_up { "UP" } else { "DOWN" },
        "group": "default",
        "link_type": if is_ethernet { "ether" } else { "none" },
    });
    if is_ethernet {
        shown["address"] = row["mac"].clone();
        shown["broadcast"] = json!("ff:ff:ff:ff:ff:ff");
    }
    shown
}

/// The first line.
pub(super) fn head(row: &Value) -> String {
    let flags = row["flags"].as_array().into_iter().flatten();
    let flags: Vec<&str> = flags.filter_map(Value::as_str).collect();
    let mode = if row["linkmode"].is_null() { "" } else { "mode DEFAULT " };
    format!(
        "{}: {}: <{}> mtu {} qdisc noqueue state {} {mode}group default ",
        row["ifindex"],
        text(row, "ifname"),
        flags.join(","),
        row["mtu"],
        text(row, "operstate"),
    )
}

/// The line of the link address.
pub(super) fn second(row: &Value) -> String {
    match row["address"].as_str() {
        Some(mac) => format!("    link/ether {mac} brd ff:ff:ff:ff:ff:ff"),
        None => "    link/none ".to_owned(),
    }
}
