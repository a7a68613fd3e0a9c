//! `wirespeed show`: what a running program's stacks are doing, asked over its control socket.
//!
//! Called by: `main`. `desk` answers in the program that runs, `rows` says what rows look like,
//! `table` prints for people. Must not know: what a program does with its stacks.
//!
//! # The document of `--json`
//! `{"tool": "show", "version", "program": {"pid", "command", "version"}, "stacks": [{"name",
//! SECTION: ...}]}`, with one member for each section asked for: `stack` and `counters`, `drops`,
//! `switches` (by name) are objects, `limits` an object of `{"value", "hits"}` by name; `ports`,
//! `connections`, `sockets`, `neighbours` and `routes` are lists. Times end in their unit, sizes
//! are bytes; what is not known is null.

mod desk;
mod hatch;
mod rows;
mod table;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use wirespeed::control::{self, Client, ControlError};

use crate::{Outcome, Usage, output};

pub(crate) use desk::Desk;
pub(crate) use hatch::Hatch;

/// How long a program may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);

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

/// What there is to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Section {
    Stack,
    Ports,
    Connections,
    Sockets,
    Neighbours,
    Routes,
    Drops,
    Counters,
    Limits,
    Switches,
}

/// What is asked: of the program, or a page of a section of one of its stacks.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Question {
    Program,
    Section { stack: usize, section: Section, cursor: u64 },
}

/// The program that answers.
#[derive(Debug, Serialize, Deserialize)]
struct Program {
    pid: u32,
    command: String,
    version: String,
    stacks: Vec<String>,
}

/// A page, or why there is none. The last page has no `next`.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Answer {
    program: Option<Program>,
    body: Value,
    next: Option<u64>,
    error: Option<String>,
}

/// Run it.
pub(crate) fn main(args: &Args) -> Result<Outcome> {
    let path = find(args)?;
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

fn ask(client: &mut Client, question: &Question) -> Result<Answer> {
    let answer: Answer = client.request(question)?;
    match answer.error {
        Some(error) => bail!("the program answers: {error}"),
        None => Ok(answer),
    }
}

/// The directories to look in, the user's own first.
fn directories() -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR");
    let uid = rustix::process::geteuid().as_raw();
    control::path::directories(runtime.as_deref(), uid)
}

/// The socket that was asked for, or the only one.
fn find(args: &Args) -> Result<PathBuf> {
    if let Some(path) = &args.socket {
        return Ok(path.clone());
    }
    let directories = directories();
    if let Some(pid) = args.pid {
        let paths = directories.iter().map(|d| control::path::socket(d, pid));
        let found = paths.clone().find(|path| path.symlink_metadata().is_ok());
        let first = || paths.clone().next().unwrap_or_default();
        return found.ok_or_else(|| anyhow!(ControlError::Missing { path: first() }));
    }
    let running: Vec<_> = directories.iter().flat_map(|d| control::path::running(d)).collect();
    match running.as_slice() {
        [(_, path)] => Ok(path.clone()),
        [] => bail!(
            "no wirespeed runs here that could be asked (looked in {}). Start one, for example \
             `wirespeed ttcp --seconds 60`; for another user's use `sudo`",
            directories.iter().map(|d| d.display().to_string()).collect::<Vec<_>>().join(", ")
        ),
        several => {
            let pids: Vec<_> = several.iter().map(|(pid, _)| pid.to_string()).collect();
            let pids = pids.join(", ");
            bail!(Usage(format!("several programs run: choose one by --pid, of {pids}")))
        }
    }
}
