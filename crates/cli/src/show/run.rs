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
use super::{budget, fib};
use crate::Usage;
use crate::running::{TIMEOUT, ask, find, whole};
use wirespeed::control::protocol::{About, Question, Section};

/// Time between two looks at a connection, from which its delivery rate is computed.
const LOOKS_APART: Duration = Duration::from_millis(200);

/// The document for the command line.
pub(super) fn document(args: &Args) -> Result<Value> {
    let (filter, fib, budget_s) = (args.filter()?, args.fib()?, args.budget()?);
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

/// What the shards of one host counted together, of the sections that count.
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
    host
}

/// The sections of a stack that are asked for.
fn sections(
    client: &mut Client,
    stack: usize,
    args: &Args,
    filter: Option<&Filter>,
) -> Result<Map<String, Value>> {
    let mut shown = Map::new();
    for section in args.sections() {
        let mut rows = whole(client, stack, section)?;
        choose(&mut rows, filter);
        if args.is_full() && rows.as_array().is_some_and(|rows| !rows.is_empty()) {
            let begun = Instant::now();
            std::thread::sleep(LOOKS_APART);
            let later = whole(client, stack, section)?;
            delivery(&mut rows, &later, begun.elapsed());
        }
        shown.insert(name_of(section), rows);
    }
    Ok(shown)
}

/// Keep the rows that the filter matches.
fn choose(rows: &mut Value, filter: Option<&Filter>) {
    if let (Some(rows), Some(filter)) = (rows.as_array_mut(), filter) {
        rows.retain(|row| filter.admits(row));
    }
}

/// Add to each row the bytes per second that it delivered until a later look; null if it is gone.
fn delivery(rows: &mut Value, later: &Value, passed: Duration) {
    for row in rows.as_array_mut().into_iter().flatten() {
        let is_same =
            |other: &&Value| other["local"] == row["local"] && other["remote"] == row["remote"];
        let other = later.as_array().into_iter().flatten().find(is_same);
        let since = |key: &str| {
            let (before, now) = (row[key].as_u64()?, other?[key].as_u64()?);
            Some((now.saturating_sub(before) as f64 / passed.as_secs_f64()) as u64)
        };
        let (sent, received) = (since("bytes_acked"), since("bytes_received"));
        row["delivery_bytes_per_s"] = json!(sent);
        row["receiving_bytes_per_s"] = json!(received);
    }
}

fn name_of(section: Section) -> String {
    section.names().0.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(local: &str, acked: u64) -> Value {
        json!({ "local": local, "remote": "b", "bytes_acked": acked, "bytes_received": 7 })
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
    fn what_was_delivered_between_two_looks_is_a_rate() {
        let mut rows = json!([row("a", 1000), row("gone", 5)]);
        let later = json!([row("a", 3000)]);
        delivery(&mut rows, &later, Duration::from_millis(500));
        assert_eq!(rows[0]["delivery_bytes_per_s"], 4000);
        assert_eq!(rows[0]["receiving_bytes_per_s"], 0);
        assert_eq!(rows[1]["delivery_bytes_per_s"], Value::Null);
    }
}
