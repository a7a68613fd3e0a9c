//! Answers that the thread of a stack gives: a page of a section, a tap's packets, a lookup, a
//! sample for the live page; and the changes that it carries out.
//!
//! Called by: `service.rs` and `mailbox.rs`.

use base::Budget;
use control::Users;
use serde_json::{Value, json};
use stack::{PortId, Stack};

use super::{change, lookup, rows, rules, sample, taps};
use control::protocol::{Answer, Change, Lookup, Refusal, Section};

/// Rows of a page. A connection is about 700 bytes of JSON, and a frame of the socket holds 1 MB.
const PAGE_ROWS: usize = 500;

/// A request to a stack, for the thread that owns it.
#[derive(Clone, Debug)]
pub(super) enum Wanted {
    /// A page of a section, from a cursor on.
    Page(Section, u64),
    /// The connections at these places of the table.
    Connections(Vec<u64>),
    /// A sample for the live page.
    Sample(live::Wanted),
    /// A request about a tap.
    Tap(taps::Wanted),
    /// What the FIB says.
    Lookup(Lookup),
    /// Changes, of a client that may change something.
    Change(Vec<Change>),
}

/// Answer a request; called by the thread that owns the stack. `control` has the limits of the
/// control socket.
pub(super) fn of(stack: &mut Stack, users: &Users, wanted: &Wanted, control: &Budget) -> Answer {
    let shows_links = matches!(
        wanted,
        Wanted::Page(Section::Ports, _) | Wanted::Connections(_) | Wanted::Sample(_)
    );
    if shows_links {
        stack.check_links();
    }
    match wanted {
        Wanted::Page(section, cursor) => page(stack, users, (*section, *cursor), control),
        Wanted::Connections(numbers) => Answer::of(sample::looked(stack, numbers)),
        Wanted::Sample(wanted) => Answer::of(sample::sample(stack, wanted)),
        Wanted::Tap(wanted) => taps::answer(stack, wanted),
        Wanted::Lookup(lookup) => lookup::answer(stack, users, lookup),
        Wanted::Change(changes) => change::answer(stack, users, changes),
    }
}

fn page(
    stack: &Stack,
    users: &Users,
    (section, cursor): (Section, u64),
    control: &Budget,
) -> Answer {
    let (mut body, next) = match section {
        Section::Stack => (rows::stack(stack), None),
        Section::Ports => rows::page(stack.ports_page(cursor, PAGE_ROWS), rows::port),
        Section::Connections => {
            let row = |c: &_| json!(rows::connection(c, stack));
            rows::page(stack.connections_page(cursor, PAGE_ROWS), row)
        }
        Section::Sockets => {
            let row = |s: &_| json!(rows::socket(s));
            rows::page(stack.sockets_page(cursor, PAGE_ROWS), row)
        }
        Section::Addresses => {
            let row = |a: &_| rows::address(a, stack.now());
            rows::page(stack.addresses_page(cursor, PAGE_ROWS), row)
        }
        Section::Neighbours => {
            rows::page(stack.neighbours_page(cursor, PAGE_ROWS), rows::neighbour)
        }
        Section::Routes => {
            let row = |r: &_| rows::route(r, users, stack.now());
            rows::page(stack.routes_page(cursor, PAGE_ROWS), row)
        }
        Section::Rules => (rules::rows(stack, users), None),
        Section::Groups => rows::page(stack.groups_page(cursor, PAGE_ROWS), rows::group),
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
    name_ports(stack, &mut body);
    Answer { body, next, ..Answer::default() }
}

/// Where a row has the number of a port, give its name, too.
fn name_ports(stack: &Stack, body: &mut Value) {
    for row in body.as_array_mut().into_iter().flatten() {
        if let Some(port) = row["port"].as_u64().and_then(|port| u16::try_from(port).ok()) {
            row["dev"] = json!(stack.port_name(PortId(port)));
        }
    }
}

/// The answer when the stack has ended.
pub(super) fn gone(stack: usize) -> Answer {
    Answer::refusal(Refusal::Gone, format!("there is no stack {stack}: its transfer has ended"))
}
