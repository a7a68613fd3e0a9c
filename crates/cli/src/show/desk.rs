//! The desk of a running program: it answers `wirespeed show` between the turns of the stacks.
//!
//! Called by: the loops, every 50 ms; `hatch.rs`. Must not know: what the stacks do. A program
//! without a place for its socket runs without one: nothing is worth less than a transfer that does
//! not start.

use serde_json::json;
use wirespeed::control::{self, Message, Server};
use wirespeed::{Budget, Instant, Stack};

use super::hatch::Hatch;
use super::{Answer, Program, Question, Section, rows};

/// Rows of a page: one connection is some 700 bytes of JSON, a frame takes a megabyte.
const PAGE_ROWS: usize = 500;

/// A page of a section of a stack.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    stack: usize,
    section: Section,
    cursor: u64,
}

/// Answers, where there is a socket.
pub(crate) struct Desk {
    server: Option<Server>,
    command: &'static str,
}

impl Desk {
    /// Serve in the user's directory, if there can be one.
    pub(crate) fn open(command: &'static str) -> Desk {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR");
        let uid = rustix::process::geteuid().as_raw();
        let directory = control::path::directory(runtime.as_deref(), uid);
        let serve = || {
            control::path::prepare(&directory)?;
            control::path::sweep(&directory);
            let path = control::path::socket(&directory, std::process::id());
            let (budget, groups) = (Budget::default(), wirespeed::device::peer_groups);
            Server::bind(&path, budget, groups, control::own_user_and_root)
        };
        Desk { server: serve().ok(), command }
    }

    /// Answer who asks about `stacks`; never waits.
    pub(crate) fn poll(&mut self, now: Instant, stacks: &[(&str, &Stack)]) {
        let names: Vec<_> = stacks.iter().map(|(name, _)| *name).collect();
        self.serve(now, &names, |wanted, control| match stacks.get(wanted.stack) {
            Some((_, stack)) => section(stack, &wanted, control),
            None => gone(&wanted),
        });
    }

    /// The same for stacks that other threads own, who serve at their hatches; waits for them.
    pub(crate) fn poll_hatches(&mut self, now: Instant, hatches: &[(&str, &Hatch)]) {
        let names: Vec<_> = hatches.iter().map(|(name, _)| *name).collect();
        self.serve(now, &names, |wanted, control| match hatches.get(wanted.stack) {
            Some((_, hatch)) => hatch.ask(wanted, control),
            None => gone(&wanted),
        });
    }

    fn serve(&mut self, now: Instant, names: &[&str], page: impl Fn(Wanted, &Budget) -> Answer) {
        let Some(server) = &mut self.server else { return };
        let control = server.budget().clone();
        server.poll(now, |_, request| {
            let answer = match serde_json::from_slice(&request.payload) {
                Ok(Question::Program) => program(self.command, names),
                Ok(Question::Section { stack, section, cursor }) => {
                    page(Wanted { stack, section, cursor }, &control)
                }
                Err(error) => refusal(format!("the question is not understood: {error}")),
            };
            let payload = serde_json::to_vec(&answer).unwrap_or_default();
            Message { payload, descriptors: Vec::new() }
        });
    }
}

pub(super) fn refusal(error: String) -> Answer {
    Answer { error: Some(error), ..Answer::default() }
}

pub(super) fn gone(wanted: &Wanted) -> Answer {
    refusal(format!("there is no stack {}: its transfer has ended", wanted.stack))
}

fn program(command: &str, names: &[&str]) -> Answer {
    let program = Program {
        pid: std::process::id(),
        command: command.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        stacks: names.iter().map(|name| (*name).to_owned()).collect(),
    };
    Answer { program: Some(program), ..Answer::default() }
}

/// A page of a section; `control` has the limits of the socket itself.
pub(super) fn section(stack: &Stack, wanted: &Wanted, control: &Budget) -> Answer {
    let cursor = wanted.cursor;
    let (body, next) = match wanted.section {
        Section::Stack => (rows::stack(stack), None),
        Section::Ports => rows::page(stack.ports_page(cursor, PAGE_ROWS), rows::port),
        Section::Connections => {
            rows::page(stack.connections_page(cursor, PAGE_ROWS), rows::connection)
        }
        Section::Sockets => rows::page(stack.sockets_page(cursor, PAGE_ROWS), rows::socket),
        Section::Neighbours => {
            let row = |(port, address, mac): &_| rows::neighbour(*port, address, mac);
            rows::page(stack.neighbours_page(cursor, PAGE_ROWS), row)
        }
        Section::Routes => rows::page(stack.routes_page(cursor, PAGE_ROWS), rows::route),
        Section::Drops => {
            let pairs = stack.drops().nonzero().map(|(r, n)| (r.name().to_owned(), json!(n)));
            (pairs.collect(), None)
        }
        Section::Counters => {
            let pairs = stack.counters().iter().map(|(c, n)| (c.name().to_owned(), json!(n)));
            (pairs.collect(), None)
        }
        Section::Limits => (rows::limits(stack.budget(), control), None),
        Section::Switches => (rows::switches(stack), None),
    };
    Answer { body, next, ..Answer::default() }
}
