//! Answers that the thread of a stack gives: a page of a section, a tap's packets, a lookup, a
//! sample for the live page. The thread also carries out changes.
//!
//! Called by: `service.rs` and `mailbox.rs`.

use std::collections::BTreeMap;

use base::Budget;
use control::Users;
use serde::Serialize;
use stack::Stack;

use crate::beyond::Beyond;

use super::{change, filter, lookup, rows, rules, sample, taps};
use control::protocol::{Answer, Change, Chosen, FilterCall, Lookup, Refusal, Section};

/// Maximum number of rows in a page. A connection takes about 700 bytes of JSON, and a frame of the
/// socket holds 1 MB.
const PAGE_ROWS: usize = 500;

/// A request to a stack, for the thread that owns it.
#[derive(Clone, Debug)]
pub(super) enum Wanted {
    /// A page of a section, from a cursor on.
    Page(Section, u64),
    /// The connections at these indices of the table.
    Connections(Vec<u64>),
    /// A sample for the live page.
    Sample(live::Wanted),
    /// A request about a tap.
    Tap(taps::Wanted),
    /// A look-up in the FIB.
    Lookup(Lookup),
    /// Changes, from a client that may make changes.
    Change(Vec<Change>),
    /// A question about the firewall, or a change of it.
    Filter(FilterCall),
}

/// What is needed to answer besides the stack.
#[derive(Clone, Copy)]
pub(super) struct With<'a> {
    pub(super) users: &'a Users,
    /// The limits of the control socket.
    pub(super) control: &'a Budget,
    pub(super) beyond: &'a dyn Beyond,
}

/// Answer a request. Called by the thread that owns the stack.
pub(super) fn of(stack: &mut Stack, wanted: &Wanted, with: With<'_>) -> Answer {
    let With { users, beyond, .. } = with;
    let shows_links = matches!(
        wanted,
        Wanted::Page(Section::Ports, _) | Wanted::Connections(_) | Wanted::Sample(_)
    );
    if shows_links {
        stack.check_links();
    }
    match wanted {
        Wanted::Page(Section::States, cursor) => {
            let chosen = Chosen::default();
            filter::answer(stack, &FilterCall::States { chosen, cursor: *cursor })
        }
        Wanted::Page(section, cursor) => page(stack, (*section, *cursor), with),
        Wanted::Connections(numbers) => Answer::of(sample::looked(stack, numbers, beyond)),
        Wanted::Sample(wanted) => Answer::of(sample::sample(stack, wanted, beyond)),
        Wanted::Tap(wanted) => taps::answer(stack, wanted),
        Wanted::Lookup(lookup) => lookup::answer((users, stack), beyond, lookup),
        Wanted::Change(changes) => change::answer(stack, users, changes),
        Wanted::Filter(call) => filter::answer(stack, call),
    }
}

fn page(stack: &Stack, (section, cursor): (Section, u64), with: With<'_>) -> Answer {
    let With { users, beyond, .. } = with;
    use rows::page;
    match section {
        Section::Stack => Answer::of(rows::summary(stack)),
        Section::Ports => page(stack.ports_page(cursor, PAGE_ROWS), rows::port),
        Section::Connections => {
            page(stack.connections_page(cursor, PAGE_ROWS), |c| rows::connection(c, stack, beyond))
        }
        Section::Sockets => page(stack.sockets_page(cursor, PAGE_ROWS), rows::socket),
        Section::Addresses => {
            page(stack.addresses_page(cursor, PAGE_ROWS), |a| rows::address(a, stack))
        }
        Section::Neighbours => {
            page(stack.neighbours_page(cursor, PAGE_ROWS), |n| rows::neighbour(n, stack))
        }
        Section::Routes => {
            page(stack.routes_page(cursor, PAGE_ROWS), |r| rows::route(r, (users, stack), beyond))
        }
        Section::Rules => Answer::of(rules::rows(stack, users)),
        Section::Groups => page(stack.groups_page(cursor, PAGE_ROWS), |g| rows::group(g, stack)),
        Section::Frag => Answer::of(rows::fragments(stack)),
        Section::Drops => {
            let mut all = stack.drops().clone();
            beyond.drops().into_iter().for_each(|drops| all.include(drops));
            Answer::of(rows::named_drops(&all))
        }
        Section::Counters => {
            let counters = stack.counters().iter().map(|(c, n)| (c.name().to_owned(), n));
            Answer::of(counters.chain(beyond.counters()).collect::<BTreeMap<_, _>>())
        }
        Section::Limits => Answer::of(rows::limits(stack.budget(), with)),
        Section::Switches => Answer::of(rows::switches(stack)),
        Section::Filter => sliced(&filter::rules(stack), cursor),
        Section::Nat => sliced(&filter::nat(stack), cursor),
        Section::Mappings => filter::mappings(stack, cursor),
        Section::Ipfix => Answer::of(filter::export(stack)),
        Section::Pair => Answer::of(filter::pair(stack)),
        Section::Frr => Answer::of(beyond.route_sources()),
        Section::Mirrors => sliced(&beyond.mirrors(), cursor),
        // States have an arm of their own above.
        Section::States => Answer::of(()),
    }
}

/// A page of rows that are all in memory.
fn sliced<T: Serialize>(rows: &[T], cursor: u64) -> Answer {
    let from = usize::try_from(cursor).unwrap_or(usize::MAX).min(rows.len());
    let to = from.saturating_add(PAGE_ROWS).min(rows.len());
    let next = (to < rows.len()).then_some(to as u64);
    Answer { next, ..Answer::of(&rows[from..to]) }
}

/// The answer when the stack has ended.
pub(super) fn gone(stack: usize) -> Answer {
    Answer::refusal(Refusal::Gone, format!("there is no stack {stack}: its transfer has ended"))
}
