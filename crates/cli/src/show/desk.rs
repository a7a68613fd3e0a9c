//! The desk of a running program: it answers `wirespeed show` between the turns of the stacks.
//!
//! Called by: the loops, every 50 ms. Must not know: what the stacks do. A program without a place
//! for its socket runs without one: nothing is worth less than a transfer that does not start.

use control::{Message, Server};
use serde_json::json;
use wirespeed::{Budget, Instant, Stack};

use super::{Answer, Program, Question, Section, rows};

/// Rows of a page: one connection is some 700 bytes of JSON, a frame takes a megabyte.
const PAGE_ROWS: usize = 500;

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
        let Some(server) = &mut self.server else { return };
        let control = server.budget().clone();
        server.poll(now, |_, request| {
            let answer = match serde_json::from_slice(&request.payload) {
                Ok(question) => answer(&question, self.command, stacks, &control),
                Err(error) => refusal(format!("the question is not understood: {error}")),
            };
            let payload = serde_json::to_vec(&answer).unwrap_or_default();
            Message { payload, descriptors: Vec::new() }
        });
    }
}

fn refusal(error: String) -> Answer {
    Answer { error: Some(error), ..Answer::default() }
}

fn answer(
    question: &Question,
    command: &str,
    stacks: &[(&str, &Stack)],
    control: &Budget,
) -> Answer {
    let &Question::Section { stack, section, cursor } = question else {
        let program = Program {
            pid: std::process::id(),
            command: command.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            stacks: stacks.iter().map(|(name, _)| (*name).to_owned()).collect(),
        };
        return Answer { program: Some(program), ..Answer::default() };
    };
    let Some((_, stack)) = stacks.get(stack) else {
        return refusal(format!("there is no stack {stack}: it has gone"));
    };
    let (body, next) = match section {
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
