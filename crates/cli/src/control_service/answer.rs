//! What a stack's own thread answers: a page of what the stack is doing, or a tap's packets.
//!
//! Called by: `control_service.rs` and `mailbox.rs`.

use serde_json::json;
use wirespeed::{Budget, Stack};

use super::{rows, taps};
use crate::running::{Answer, Refusal, Section};

/// Rows of a page: one connection is some 700 bytes of JSON, a frame takes a megabyte.
const PAGE_ROWS: usize = 500;

/// What is wanted of a stack, by the thread that has it.
#[derive(Clone, Debug)]
pub(super) enum Wanted {
    /// A page of a section.
    Page(Section, u64),
    /// Something with a tap.
    Tap(taps::Wanted),
}

/// By the thread that has the stack; `control` has the limits of the socket itself.
pub(super) fn of(stack: &mut Stack, wanted: &Wanted, control: &Budget) -> Answer {
    match wanted {
        Wanted::Page(section, cursor) => page(stack, *section, *cursor, control),
        Wanted::Tap(wanted) => taps::answer(stack, wanted),
    }
}

fn page(stack: &Stack, section: Section, cursor: u64, control: &Budget) -> Answer {
    let (body, next) = match section {
        Section::Stack => (rows::stack(stack), None),
        Section::Ports => rows::page(stack.ports_page(cursor, PAGE_ROWS), rows::port),
        Section::Connections => {
            let row = |c: &_| rows::connection(c, stack.now());
            rows::page(stack.connections_page(cursor, PAGE_ROWS), row)
        }
        Section::Sockets => rows::page(stack.sockets_page(cursor, PAGE_ROWS), rows::socket),
        Section::Neighbours => {
            let row = |(port, address, mac): &_| rows::neighbour(*port, address, mac);
            rows::page(stack.neighbours_page(cursor, PAGE_ROWS), row)
        }
        Section::Routes => rows::page(stack.routes_page(cursor, PAGE_ROWS), rows::route),
        Section::Frag => (rows::fragments(stack), None),
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

/// There is no such stack any more.
pub(super) fn gone(stack: usize) -> Answer {
    Answer::refusal(Refusal::Gone, format!("there is no stack {stack}: its transfer has ended"))
}
