//! State that the first shard publishes to the others: addresses, permanent neighbours, rules of
//! routing, switches, whether packets are forwarded, and the rules of the firewall (whose states
//! each shard has for itself). Routes are not copied, because all shards look them up in one FIB
//! (decision 0075). The exceptions are routes that only some users may use, and the routes that
//! contain them or that they contain.
//!
//! Called by: `turns.rs`. The state is published as a whole, with a version that each shard reads
//! once a turn. The lock is taken only if the version has changed.

use core::net::IpAddr;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{MacAddr, Switches};
use filter::{Homes, Published as Rules};
use inet::neighbour::State as NeighbourState;
use inet::route::Restricted;
use inet::{Address, Rule, Vrf};

use super::homes;
use crate::handles::PortId;
use crate::local::LocalAddrs;
use crate::stack::Stack;

/// Everything that all shards share except routes.
#[derive(Default)]
pub(super) struct Published {
    version: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    switches: Switches,
    /// Whether forwarding, directed broadcasts and redirects are on.
    forwarding: (bool, bool, bool),
    /// By port: its VRF, usable addresses, and the same addresses in the form in which packets are
    /// compared with them.
    addresses: Vec<(PortId, Vrf, Vec<Address>, LocalAddrs)>,
    neighbours: Vec<(PortId, IpAddr, MacAddr)>,
    rules: Vec<Rule>,
    restricted: Arc<Restricted>,
    filter: Option<Arc<Rules>>,
    /// The homes of packets while rules of NAT are set.
    homes: Option<Arc<Homes>>,
}

/// Values that change whenever the first shard's state changes.
pub(super) type Stamp = (u64, u64, Switches, (bool, bool, bool), Option<u32>);

pub(super) fn stamp(stack: &Stack) -> Stamp {
    let generation = stack.filter().map(|filter| filter.published().generation);
    let settings = stack.forwarding.settings();
    (stack.changes(), stack.ports.epoch(), stack.switches(), settings, generation)
}

impl Published {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Publish the state of the first shard.
    pub(super) fn publish(&self, stack: &mut Stack) {
        let homes = homes::made(stack);
        if let Some(firewall) = stack.filter_mut() {
            firewall.set_homes(homes.clone());
        }
        let addresses = stack.ports.iter().map(|port| {
            let usable = port.addresses.iter().filter(|a| a.is_usable()).copied();
            (port.id, port.vrf, usable.collect(), port.local.clone())
        });
        let permanent = stack.neighbours.rows().filter(|row| row.state == NeighbourState::Static);
        let neighbours = permanent.filter_map(|row| Some((PortId(row.port), row.ip, row.mac?)));
        *self.state() = State {
            switches: stack.switches(),
            forwarding: stack.forwarding.settings(),
            addresses: addresses.collect(),
            neighbours: neighbours.collect(),
            rules: stack.routes.rules().to_vec(),
            restricted: Arc::clone(stack.routes.restricted_part()),
            filter: stack.filter().map(|filter| Arc::clone(filter.published())),
            homes,
        };
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Take over the published state, on a shard other than the first.
    #[cold]
    pub(super) fn follow(&self, stack: &mut Stack) {
        let state = self.state();
        if stack.switches() != state.switches {
            stack.follow_switches(state.switches);
        }
        let (on, directed, redirects) = state.forwarding;
        stack.set_forwarding(on);
        stack.set_directed_broadcasts(directed);
        stack.set_redirects(redirects);
        for (port, vrf, addresses, local) in &state.addresses {
            if stack.vrf(*port) != *vrf {
                stack.moved_to_vrf(*port, *vrf);
            }
            follow_addresses(stack, *port, addresses, local);
        }
        if stack.routes.rules() != state.rules {
            stack.routes.set_rules(&state.rules);
        }
        stack.routes.follow_restricted(&state.restricted);
        let has = stack.filter().map(|filter| Arc::as_ptr(filter.published()));
        if has != state.filter.as_ref().map(Arc::as_ptr) {
            stack.set_filter(state.filter.clone());
        }
        if let Some(firewall) = stack.filter_mut() {
            firewall.set_homes(state.homes.clone());
        }
        let known = stack.neighbours.rows().filter(|row| row.state == NeighbourState::Static);
        let known: Vec<_> = known.map(|row| (PortId(row.port), row.ip)).collect();
        for (port, ip) in known {
            if !state.neighbours.iter().any(|&(p, i, _)| (p, i) == (port, ip)) {
                stack.remove_neighbour(port, ip);
            }
        }
        for &(port, ip, mac) in &state.neighbours {
            if stack.neighbours.permanent((port.0, ip)) != Some(mac) {
                stack.add_neighbour(port, ip, mac);
            }
        }
        stack.addresses_changed();
    }
}

/// Set the addresses of a port. Connections from other addresses fail.
fn follow_addresses(stack: &mut Stack, id: PortId, addresses: &[Address], local: &LocalAddrs) {
    let Some(port) = stack.ports.get_mut(id.0) else { return };
    let old = core::mem::replace(&mut port.addresses, addresses.to_vec());
    port.local = local.clone();
    for gone in old.iter().map(Address::ip) {
        if !addresses.iter().any(|a| a.ip() == gone) {
            stack.fail_connections_from(id, gone);
        }
    }
}
