//! What the FIB of a stack says of a packet, as JSON.
//!
//! Called by: `answer.rs`, on the thread that owns the stack.

use base::{Mtu, Owner};
use control::Users;
use serde_json::{Value, json};
use stack::{FibFound, FibQuery, FibResult, PortId, Route, Stack};

use super::{rows, rules};
use control::protocol::{Answer, Lookup, Refusal};

/// Called by the thread that owns the stack.
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
    Answer { body: body(stack, users, &query), ..Answer::default() }
}

fn body(stack: &Stack, users: &Users, query: &FibQuery) -> Value {
    match stack.fib_lookup(query) {
        FibResult::Local(port) => json!({
            "result": "local",
            "port": port.0,
            "dev": stack.port_name(port),
        }),
        FibResult::Dropped(reason) => json!({ "result": "dropped", "drop": reason.name() }),
        FibResult::Leaves(found) => leaves(stack, users, &found),
    }
}

fn leaves(stack: &Stack, users: &Users, found: &FibFound) -> Value {
    let mtu = |mtu: Option<Mtu>| mtu.map(Mtu::bytes);
    let mut body = json!({
            "result": "leaves",
            "table": found.table,
            "route": found.route.as_ref().map(|route| rows::route(route, users, stack.now())),
            "paths": found.paths.len().max(1),
            "next_hops": found.paths.iter().map(|r| next_hop(stack, r)).collect::<Vec<_>>(),
            "broadcast": found.is_broadcast,
            "port": found.hop.port,
            "dev": stack.port_name(PortId(found.hop.port)),
            "next_hop": found.hop.neighbour.to_string(),
            "source": found.source.map(|ip| ip.to_string()),
            "neighbour": found.neighbour.map(|(state, _)| state.name()),
            "mac": found.neighbour.and_then(|(_, mac)| mac).map(|mac| mac.to_string()),
            "mtu": found.mtu.bytes(),
            "port_mtu": found.port_mtu.bytes(),
            "route_mtu": mtu(found.hop.mtu),
            "neighbour_mtu": mtu(found.neighbour_mtu),
            "path_mtu": mtu(found.path_mtu),
    });
    if let Some(rule) = &found.rule {
        body["rule"] = rules::row(stack, users, rule);
    }
    body
}

fn next_hop(stack: &Stack, route: &Route) -> Value {
    json!({
        "via": route.via.map(|via| via.to_string()),
        "dev": stack.port_name(PortId(route.port)),
        "weight": route.weight,
    })
}
