//! The answer of a stack's FIB for a packet.
//!
//! Called by: `answer.rs`, on the thread that owns the stack.

use core::num::NonZeroU8;

use base::{Mtu, Owner};
use control::Users;
use stack::{FibFound, FibQuery, FibResult, PortId, Route, Stack};

use super::{rows, rules};
use control::protocol::{Answer, Found, Leaving, Lookup, NextHop, Refusal};

/// Answer a look-up, on the thread that owns the stack.
pub(super) fn answer(stack: &Stack, users: &Users, lookup: &Lookup) -> Answer {
    let named = [lookup.output, lookup.input].into_iter().flatten();
    if named.map(PortId).any(|port| stack.device(port).is_none()) {
        let why = "Cannot find device: there is no such port; see `wirespeed ip link`";
        return Answer::refusal(Refusal::Missing, why.to_owned());
    }
    let query = FibQuery {
        dst: lookup.dst,
        src: lookup.src,
        output: lookup.output.map(PortId),
        input: lookup.input.map(PortId),
        owner: users.owner(&Owner { uid: lookup.uid, groups: lookup.gids.clone().into() }),
        mark: lookup.mark,
    };
    Answer::of(found(stack, users, &query))
}

fn found(stack: &Stack, users: &Users, query: &FibQuery) -> Found {
    match stack.fib_lookup(query) {
        FibResult::Local(port) => Found::Local { port: port.0, dev: stack.port_name(port) },
        FibResult::Dropped(reason, route) => Found::Dropped {
            drop: reason.name().to_owned(),
            route: route.map(|route| Box::new(rows::route(&route, users, stack))),
        },
        FibResult::Leaves(found) => Found::Leaves(Box::new(leaving(stack, users, &found))),
    }
}

fn leaving(stack: &Stack, users: &Users, found: &FibFound) -> Leaving {
    let bytes = |mtu: Mtu| mtu.bytes() as u64;
    Leaving {
        rule: found.rule.as_ref().map(|rule| rules::row(stack, users, rule)),
        table: found.table,
        route: found.route.as_ref().map(|route| rows::route(route, users, stack)),
        paths: found.paths.len().max(1) as u64,
        next_hops: found.paths.iter().map(|route| next_hop(stack, route)).collect(),
        broadcast: found.is_broadcast,
        port: found.hop.port,
        dev: stack.port_name(PortId(found.hop.port)),
        next_hop: found.hop.neighbour,
        source: found.source,
        neighbour: found.neighbour.map(|(state, _)| state.name().to_owned()),
        mac: found.neighbour.and_then(|(_, mac)| mac),
        mtu: bytes(found.mtu),
        port_mtu: bytes(found.port_mtu),
        route_mtu: found.hop.mtu.map(bytes),
        neighbour_mtu: found.neighbour_mtu.map(bytes),
        path_mtu: found.path_mtu.map(bytes),
    }
}

fn next_hop(stack: &Stack, route: &Route) -> NextHop {
    NextHop {
        via: route.via,
        dev: stack.port_name(PortId(route.port)),
        weight: route.weight.map(NonZeroU8::get),
    }
}
