//! Requests to running programs: the choice of the program, and its answers.
//!
//! Called by: `show`, `dump`, `top`, `explain`, `ip`, `nc` and `ping`; `observe` answers.

pub(crate) mod socket;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde::de::DeserializeOwned;
use serde_json::Value;
use wirespeed::control::protocol::{Answer, Question, Refusal, Section};
use wirespeed::control::text::{is_plain, plain};
use wirespeed::control::{self, Client, ControlError};

use crate::Usage;

/// How long a program may take to answer.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// The error of a program that refused a question.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) refusal: Refusal,
    error: String,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the program answers: {}", plain(&self.error))
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
        program.command = plain(&program.command);
        program.version = plain(&program.version);
        program.stacks.iter_mut().for_each(|name| *name = plain(name));
    }
    make_plain(&mut answer.body);
    Ok(answer)
}

/// Make all texts of a value safe for a terminal, names of fields too.
fn make_plain(value: &mut Value) {
    match value {
        Value::String(text) if !is_plain(text) => *text = plain(text),
        Value::Array(all) => all.iter_mut().for_each(make_plain),
        Value::Object(fields) => {
            if fields.keys().any(|name| !is_plain(name)) {
                let all = std::mem::take(fields).into_iter();
                fields.extend(all.map(|(name, value)| (plain(&name), value)));
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

/// The same as values of their type.
pub(crate) fn section<T: DeserializeOwned>(
    client: &mut Client,
    stack: usize,
    wanted: Section,
) -> Result<T> {
    typed(whole(client, stack, wanted)?)
}

/// An answer's body as a value of its type.
pub(crate) fn typed<T: DeserializeOwned>(body: Value) -> Result<T> {
    serde_json::from_value(body)
        .context("the program is of another version, and is not understood: start it anew")
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
/// program of another user has to be named, because that user decides what text it shows: by its
/// socket, or by its process, which has to be that user's.
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
        let path = paths.clone().next().unwrap_or_default();
        let is_others = owner.is_some_and(|owner| owner != environment.uid);
        return found.ok_or_else(|| match is_others && environment.uid != 0 {
            // Its directory is not for us, so that nobody knows what is in there.
            true => anyhow!(ControlError::Denied { path }),
            false => anyhow!(ControlError::Missing { path }),
        });
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

/// Advice about programs of other users.
fn of_others(others: &[(PathBuf, u32)]) -> String {
    let of_directory = |(directory, uid): &(PathBuf, u32)| {
        let running = control::path::running(directory);
        running.into_iter().map(|(pid, _)| format!("{pid} (user {uid})")).collect::<Vec<_>>()
    };
    let all: Vec<_> = others.iter().flat_map(of_directory).collect();
    match all.is_empty() {
        true => "a program of root, as a router is, is asked by root: `sudo wirespeed ...`; \
                 another user's by `sudo` and `--pid`"
            .to_owned(),
        false => format!("other users' are named by --pid: {}", all.join(", ")),
    }
}

#[cfg(test)]
mod tests;
