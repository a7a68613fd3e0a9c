//! Requests to running programs: their control sockets, the questions and the answers.
//!
//! Called by: `show`, `dump`, `top`, `explain` and `ip` ask; `control_service.rs` answers.

mod call;
mod change;
pub(crate) mod socket;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use wirespeed::control::{self, Client, ControlError};

use crate::{Usage, output};

pub(crate) use call::{Call, Kind};
pub(crate) use change::{CHANGES_MAX, Change, Hop, Lookup, Object, RouteSpec, RuleSpec, Verb};

/// How long a program may take to answer.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// The sections that `show` knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Section {
    Stack,
    Ports,
    Connections,
    Sockets,
    #[value(alias = "addr")]
    Addresses,
    #[value(alias = "neigh")]
    Neighbours,
    #[value(alias = "route")]
    Routes,
    #[value(alias = "rule")]
    Rules,
    Groups,
    Frag,
    Drops,
    Counters,
    Limits,
    Switches,
}

/// A question about the program, or about one of its stacks; `Section` asks for a page.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Question {
    Program,
    Section {
        stack: usize,
        section: Section,
        cursor: u64,
    },
    /// The connections with these numbers, which are in order: rows of the section.
    Connections {
        stack: usize,
        numbers: Vec<u64>,
    },
    /// Tap a port, with a filter's instructions: code, jt, jf, k.
    Tap {
        stack: usize,
        port: u16,
        insns: Vec<(u16, u8, u8, u32)>,
        snaplen: u32,
    },
    /// The packets that a tap has kept since the last question.
    Kept {
        stack: usize,
        tap: u64,
    },
    /// Remove a tap.
    Untap {
        stack: usize,
        tap: u64,
    },
    /// What the FIB says of a packet.
    Lookup {
        stack: usize,
        lookup: Lookup,
    },
    /// Change routes, neighbours or addresses.
    Change {
        stack: usize,
        changes: Vec<Change>,
    },
    /// A call of a socket in the stack, as the user that the kernel says the client is.
    Socket {
        stack: usize,
        call: Call,
    },
}

/// A tap's packets: [`Answer::body`] of [`Question::Kept`].
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// The bytes of a buffer in base64, for [`bpf::records`]; empty if there are no packets.
    pub(crate) records: String,
    pub(crate) seen: u64,
    pub(crate) matched: u64,
    pub(crate) dropped: u64,
}

/// The program that answers.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Program {
    pub(crate) pid: u32,
    pub(crate) command: String,
    pub(crate) version: String,
    pub(crate) stacks: Vec<String>,
    /// The stacks are shards of one host, the first of which speaks for it.
    #[serde(default)]
    pub(crate) shards: bool,
}

/// A page, or why there is none. The last page has no `next`.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) program: Option<Program>,
    pub(crate) body: Value,
    pub(crate) next: Option<u64>,
    pub(crate) error: Option<String>,
    /// What the error means for a client that goes on asking.
    #[serde(default)]
    pub(crate) refusal: Refusal,
    /// There is nothing to say yet: the question may wait for so many milliseconds.
    #[serde(skip)]
    pub(crate) later_ms: Option<u32>,
}

impl Answer {
    /// An answer with an error.
    pub(crate) fn refusal(refusal: Refusal, error: String) -> Answer {
        Answer { error: Some(error), refusal, ..Answer::default() }
    }
}

/// Why a question was refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Refusal {
    /// The question is invalid.
    #[default]
    Wrong,
    /// Not now; ask again.
    Busy,
    /// There is no such tap: perhaps its lease has expired.
    Lapsed,
    /// The stack has ended, or the port is gone.
    Gone,
    /// A limit is reached.
    Full,
    /// What is to be added is there.
    Exists,
    /// What is to be changed or removed is not there.
    Missing,
    /// Another user's program is not changed.
    Denied,
    /// It cannot be sent: no route, none for this user, no address.
    Unreachable,
}

/// The error of a program that refused a question.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) refusal: Refusal,
    error: String,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the program answers: {}", output::plain(&self.error))
    }
}

impl std::error::Error for Refused {}

/// Ask once.
///
/// # Errors
/// [`ControlError`], after which the client is of no use, or [`Refused`].
pub(crate) fn ask(client: &mut Client, question: &Question) -> Result<Answer> {
    checked(client.request(question)?)
}

