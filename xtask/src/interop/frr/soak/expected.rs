//! The tables that the routers of the fabric must have: each network by the shortest paths to it,
//! all of them together, as BGP with `multipath-relax` finds them.
//!
//! Called by: `soak.rs`. It knows cables and what is announced, and no daemon.

use std::collections::BTreeSet;

use super::super::tables::Table;
use super::plan::{Plan, ROUTERS};

/// The routers at the ends of each cable, in the order of `CABLES`.
const ENDS: [(usize, usize); 4] = [(0, 2), (0, 3), (1, 2), (1, 3)];
/// Networks of the leaves' hosts.
const LANS: [(usize, &str, &str); 2] =
    [(2, "10.1.0.0/24", "2001:db8:1::/64"), (3, "10.2.0.0/24", "2001:db8:2::/64")];

/// The tables of all routers, while `without` runs no bgpd.
pub(super) fn tables(plan: &Plan, without: Option<usize>) -> Vec<Table> {
    let mut origins: Vec<(usize, String, String)> =
        LANS.iter().map(|&(at, v4, v6)| (at, v4.to_owned(), v6.to_owned())).collect();
    for at in (0..ROUTERS.len()).filter(|at| plan.announces(*at)) {
        let [v4, v6] = announced(at);
        origins.push((at, v4, v6));
    }
    let peers = |at: usize| -> Vec<usize> {
        let speaks = |router: usize| without != Some(router);
        let of = |(cable, &(a, b)): (usize, &(usize, usize))| {
            let other = if a == at { Some(b) } else { (b == at).then_some(a) };
            other.filter(|other| plan.is_whole(cable) && speaks(at) && speaks(*other))
        };
        ENDS.iter().enumerate().filter_map(of).collect()
    };
    let mut tables = vec![Table::new(); ROUTERS.len()];
    for (origin, v4, v6) in origins {
        for (at, hops) in next_hops(origin, peers).into_iter().enumerate() {
            if hops.is_empty() {
                continue;
            }
            let hops: Vec<String> =
                hops.iter().map(|hop| format!("link-local {}", ROUTERS[*hop])).collect();
            let mut hops = hops;
            hops.sort();
            tables[at].insert(format!("-4 unicast {v4} {}", hops.join(", ")));
            tables[at].insert(format!("-6 unicast {v6} {}", hops.join(", ")));
        }
    }
    tables
}

/// The networks that a router announces when it is told to.
pub(super) fn announced(at: usize) -> [String; 2] {
    [format!("10.5{at}.0.0/16"), format!("2001:db8:5{at}::/48")]
}

/// The next hops of each router to `origin`, which has none itself.
fn next_hops(origin: usize, peers: impl Fn(usize) -> Vec<usize>) -> Vec<BTreeSet<usize>> {
    let mut hops = vec![BTreeSet::new(); ROUTERS.len()];
    let (mut seen, mut last) = (BTreeSet::from([origin]), BTreeSet::from([origin]));
    while !last.is_empty() {
        let mut next = BTreeSet::new();
        for &at in &last {
            for peer in peers(at).into_iter().filter(|peer| !seen.contains(peer)) {
                hops[peer].insert(at);
                next.insert(peer);
            }
        }
        seen.extend(&next);
        last = next;
    }
    hops
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_paths_are_used_together() {
        let whole = tables(&Plan::default(), None);
        let both = "-4 unicast 10.2.0.0/24 link-local spine1, link-local spine2";
        assert!(whole[2].contains(both), "{:?}", whole[2]);
        assert!(whole[0].contains("-6 unicast 2001:db8:1::/64 link-local leaf1"));
        assert_eq!(whole[3].len(), 2);
        let cut = tables(&Plan::of_cuts(&[1]), None);
        assert!(cut[2].contains("-4 unicast 10.2.0.0/24 link-local spine2"), "{:?}", cut[2]);
        assert!(cut[0].contains("-4 unicast 10.2.0.0/24 link-local leaf1"), "{:?}", cut[0]);
        assert_eq!(tables(&Plan::of_cuts(&[0, 2]), None)[2], Table::new());
        assert_eq!(tables(&Plan::default(), Some(3))[2], Table::new());
    }
}
