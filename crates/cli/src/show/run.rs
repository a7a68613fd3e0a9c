//! The questions: the program, then each section of each of its stacks, into one document.
//!
//! Called by: `show.rs`. The program that runs answers (`control_service.rs`).

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde_json::{Map, Value, json};
use wirespeed::control::Client;

use super::args::Args;
use crate::running::{Question, Section, TIMEOUT, ask, find};

/// The document of what was asked for.
pub(super) fn document(args: &Args) -> Result<Value> {
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
    Ok(json!({
        "tool": "show",
        "version": env!("CARGO_PKG_VERSION"),
        "program": {
            "pid": program.pid,
            "command": program.command,
            "version": program.version,
        },
        "stacks": stacks,
    }))
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
