//! `ip neigh`.
//!
//! Called by: `ip.rs`. Source: ip-neighbour(8).

use core::net::IpAddr;

use anyhow::Result;
use serde::Serialize;

use super::args::Args;
use super::run::{Asked, verb};
use super::words::{Words, garbage, prefix, unknown, usage};
use wirespeed::MacAddr;
use wirespeed::control::protocol::{Change, Neighbour, Object, Section, Verb};

const COMMANDS: [&str; 9] =
    ["list", "show", "lst", "add", "change", "replace", "delete", "flush", "get"];

/// Neighbours: shown or changed.
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
    let all: Vec<Neighbour> = asked.rows(Section::Neighbours)?;
    let is_wanted = |row: &&Neighbour| {
        let is_state = match (states.is_empty() || is_all, command) {
            (true, "flush") => is_all || row.state != "PERMANENT",
            (true, _) => true,
            (false, _) => states.contains(&row.state),
        };
        dev.is_none_or(|port| row.port == port)
            && args.wants(row.address)
            && to.is_none_or(|to| to.contains(row.address))
            && is_state
    };
    let found: Vec<&Neighbour> = all.iter().filter(is_wanted).collect();
    if command == "flush" {
        let gone = |row: &&Neighbour| {
            let of = Object::Neighbour { port: row.port, ip: row.address, mac: None };
            Change { verb: Verb::Del, of }
        };
        let gone: Vec<Change> = found.iter().map(gone).collect();
        asked.change(&gone)?;
        return Ok(String::new());
    }
    if command == "get" && found.is_empty() {
        return usage("neighbour entry not found: `ip neigh` lists those there are");
    }
    let rows: Vec<Shown> = found.iter().map(|row| Shown::of(args, row, names_dev)).collect();
    args.listed(&rows, Shown::line)
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

/// A neighbour with the keys of `ip -j neigh`.
#[derive(Serialize)]
struct Shown {
    dst: IpAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    dev: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lladdr: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    confirmed: Option<u64>,
    state: [String; 1],
}

impl Shown {
    fn of(args: &Args, row: &Neighbour, names_dev: bool) -> Shown {
        Shown {
            dst: row.address,
            dev: (!names_dev).then(|| row.dev.clone()),
            lladdr: row.mac.map(|mac| mac.to_string()),
            confirmed: row.confirmed_ms.filter(|_| args.stats).map(|ms| ms / 1000),
            state: [row.state.clone()],
        }
    }

    fn line(&self) -> String {
        let mut line = format!("{} ", self.dst);
        for (word, text) in [("dev", &self.dev), ("lladdr", &self.lladdr)] {
            if let Some(text) = text {
                line += &format!("{word} {text} ");
            }
        }
        if let Some(seconds) = self.confirmed {
            line += &format!("confirmed {seconds} ");
        }
        line + &self.state[0] + " "
    }
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
