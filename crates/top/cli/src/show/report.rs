//! The document as JSON, or as tables for people: a list has a line for each row, an object one for
//! each key.
//!
//! Called by: `show.rs`. No colours.

use std::fmt::Write as _;

use ::filter::program::always;
use anyhow::{Context, Result};
use explain::ms;
use serde_json::{Map, Value};

use crate::table;

/// The columns of tables; `--json` has all.
const COLUMNS: &[(&str, &[&str])] = &[
    (
        "connections",
        &[
            "local",
            "remote",
            "state",
            "rtt_us",
            "cwnd_bytes",
            "in_flight",
            "unsent",
            "unread",
            "bytes_acked",
            "bytes_received",
            "retransmits",
        ],
    ),
    ("addresses", &["dev", "address", "state", "origin", "valid_ms", "preferred_ms"]),
    ("neighbours", &["dev", "address", "mac", "state", "mtu", "confirmed_ms"]),
    (
        "routes",
        &[
            "destination",
            "via",
            "dev",
            "mtu",
            "metric",
            "origin",
            "protocol",
            "age_s",
            "discard",
            "expires_ms",
            "table",
        ],
    ),
    ("fib", &["destination", "via", "dev", "weight", "mtu", "metric", "origin", "table"]),
    ("filter", &["rule", "text", "packets", "bytes", "flows", "last_hit_ms", "label"]),
    ("nat", &["rule", "text", "sources", "mappings"]),
    (
        "ipfix",
        &[
            "collector",
            "domain",
            "records",
            "datagrams",
            "unsent",
            "lost",
            "icmp_errors",
            "failure",
        ],
    ),
    (
        "pair",
        &[
            "peer", "up", "since_ms", "sent", "received", "imported", "updated", "refused", "gaps",
            "lost", "failure",
        ],
    ),
    ("frr", &["source", "peer", "routes", "nexthops", "pending", "refused"]),
    ("mirrors", &["name", "up", "punted", "sent", "dropped"]),
    ("mappings", &["protocol", "inside", "outside", "flows"]),
    (
        "states",
        &[
            "protocol",
            "src",
            "dst",
            "reply_src",
            "reply_dst",
            "in_dev",
            "out_dev",
            "phase",
            "age_ms",
            "packets",
            "bytes",
            "reply_packets",
            "reply_bytes",
            "rule",
            "label",
        ],
    ),
    ("ports", &["name", "link", "mac", "mtu", "tso_max_bytes", "link_up", "addresses", "failure"]),
];

/// As JSON, with a line end.
pub(super) fn json(document: &Value) -> Result<String> {
    Ok(serde_json::to_string_pretty(document).context("cannot write JSON")? + "\n")
}

/// As tables, for people.
pub(super) fn text(document: &Value) -> String {
    let (program, mut t) = (&document["program"], String::new());
    let _ = writeln!(t, "wirespeed {} (pid {})", plain(&program["command"]), program["pid"]);
    for stack in document["stacks"].as_array().into_iter().flatten() {
        let _ = writeln!(t, "\nstack {}", plain(&stack["name"]));
        sections(&mut t, stack);
    }
    if let Some(host) = document.get("host") {
        t.push_str("\nall shards\n");
        sections(&mut t, host);
    }
    t
}

fn sections(t: &mut String, of: &Value) {
    for (section, body) in of.as_object().into_iter().flatten() {
        match body {
            Value::Array(rows) => list(t, section, rows),
            Value::Object(pairs) => object(t, section, pairs),
            _ => {}
        }
    }
}

fn object(t: &mut String, section: &str, pairs: &Map<String, Value>) {
    let _ = writeln!(t, "\n{section}");
    let width = pairs.keys().map(String::len).max().unwrap_or(0);
    for (name, value) in pairs {
        // Counters at zero are not shown.
        if section == "counters" && value == 0 {
            continue;
        }
        let value = match value {
            Value::Object(limit) => {
                format!("{} ({} hits)", plain(&limit["value"]), plain(&limit["hits"]))
            }
            Value::Bool(on) => if *on { "on" } else { "off" }.to_owned(),
            other => plain(other),
        };
        let _ = writeln!(t, "  {name:<width$}  {value}");
    }
    if pairs.is_empty() {
        let _ = writeln!(t, "  none");
    }
}

fn list(t: &mut String, section: &str, rows: &[Value]) {
    let _ = writeln!(t, "\n{section}");
    let Some(first) = rows.first().and_then(Value::as_object) else {
        let _ = writeln!(t, "  none");
        return;
    };
    let columns: Vec<&str> = match COLUMNS.iter().find(|(name, _)| *name == section) {
        Some((_, columns)) => columns.to_vec(),
        None => first.keys().map(String::as_str).collect(),
    };
    let head: Vec<String> = columns.iter().map(|column| heading(column)).collect();
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let row = |row: &Value| columns.iter().map(|column| cell(column, &row[*column])).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(row).collect();
    t.push_str(&table::text(&head, &rows));
    if section == "filter" {
        before_rules(t);
    }
}

/// What passes before any rule (RFC 4890).
fn before_rules(t: &mut String) {
    let always = always::ALWAYS.iter().map(|kind| kind.what);
    let known = ["DHCP of a port whose client runs", "ICMP errors about a packet of a state"];
    let _ = writeln!(t, "\n  pass before any rule, from and for the router:");
    for what in ["ARP"].into_iter().chain(always).chain(known) {
        let _ = writeln!(t, "    {what}");
    }
}

/// The name of a column for people: times are in ms, sizes in bytes.
fn heading(column: &str) -> String {
    let in_ms = column.strip_suffix("_us").or_else(|| column.strip_suffix("_ms"));
    let of_bytes = column.strip_suffix("_bytes").filter(|of| *of != "reply");
    let name = of_bytes.or(in_ms).unwrap_or(column).replace('_', " ");
    if in_ms.is_some() { name + " ms" } else { name }
}

fn cell(column: &str, value: &Value) -> String {
    match value.as_u64() {
        Some(us) if column.ends_with("_us") => ms(us),
        _ => plain(value),
    }
}

/// A value without quotation marks; `-` for null.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}
