//! Asks for the program, then for each section of each of its stacks, and makes one document.
//!
//! Called by: `show.rs`. The running program answers (`observe`).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};
use wirespeed::control::Client;

use super::args::Args;
use super::filter::Filter;
use super::full::Full;
use super::{budget, fib, states};
use crate::Usage;
use crate::running::{TIMEOUT, ask, find, section, whole};
use wirespeed::control::protocol::{About, Connection, Port, Question, Route, Section, Socket};

/// Time between two looks at a connection, from which its delivery rate is computed.
const LOOKS_APART: Duration = Duration::from_millis(200);

/// The document for the command line.
pub(super) fn document(args: &Args) -> Result<Value> {
    let (filter, fib, budget_s) = (args.filter()?, args.fib()?, args.budget()?);
    args.chosen()?;
    args.within()?;
    let path = find(args.socket.as_deref(), args.pid)?;
    let mut client = Client::connect(&path, TIMEOUT)?;
    let program = ask(&mut client, &Question::Program)?.program;
    let program = program.context("the program does not say what it is")?;
    if let Some(seconds) = budget_s {
        let budget = budget::ask(&mut client, &program, seconds)?;
        return Ok(json!({
            "tool": "show",
            "version": env!("CARGO_PKG_VERSION"),
            "program": about(&program),
            "budget": budget,
        }));
    }
    let (mut stacks, mut wrong) = (Vec::new(), None);
    for (stack, name) in program.stacks.iter().enumerate() {
        let shown = match &fib {
            Some(fib) => fib::ask_stack(&mut client, stack, fib),
            None => sections(&mut client, stack, args, filter.as_ref()),
        };
        match shown {
            Ok(mut shown) => {
                shown.insert("name".to_owned(), json!(name));
                stacks.push(Value::Object(shown));
            }
            // Another stack may have the port.
            Err(error) if error.is::<Usage>() => wrong = Some(error),
            Err(error) => return Err(error),
        }
    }
    if let (true, Some(wrong)) = (stacks.is_empty(), wrong) {
        return Err(wrong);
    }
    let is_found = |stack: &Value| stack["connections"].as_array().is_some_and(|c| !c.is_empty());
    if args.is_full() && !stacks.iter().any(is_found) {
        bail!("there is no such connection: `wirespeed show connections` lists those there are");
    }
    let host = if program.shards { sums(&stacks) } else { Map::new() };
    let mut document = json!({
        "tool": "show",
        "version": env!("CARGO_PKG_VERSION"),
        "program": about(&program),
        "stacks": stacks,
    });
    if !host.is_empty() {
        document["host"] = Value::Object(host);
    }
    Ok(document)
}

fn about(program: &About) -> Value {
    json!({ "pid": program.pid, "command": program.command, "version": program.version })
}

/// The sums over the shards of one host, of the sections with counts.
fn sums(stacks: &[Value]) -> Map<String, Value> {
    let mut host = Map::new();
    for section in [Section::Counters, Section::Drops].map(name_of) {
        let mut all: BTreeMap<&String, u64> = BTreeMap::new();
        let of_shards = stacks.iter().filter_map(|stack| stack[&section].as_object());
        for (name, count) in of_shards.flatten() {
            *all.entry(name).or_default() += count.as_u64().unwrap_or(0);
        }
        if stacks.iter().any(|stack| !stack[&section].is_null()) {
            let all = all.into_iter().map(|(name, count)| (name.clone(), json!(count)));
            host.insert(section, Value::Object(all.collect()));
        }
    }
    for (section, counts) in ROWS {
        let section = name_of(section);
        if let Some(rows) = rows_of_all(stacks, &section, counts) {
            host.insert(section, Value::Array(rows));
        }
    }
    host
}

/// Sections whose rows are the same in all shards, and the columns that add up.
const ROWS: [(Section, &[&str]); 2] =
    [(Section::Filter, &["packets", "bytes", "flows"]), (Section::Nat, &["sources", "mappings"])];

/// The rows of a section with the counts of all shards; the last hit is the latest one.
fn rows_of_all(stacks: &[Value], section: &str, counts: &[&str]) -> Option<Vec<Value>> {
    let of_shards: Vec<&Vec<Value>> = stacks.iter().filter_map(|s| s[section].as_array()).collect();
    let mut all = (*of_shards.first()?).clone();
    for (at, row) in all.iter_mut().enumerate() {
        let Some(row) = row.as_object_mut() else { continue };
        let column = |name: &str| {
            of_shards
                .iter()
                .filter_map(|rows| rows.get(at)?.get(name)?.as_u64())
                .collect::<Vec<_>>()
        };
        for &name in counts {
            let values = column(name);
            if !values.is_empty() {
                row.insert(name.to_owned(), json!(values.iter().sum::<u64>()));
            }
        }
        if let Some(last) = column("last_hit_ms").into_iter().min() {
            row.insert("last_hit_ms".to_owned(), json!(last));
        }
    }
    Some(all)
}

