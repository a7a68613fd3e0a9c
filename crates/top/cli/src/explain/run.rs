//! Looks at connections of a running program, again and again for a while.
//!
//! Called by: `explain.rs`.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use explain::{Legs, Look, Looked, Verdict};
use wirespeed::control::Client;

use super::args::{Args, Which};
use crate::Usage;
use crate::running::{Refused, TIMEOUT, ask, find, section, typed};
use wirespeed::control::protocol::{Connection, Outer, Question, Section};

/// The most connections at a time.
const AT_A_TIME: usize = 8;

/// A connection, and what was found out about it.
pub(super) struct Explained {
    pub(super) stack: String,
    pub(super) local: String,
    pub(super) remote: String,
    pub(super) verdict: Verdict,
    /// Both legs, if it ends at a gateway.
    pub(super) legs: Option<Legs>,
    /// It ended before the last look.
    pub(super) has_ended: bool,
}

/// A connection that is looked at.
struct Watched {
    stack: usize,
    number: u64,
    local: String,
    remote: String,
    looks: Vec<Look>,
    outer: Vec<Outer>,
    has_ended: bool,
}

/// Look, and decide.
pub(super) fn explain(args: &Args) -> Result<Vec<Explained>> {
    let which = args.which()?;
    let mut client = Client::connect(&find(args.socket.as_deref(), args.pid)?, TIMEOUT)?;
    let program = ask(&mut client, &Question::Program)?.program;
    let stacks = program.context("the program does not say what it is")?.stacks;
    let mut watched = chosen(&mut client, stacks.len(), &which)?;
    let mut rounds = 0;
    let until = Instant::now() + Duration::from_secs_f64(args.seconds);
    while Instant::now() < until && watched.iter().any(|one| !one.has_ended) {
        for stack in 0..stacks.len() {
            look(&mut client, stack, &mut watched)?;
        }
        rounds += 1;
        std::thread::sleep(explain::apart(rounds).into());
    }
    let explained = watched.into_iter().filter_map(|one| {
        let verdict = Verdict::of(&one.looks)?;
        Some(Explained {
            stack: stacks.get(one.stack)?.clone(),
            local: one.local,
            remote: one.remote,
            legs: Legs::of(&verdict, &one.outer),
            verdict,
            has_ended: one.has_ended,
        })
    });
    let explained: Vec<_> = explained.collect();
    if explained.is_empty() {
        bail!("the connection ended before it could be looked at twice");
    }
    Ok(explained)
}

/// The connections that the command line names.
fn chosen(client: &mut Client, stacks: usize, which: &Which) -> Result<Vec<Watched>> {
    let (mut found, mut total) = (Vec::new(), 0);
    for stack in 0..stacks {
        let rows: Vec<Connection> = match section(client, stack, Section::Connections) {
            Ok(rows) => rows,
            // This stack has ended; another one may have the connection.
            Err(error) if error.is::<Refused>() => continue,
            Err(error) => return Err(error),
        };
        for row in rows {
            total += 1;
            let is_wanted = match which {
                Which::Nth(number) => *number == total,
                Which::Filter(filter) => {
                    filter.as_ref().is_none_or(|filter| filter.connection(&row))
                }
            };
            if is_wanted {
                let Connection { number, local, remote, .. } = row;
                let (looks, outer, has_ended) = (Vec::new(), Vec::new(), false);
                found.push(Watched { stack, number, local, remote, looks, outer, has_ended });
            }
        }
    }
    match found.len() {
        0 if total == 0 => bail!("the program has no connection now"),
        0 => bail!(
            "there is no such connection: `wirespeed show connections` lists the {total} there are"
        ),
        1..=AT_A_TIME => Ok(found),
        many => bail!(Usage(format!(
            "{many} connections are meant, at most {AT_A_TIME} are explained at a time: name one \
             as `wirespeed show connections` prints it"
        ))),
    }
}

/// Look once at the watched connections of a stack.
fn look(client: &mut Client, stack: usize, watched: &mut [Watched]) -> Result<()> {
    let is_there = |one: &&mut Watched| one.stack == stack && !one.has_ended;
    let mut of_stack: Vec<_> = watched.iter_mut().filter(is_there).collect();
    if of_stack.is_empty() {
        return Ok(());
    }
    let numbers = of_stack.iter().map(|one| one.number).collect();
    let rows: Vec<Looked> = match ask(client, &Question::Connections { stack, numbers }) {
        Ok(answer) => typed(answer.body)?,
        Err(error) if error.is::<Refused>() => Vec::new(),
        Err(error) => return Err(error),
    };
    for one in &mut of_stack {
        let is_it = |row: &&Looked| {
            row.connection.local == one.local && row.connection.remote == one.remote
        };
        match rows.iter().find(is_it) {
            Some(row) => {
                one.looks.push(row.look.clone());
                one.outer.extend(row.connection.outer.as_deref().cloned());
            }
            None => one.has_ended = true,
        }
    }
    Ok(())
}