/// An answer that is no refusal.
fn checked(mut answer: Answer) -> Result<Answer> {
    if let Some(error) = answer.error {
        bail!(Refused { refusal: answer.refusal, error });
    }
    // These texts are shown on terminals; the program may be anybody's.
    if let Some(program) = &mut answer.program {
        program.command = output::plain(&program.command);
        program.version = output::plain(&program.version);
        program.stacks.iter_mut().for_each(|name| *name = output::plain(name));
    }
    make_plain(&mut answer.body);
    Ok(answer)
}

/// Make all texts of a value safe for a terminal, names of fields too.
fn make_plain(value: &mut Value) {
    match value {
        Value::String(text) if !output::is_plain(text) => *text = output::plain(text),
        Value::Array(all) => all.iter_mut().for_each(make_plain),
        Value::Object(fields) => {
            if fields.keys().any(|name| !output::is_plain(name)) {
                let all = std::mem::take(fields).into_iter();
                fields.extend(all.map(|(name, value)| (output::plain(&name), value)));
            }
            fields.values_mut().for_each(make_plain);
        }
        _ => {}
    }
}

/// All pages of a section: a list, or a single object.
pub(crate) fn whole(client: &mut Client, stack: usize, section: Section) -> Result<Value> {
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

/// A client that asks repeatedly. After a missing answer it uses a new connection, because on the
/// old one the late answer would be taken for that to the next question.
pub(crate) struct Contact {
    path: PathBuf,
    client: Option<Client>,
}

impl Contact {
    /// Connect.
    pub(crate) fn open(path: PathBuf) -> Result<Contact> {
        let client = Some(Client::connect(&path, TIMEOUT)?);
        Ok(Contact { path, client })
    }

    /// Ask once, over a new connection if the last question got no answer.
    ///
    /// # Errors
    /// As [`ask`]; [`has_ended`] says whether another attempt makes sense.
    pub(crate) fn ask(&mut self, question: &Question) -> Result<Answer> {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => Client::connect(&self.path, TIMEOUT)?,
        };
        let answer = ask(&mut client, question);
        if answer.as_ref().err().is_none_or(|error| error.is::<Refused>()) {
            self.client = Some(client);
        }
        answer
    }
}

/// Does the error mean that the program has ended?
pub(crate) fn has_ended(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<ControlError>();
    matches!(error, Some(ControlError::Missing { .. } | ControlError::Dead { .. }))
}

/// The socket of the command line, or that of the only running program of this user or root. A
/// program of another user, who may have any text shown by it, has to be named: by its socket, or
/// by its process, which has to be that user's.
pub(crate) fn find(socket: Option<&Path>, pid: Option<u32>) -> Result<PathBuf> {
    if let Some(path) = socket {
        return Ok(path.to_owned());
    }
    let environment = control::path::Environment::of_process();
    let directories = environment.directories();
    let others = environment.directories_of_others();
    if let Some(pid) = pid {
        let owner = fs::metadata(format!("/proc/{pid}")).ok().map(|process| process.uid());
        let of_owner = others.iter().filter(|(_, uid)| Some(*uid) == owner).map(|(path, _)| path);
        let paths = directories.iter().chain(of_owner).map(|d| control::path::socket(d, pid));
        let found = paths.clone().find(|path| path.symlink_metadata().is_ok());
        let first = || paths.clone().next().unwrap_or_default();
        return found.ok_or_else(|| anyhow!(ControlError::Missing { path: first() }));
    }
    let running: Vec<_> = directories.iter().flat_map(|d| control::path::running(d)).collect();
    match running.as_slice() {
        [(_, path)] => Ok(path.clone()),
        [] => bail!(
            "no wirespeed runs here that could be asked (looked in {}). Start one, for example \
             `wirespeed ttcp --seconds 60`; {}",
            directories.iter().map(|d| d.display().to_string()).collect::<Vec<_>>().join(", "),
            of_others(&others)
        ),
        several => {
            let pids: Vec<_> = several.iter().map(|(pid, _)| pid.to_string()).collect();
            let pids = pids.join(", ");
            bail!(Usage(format!("several programs run: choose one by --pid, of {pids}")))
        }
    }
}

/// What to do about programs of other users.
fn of_others(others: &[(PathBuf, u32)]) -> String {
    let of_directory = |(directory, uid): &(PathBuf, u32)| {
        let running = control::path::running(directory);
        running.into_iter().map(|(pid, _)| format!("{pid} (user {uid})")).collect::<Vec<_>>()
    };
    let all: Vec<_> = others.iter().flat_map(of_directory).collect();
    match all.is_empty() {
        true => "for another user's use `sudo` and `--pid`".to_owned(),
        false => format!("other users' are named by --pid: {}", all.join(", ")),
    }
}

#[cfg(test)]
mod tests;
