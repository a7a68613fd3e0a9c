//! `ip rule`.
//!
//! Called by: `ip.rs`. Source: ip-rule(8). `group` is ours, for users: Linux has `uidrange`.

use anyhow::Result;
use router::config::masked;
use serde_json::{Value, json};
use wirespeed::{Cidr, MAIN_PRIORITY, MAIN_TABLE};

use super::args::Args;
use super::run::{Asked, text, verb};
use super::words::{Words, garbage, prefix, table, unknown, usage};
use wirespeed::control::protocol::{Change, Object, RuleSpec, Section, Verb};

const COMMANDS: [&str; 5] = ["list", "show", "lst", "add", "delete"];
const ACTIONS: [&str; 3] = ["unreachable", "prohibit", "blackhole"];

/// Rules: shown or changed.
pub(super) fn run(args: &Args, mut words: Words) -> Result<String> {
    let Some(command) = words.command(&COMMANDS) else { return unknown("rule") };
    let mut asked = Asked::open(args)?;
    let (spec, has_any) = spec(args, &asked, &mut words)?;
    if let Some(verb) = verb(command) {
        if !has_any {
            return usage(&format!("\"ip rule {command}\" requires arguments: see ip help"));
        }
        let in_main = verb == Verb::Add && spec.table.is_none() && spec.action.is_none();
        let table = if in_main { Some(MAIN_TABLE) } else { spec.table };
        asked.change(&[Change { verb, of: Object::Rule(RuleSpec { table, ..spec }) }])?;
        return Ok(String::new());
    }
    let mut rows = asked.rows(Section::Rules)?;
    let after = rows.partition_point(|row| row["priority"].as_u64() < Some(MAIN_PRIORITY.into()));
    rows.insert(after, json!({ "priority": MAIN_PRIORITY, "table": MAIN_TABLE }));
    rows.retain(|row| selects(&spec, row) && is_version(args, row));
    let shown: Vec<Value> = rows.iter().map(shown).collect();
    args.listed(&shown, line)
}

/// The rules of both versions are in one list here; those that name none are for both.
fn is_version(args: &Args, row: &Value) -> bool {
    ["from", "to"].iter().all(|key| row[*key].is_null() || args.wants(&text(row, key)))
}

fn selects(spec: &RuleSpec, row: &Value) -> bool {
    let same =
        |key: &str, net: &Option<String>| net.as_ref().is_none_or(|net| row[key] == net.as_str());
    same("from", &spec.from)
        && same("to", &spec.to)
        && same("group", &spec.group)
        && same("action", &spec.action)
        && spec.priority.is_none_or(|priority| row["priority"] == priority)
        && spec.in_port.is_none_or(|port| row["in_port"] == port)
        && spec.mark.is_none_or(|(mark, mask)| row["mark"] == mark && row["mask"] == mask)
        && spec.table.is_none_or(|table| row["table"] == table)
        && (!spec.not || row["not"] == true)
}

fn spec(args: &Args, asked: &Asked, words: &mut Words) -> Result<(RuleSpec, bool)> {
    let (mut spec, mut has_any) = (RuleSpec::default(), false);
    let net = |words: &mut Words, of: &str| -> Result<Option<String>> {
        let word = words.value(of)?;
        let net = prefix(word, args.v6)?.network();
        Ok((!matches!(word, "all" | "any" | "default")).then(|| net.to_string()))
    };
    while let Some(word) = words.next() {
        has_any = true;
        match word {
            "not" => spec.not = true,
            "from" => spec.from = net(words, "from")?,
            "to" => spec.to = net(words, "to")?,
            "iif" | "dev" => spec.in_port = Some(asked.port(words.value(word)?)?),
            "priority" | "preference" | "pref" | "order" => {
                spec.priority = Some(words.parsed(word)?);
            }
            "fwmark" => {
                let value = words.value("fwmark")?;
                spec.mark = masked(value);
                if spec.mark.is_none() {
                    return usage(&format!("fwmark value is invalid: \"{value}\"; give 0x10/0xff"));
                }
            }
            "group" => spec.group = Some(words.value("group")?.to_owned()),
            "table" | "lookup" => spec.table = table(words.value(word)?)?,
            "uidrange" => return usage("rules select users by group: `group NAME`"),
            "type" | "unicast" => {}
            word if ACTIONS.contains(&word) => spec.action = Some(word.to_owned()),
            word => return garbage(word),
        }
    }
    Ok((spec, has_any))
}

/// A row of the program as `ip rule` prints it.
pub(crate) fn text_of(row: &Value) -> String {
    line(&shown(row))
}

/// A row with the keys of `ip -j rule`, and `group`.
fn shown(row: &Value) -> Value {
    let mut shown = json!({ "priority": row["priority"] });
    if row["not"] == true {
        shown["not"] = Value::Null;
    }
    shown["src"] = json!("all");
    for (key, name, len) in [("from", "src", "srclen"), ("to", "dst", "dstlen")] {
        let Ok(net) = text(row, key).parse::<Cidr>() else { continue };
        shown[name] = json!(net.addr.to_string());
        if net != Cidr::host(net.addr) {
            shown[len] = json!(net.prefix_len);
        }
    }
    if let (Some(mark), Some(mask)) = (row["mark"].as_u64(), row["mask"].as_u64()) {
        shown["fwmark"] = json!(format!("{mark:#x}"));
        if mask != u64::from(u32::MAX) {
            shown["fwmask"] = json!(format!("{mask:#x}"));
        }
    }
    if row["in_port"].is_u64() {
        shown["iif"] = row["in_dev"].clone();
    }
    if row["group"].is_string() {
        shown["group"] = row["group"].clone();
    }
    match row["table"].as_u64() {
        Some(254) => shown["table"] = json!("main"),
        Some(255) => shown["table"] = json!("local"),
        Some(253) => shown["table"] = json!("default"),
        Some(table) => shown["table"] = json!(table.to_string()),
        None => shown["action"] = row["action"].clone(),
    }
    shown
}

/// A rule as ip(8) prints it.
fn line(row: &Value) -> String {
    let mut line = format!("{}:\t", row["priority"]);
    if row.get("not").is_some() {
        line += "not ";
    }
    for (word, key, len) in [("from", "src", "srclen"), ("to", "dst", "dstlen")] {
        if row[key].is_string() {
            line += &format!("{word} {}", text(row, key));
            line += &row[len].as_u64().map_or(" ".to_owned(), |len| format!("/{len} "));
        }
    }
    if row["fwmark"].is_string() {
        line += &format!("fwmark {}", text(row, "fwmark"));
        let mask = if row["fwmask"].is_string() { "/" } else { "" };
        line += &format!("{mask}{} ", text(row, "fwmask"));
    }
    for (word, key) in [("iif", "iif"), ("group", "group"), ("lookup", "table")] {
        if row[key].is_string() {
            line += &format!("{word} {} ", text(row, key));
        }
    }
    (line + &text(row, "action")).trim_end().to_owned()
}
