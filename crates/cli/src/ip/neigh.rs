//! `ip neigh`.
//!
//! Called by: `ip.rs`. Source: ip-neighbour(8).

use core::net::IpAddr;

use anyhow::Result;
use serde_json::{Value, json};

use super::args::Args;
use super::run::{Asked, text, verb};
use super::words::{Words, garbage, prefix, unknown, usage};
use wirespeed::MacAddr;
use wirespeed::control::protocol::{Change, Object, Section, Verb};

const COMMANDS: [&str; 9] =
    ["list", "show", "lst", "add", "change", "replace", "delete", "flush", "get"];

/// What is known of neighbours: shown or changed.
pub(super) fn run(args: &Args, mut words: Words) -> Result<String> {
    let Some(command) = words.command(&COMMANDS) else { return unknown("neigh") };
    let mut asked = Asked::open(args)?;
    if let Some(verb) = verb(command) {
        let change = changed(&asked, verb, &mut words)?;
        asked.change(&[change])?;
        return Ok(String::new());
    }
    let (mut dev, mut to, mut states) = (None, None, Vec::new());
    let (mut has_any, mut names_dev) = (false, false);
    while let Some(word) = words.next() {
        has_any = true;
        match word {
            "dev" => {
                dev = Some(asked.port(words.value("dev")?)?);
                names_dev = true;
            }
            "nud" => states.push(state(words.value("nud")?)?),
            "to" => to = Some(prefix(words.value("to")?, args.v6)?),
            word if to.is_none() => to = Some(prefix(word, args.v6)?),
            word => return garbage(word),
        }
    }
    if command == "flush" && !has_any {
        return usage("flush needs a selector: `ip neigh flush dev PORT`, or `to PREFIX`");
    }
    let is_all = states.iter().any(|state| state == "ALL");
    let all = asked.rows(Section::Neighbours)?;
    let is_wanted = |row: &&Value| {
        let address = text(row, "address");
        let is_in = |ip: IpAddr| to.is_none_or(|to| to.contains(ip));
        let is_state = match (states.is_empty() || is_all, command) {
            (true, "flush") => is_all || row["state"] != "PERMANENT",
            (true, _) => true,
            (false, _) => states.iter().any(|state| row["state"] == state.as_str()),
        };
        dev.is_none_or(|port| row["port"] == port)
            && args.wants(&address)
            && address.parse().is_ok_and(is_in)
            && is_state
    };
    let found: Vec<&Value> = all.iter().filter(is_wanted).collect();
    if command == "flush" {
        let gone = |row: &&Value| {
            let port = row["port"].as_u64()?.try_into().ok()?;
            let ip = text(row, "address").parse().ok()?;
            Some(Change { verb: Verb::Del, of: Object::Neighbour { port, ip, mac: None } })
        };
        let gone: Vec<Change> = found.iter().filter_map(gone).collect();
        asked.change(&gone)?;
        return Ok(String::new());
    }
    if command == "get" && found.is_empty() {
        return usage("neighbour entry not found: `ip neigh` lists those there are");
    }
    let rows: Vec<Value> = found.iter().map(|row| shown(args, &asked, row, names_dev)).collect();
    args.listed(&rows, line)
}

fn state(word: &str) -> Result<String> {
    let known = ["permanent", "incomplete", "reachable", "stale", "delay", "probe", "all"];
    match known.contains(&word) {
        true => Ok(word.to_uppercase()),
        false => {
            usage(&format!("argument \"{word}\" is wrong: nud is one of {}", known.join(", ")))
        }
    }
}

fn shown(args: &Args, asked: &Asked, row: &Value, names_dev: bool) -> Value {
    let mut shown = json!({ "dst": row["address"], "state": [row["state"]] });
    if !names_dev {
        shown["dev"] = asked.name(row);
    }
    if row["mac"].is_string() {
        shown["lladdr"] = row["mac"].clone();
    }
    if let (true, Some(ms)) = (args.stats, row["confirmed_ms"].as_u64()) {
        shown["confirmed"] = json!(ms / 1000);
    }
    shown
}

fn line(row: &Value) -> String {
    let mut line = text(row, "dst") + " ";
    for (key, word) in [("dev", "dev "), ("lladdr", "lladdr ")] {
        if row[key].is_string() {
            line += &format!("{word}{} ", text(row, key));
        }
    }
    if let Some(seconds) = row["confirmed"].as_u64() {
        line += &format!("confirmed {seconds} ");
    }
    line + row["state"][0].as_str().unwrap_or_default() + " "
}

fn changed(asked: &Asked, verb: Verb, words: &mut Words) -> Result<Change> {
    let (mut ip, mut port, mut mac) = (None::<IpAddr>, None, None);
    while let Some(word) = words.next() {
        match word {
            "dev" => port = Some(asked.port(words.value("dev")?)?),
            "lladdr" => {
                let value = words.value("lladdr")?;
                if value.parse::<MacAddr>().is_err() {
                    return usage(&format!(
                        "\"{value}\" is invalid lladdr: six bytes, as 02:0:0:0:0:1"
                    ));
                }
                mac = Some(value.to_owned());
            }
            "nud" if words.value("nud")? == "permanent" => {}
            "nud" => return usage("only permanent neighbours can be set: leave nud out"),
            "to" => ip = Some(words.parsed("to")?),
            word if ip.is_none() => ip = Some(Words::new(&[word.to_owned()]).parsed("to")?),
            word => return garbage(word),
        }
    }
    let (Some(ip), Some(port)) = (ip, port) else {
        return usage("device and destination are required: `ip neigh add IP lladdr MAC dev PORT`");
    };
    Ok(Change { verb, of: Object::Neighbour { port, ip, mac } })
}
