//! `wirespeed show`: what a running program's stacks are doing, asked over its control socket.
//!
//! Called by: `main`. The running program's control service (`control_service.rs`) answers; `table`
//! prints for people.
//!
//! # The document of `--json`
//! `{"tool": "show", "version", "program": {"pid", "command", "version"}, "stacks": [{"name",
//! SECTION: ...}]}`, with one member for each section asked for: `stack` and `counters`, `drops`,
//! `switches` (by name) are objects, `limits` an object of `{"value", "hits"}` by name; `ports`,
//! `connections`, `sockets`, `neighbours` and `routes` are lists. Times end in their unit, sizes
//! are bytes; what is not known is null.

mod table;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde_json::{Map, Value, json};
use wirespeed::control::Client;

use crate::running::{Question, Section, TIMEOUT, ask, find};
use crate::{Outcome, output};

/// The options.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// What to show [default: all of it]
    section: Option<Section>,
    /// One JSON document on standard output
    #[arg(long)]
    json: bool,
    /// The control socket of the program
    #[arg(long, value_name = "PATH", conflicts_with = "pid")]
    socket: Option<PathBuf>,
    /// The program's process number [default: the only one that runs]
    #[arg(long)]
    pid: Option<u32>,
}

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    let path = find(args.socket.as_deref(), args.pid)?;
    let mut client = Client::connect(&path, TIMEOUT)?;
    let program = ask(&mut client, &Question::Program)?.program;
    let program = program.context("the program does not say what it is")?;
    let sections: Vec<Section> = match args.section {
        Some(section) => vec![section],
        None => Section::value_variants().to_vec(),
    };
    let mut stacks = Vec::new();
    for (stack, name) in program.stacks.iter().enumerate() {
        let mut shown = Map::new();
        shown.insert("name".to_owned(), json!(name));
        for &section in &sections {
            let whole = whole(&mut client, stack, section)?;
            shown.insert(name_of(section), whole);
        }
        stacks.push(Value::Object(shown));
    }
    let document = json!({
        "tool": "show",
        "version": env!("CARGO_PKG_VERSION"),
        "program": {
            "pid": program.pid,
            "command": program.command,
            "version": program.version,
        },
        "stacks": stacks,
    });
    let text = if args.json {
        serde_json::to_string_pretty(&document).context("cannot write JSON")? + "\n"
    } else {
        table::text(&document)
    };
    output::out(&text)?;
    Ok(Outcome::Done)
}

fn name_of(section: Section) -> String {
    section.to_possible_value().map(|v| v.get_name().to_owned()).unwrap_or_default()
}

/// All pages of a section: a list, or the one object.
fn whole(client: &mut Client, stack: usize, section: Section) -> Result<Value> {
    let (mut rows, mut cursor) = (Vec::new(), 0);
    loop {
        let answer = ask(client, &Question::Section { stack, section, cursor })?;
        match answer.body {
            Value::Array(page) => rows.extend(page),
            other => return Ok(other),
        }
        match answer.next {
            Some(next) if next > cursor => cursor = next,
            _ => return Ok(Value::Array(rows)),
        }
    }
}
