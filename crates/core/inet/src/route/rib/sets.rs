//! Sets of routes to one prefix. Prefixes with equal sets share one: a million routes of a peer
//! lead to a few next hops.
//!
//! Called by: `rib.rs`, `change.rs`. The routes of a set have no destination and no table, because
//! its prefixes have different ones; the version of their destination is right. A set lasts as long
//! as prefixes have it.

use core::net::{Ipv4Addr, Ipv6Addr};
use std::collections::BTreeMap;
use std::sync::Arc;

use base::Cidr;

use super::Route;

/// The number of a set; 0 is the empty one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SetId(u32);

#[derive(Debug)]
struct Entry {
    routes: Arc<[Route]>,
    prefixes: u32,
}

/// The sets that prefixes have.
#[derive(Debug, Default)]
pub(super) struct Sets {
    numbers: BTreeMap<Arc<[Route]>, u32>,
    /// By number less 1.
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
}

impl Sets {
    /// The routes of a set; the best one is first.
    pub(super) fn get(&self, SetId(number): SetId) -> &[Route] {
        let entry = number.checked_sub(1).and_then(|at| self.entries.get(at as usize)?.as_ref());
        entry.map_or(&[], |entry| &entry.routes)
    }

    /// A prefix that had the set `old` has these routes from now on.
    pub(super) fn replace(&mut self, old: SetId, routes: &[Route]) -> SetId {
        let new = self.take(routes.iter().map(without_dest).collect());
        self.release(old);
        new
    }

    fn take(&mut self, routes: Vec<Route>) -> SetId {
        if routes.is_empty() {
            return SetId(0);
        }
        if let Some(&number) = self.numbers.get(&routes[..]) {
            if let Some(Some(entry)) = self.entries.get_mut(number as usize - 1) {
                entry.prefixes += 1;
            }
            return SetId(number);
        }
        let at = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() as u32 - 1
        });
        let routes: Arc<[Route]> = routes.into();
        self.numbers.insert(Arc::clone(&routes), at + 1);
        if let Some(entry) = self.entries.get_mut(at as usize) {
            *entry = Some(Entry { routes, prefixes: 1 });
        }
        SetId(at + 1)
    }

    fn release(&mut self, SetId(number): SetId) {
        let Some(at) = number.checked_sub(1) else { return };
        let Some(entry) = self.entries.get_mut(at as usize) else { return };
        let Some(used) = entry.as_mut() else { return };
        used.prefixes -= 1;
        if used.prefixes == 0
            && let Some(gone) = entry.take()
        {
            self.numbers.remove(&gone.routes);
            self.free.push(at);
        }
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }
}

/// The route as its set has it.
fn without_dest(route: &Route) -> Route {
    let addr = if route.dest.addr.is_ipv4() {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    Route { dest: Cidr { addr, prefix_len: 0 }, table: 0, ..route.clone() }
}
