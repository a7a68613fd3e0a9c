//! A route as ip(8) prints it, from its JSON.
//!
//! Called by: `route.rs`, `get.rs`. Source: ip-route(8).

use serde_json::Value;

use super::run::text;

/// A route; also the answer of `get`.
pub(super) fn line(row: &Value) -> String {
    let words = |row: &Value, pairs: &[(&str, &str)]| -> String {
        let one = |(key, word): &(&str, &str)| match &row[*key] {
            Value::String(text) => format!("{word} {text} "),
            Value::Number(number) => format!("{word} {number} "),
            _ => String::new(),
        };
        pairs.iter().map(one).collect()
    };
    let kind = row["type"].as_str().map_or(String::new(), |kind| format!("{kind} "));
    let mut line = kind + &text(row, "dst") + " ";
    line += &words(
        row,
        &[
            ("from", "from"),
            ("gateway", "via"),
            ("dev", "dev"),
            ("table", "table"),
            ("protocol", "proto"),
            ("scope", "scope"),
            ("prefsrc", "src"),
            ("metric", "metric"),
        ],
    );
    for key in ["include", "exclude"] {
        if let Some(names) = row[key].as_array() {
            let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
            line += &format!("{key} {} ", wirespeed::control::text::plain(&names.join(",")));
        }
    }
    if row["no_forward"] == true {
        line += "no_forward ";
    }
    if row["flags"][0] == "linkdown" {
        line += "linkdown ";
    }
    if let Some(mark) = row["mark"].as_u64() {
        line += &format!("mark {mark:#x} ");
    }
    line += &words(row, &[("uid", "uid")]);
    if let Some(seconds) = row["expires"].as_u64() {
        line += &format!("expires {seconds}sec ");
    }
    if let Some(cache) = row["cache"].as_array() {
        let flags: Vec<&str> = cache.iter().filter_map(Value::as_str).collect();
        line += "\n    cache ";
        if !flags.is_empty() {
            line += &format!("<{}> ", flags.join(","));
        }
    }
    line += &words(&row["metrics"][0], &[("mtu", "mtu")]);
    line += &words(row, &[("iif", "iif")]);
    if row["pref"].is_string() {
        line += "pref medium";
    }
    for hop in row["nexthops"].as_array().into_iter().flatten() {
        let pairs = [("gateway", "via"), ("dev", "dev"), ("weight", "weight")];
        line += &format!("\n\tnexthop {}", words(hop, &pairs));
    }
    line
}