/// The sections of a stack that are asked for.
fn sections(
    client: &mut Client,
    stack: usize,
    args: &Args,
    filter: Option<&Filter>,
) -> Result<Map<String, Value>> {
    let mut shown = Map::new();
    for wanted in args.sections() {
        let rows = match wanted {
            Section::Connections if args.is_full() => json!(full(client, stack, filter)?),
            Section::Connections => json!(connections(client, stack, filter)?),
            Section::Sockets => {
                let mut all: Vec<Socket> = section(client, stack, wanted)?;
                all.retain(|socket| filter.is_none_or(|filter| filter.socket(socket)));
                json!(all)
            }
            Section::States => states::rows(client, stack, &args.chosen()?)?,
            Section::Routes if let Some(within) = args.within()? => {
                let mut all: Vec<Route> = section(client, stack, wanted)?;
                let ports: Vec<Port> = section(client, stack, Section::Ports)?;
                within.keep(&mut all, &ports)?;
                json!(all)
            }
            _ => whole(client, stack, wanted)?,
        };
        shown.insert(name_of(wanted), rows);
    }
    Ok(shown)
}

/// The connections that the filter matches.
fn connections(
    client: &mut Client,
    stack: usize,
    filter: Option<&Filter>,
) -> Result<Vec<Connection>> {
    let mut all: Vec<Connection> = section(client, stack, Section::Connections)?;
    all.retain(|row| filter.is_none_or(|filter| filter.connection(row)));
    Ok(all)
}

/// The same with their rates, for which they are looked at twice.
fn full(client: &mut Client, stack: usize, filter: Option<&Filter>) -> Result<Vec<Full>> {
    let first = connections(client, stack, filter)?;
    if first.is_empty() {
        return Ok(Vec::new());
    }
    let begun = Instant::now();
    std::thread::sleep(LOOKS_APART);
    let later: Vec<Connection> = section(client, stack, Section::Connections)?;
    Ok(delivery(first, &later, begun.elapsed()))
}

/// The rate at which each delivered until a later look, in bytes per second.
fn delivery(first: Vec<Connection>, later: &[Connection], passed: Duration) -> Vec<Full> {
    let of = |connection: Connection| {
        let is_same = |other: &&Connection| {
            other.local == connection.local && other.remote == connection.remote
        };
        let other = later.iter().find(is_same);
        let since = |of: fn(&Connection) -> u64| {
            let moved = of(other?).saturating_sub(of(&connection));
            Some((moved as f64 / passed.as_secs_f64()) as u64)
        };
        let delivery_bytes_per_s = since(|c| c.bytes_acked);
        let receiving_bytes_per_s = since(|c| c.bytes_received);
        Full { connection, delivery_bytes_per_s, receiving_bytes_per_s }
    };
    first.into_iter().map(of).collect()
}

fn name_of(section: Section) -> String {
    section.names().0.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(local: &str, bytes_acked: u64) -> Connection {
        let (local, remote) = (local.to_owned(), "b".to_owned());
        Connection { local, remote, bytes_acked, bytes_received: 7, ..Connection::default() }
    }

    #[test]
    fn shards_count_together() {
        let shard =
            |seen: u64, drops: Value| json!({ "counters": { "seen": seen }, "drops": drops });
        let all = [shard(3, json!({ "full": 1 })), shard(4, json!({ "full": 2, "odd": 5 }))];
        let expected = json!({ "counters": { "seen": 7 }, "drops": { "full": 3, "odd": 5 } });
        assert_eq!(Value::Object(sums(&all)), expected);
        assert!(
            sums(&[json!({ "name": "router" })]).is_empty(),
            "a section that was not asked for"
        );
    }

    #[test]
    fn rules_of_shards_count_together() {
        let shard = |packets: u64, last: u64| {
            let rule = json!({ "rule": 1, "packets": packets, "bytes": 1, "last_hit_ms": last });
            let never = json!({ "text": "default", "packets": 0, "last_hit_ms": null });
            json!({ "filter": [rule, never], "nat": [{ "sources": packets }, { "sources": null }] })
        };
        let all = sums(&[shard(3, 9), shard(4, 2)]);
        assert_eq!(all["filter"][0]["packets"], 7);
        assert_eq!(
            (&all["filter"][0]["bytes"], &all["filter"][0]["last_hit_ms"]),
            (&2.into(), &2.into())
        );
        assert_eq!(all["filter"][1]["last_hit_ms"], Value::Null);
        assert_eq!(
            (&all["nat"][0]["sources"], &all["nat"][1]["sources"]),
            (&7.into(), &Value::Null)
        );
    }

    #[test]
    fn what_was_delivered_between_two_looks_is_a_rate() {
        let first = vec![row("a", 1000), row("gone", 5)];
        let full = delivery(first, &[row("a", 3000)], Duration::from_millis(500));
        assert_eq!(full[0].delivery_bytes_per_s, Some(4000));
        assert_eq!(full[0].receiving_bytes_per_s, Some(0));
        assert_eq!(full[1].delivery_bytes_per_s, None);
    }
}
