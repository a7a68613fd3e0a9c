//! The answer of a stack's FIB for a packet.
//!
//! Called by: `answer.rs`, on the thread that owns the stack.

use core::num::NonZeroU8;

use base::{Mtu, Owner};
use control::Users;
use stack::{FibFound, FibQuery, FibResult, PortId, Route, Stack, Vrf};

use super::{rows, rules};
use crate::beyond::Beyond;
use control::protocol::{Answer, Found, Leaving, Lookup, NextHop, Refusal};

/// Answer a look-up, on the thread that owns the stack.
pub(super) fn answer(
    (users, stack): (&Users, &Stack),
    beyond: &dyn Beyond,
    lookup: &Lookup,
) -> Answer {
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
        vrf: lookup.vrf.and_then(Vrf::of_table).unwrap_or_default(),
    };
    let row = |route: &Route| rows::route(route, (users, stack), beyond);
    Answer::of(found(stack, &query, (users, &row)))
}

/// The row of a route.
type Row<'a> = &'a dyn Fn(&Route) -> control::protocol::Route;

fn found(stack: &Stack, query: &FibQuery, (users, row): (&Users, Row<'_>)) -> Found {
    match stack.fib_lookup(query) {
        FibResult::Local(port) => {
            let address = stack.addresses(port).iter().find(|address| address.ip() == query.dst);
            let origin = address.map(|address| address.origin.name().to_owned());
            Found::Local { port: port.0, dev: stack.port_name(port), origin }
        }
        FibResult::Dropped(reason, route) => Found::Dropped {
            drop: reason.name().to_owned(),
            route: route.map(|route| Box::new(row(&route))),
        },
        FibResult::Leaves(found) => Found::Leaves(Box::new(leaving(stack, &found, (users, row)))),
    }
}

fn leaving(stack: &Stack, found: &FibFound, (users, row): (&Users, Row<'_>)) -> Leaving {
    let bytes = |mtu: Mtu| mtu.bytes() as u64;
    let others = found.route.as_ref().map(|route| {
        let of_prefix = stack.routes_to(route.dest, found.table);
        of_prefix.iter().filter(|other| !found.paths.contains(other)).map(row).collect()
    });
    Leaving {
        rule: found.rule.as_ref().map(|rule| rules::row(stack, users, rule)),
        table: found.table,
        route: found.route.as_ref().map(row),
        others: others.unwrap_or_default(),
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
