//! Routing protocols between routers of ours: RIP, OSPF and OSPFv3 with BFD, BGP by link-local
//! addresses. A network of kernels with the same daemons and configurations runs beside each, and
//! the routes have to be the same.
//!
//! Called by: `mod.rs`. RFC 2453, RFC 2328, RFC 5340, RFC 5882, RFC 4271, RFC 8950.

use std::time::Instant;

use anyhow::{Context, Result};

use super::super::Workbench;
use super::super::ip::until;
use super::super::router::scene::LIMIT;
use super::network::{Cable, End, Kind, Network, Plan, Site, Victim, equal, site};

/// Two routers by two cables, and a host behind each.
const CABLES: &[Cable] = &[
    [("r1", "cable1"), ("r2", "cable1")],
    [("r1", "cable2"), ("r2", "cable2")],
    [("r1", "lan"), ("h1", "eth0")],
    [("r2", "lan"), ("h2", "eth0")],
];
const ENDS: &[End] = &[
    End {
        name: "h1",
        addresses: &["10.1.0.9/24", "2001:db8:1::9/64"],
        gateways: &["10.1.0.1", "2001:db8:1::1"],
    },
    End {
        name: "h2",
        addresses: &["10.2.0.9/24", "2001:db8:2::9/64"],
        gateways: &["10.2.0.1", "2001:db8:2::1"],
    },
];

const RIP: Plan = Plan {
    sites: &[site!("rip", "r1", &["ripd", "ripngd"]), site!("rip", "r2", &["ripd", "ripngd"])],
    ends: ENDS,
    cables: CABLES,
};

const OSPF: Plan = Plan {
    sites: &[
        site!("ospf", "r1", &["bfdd", "ospfd", "ospf6d"]),
        site!("ospf", "r2", &["bfdd", "ospfd", "ospf6d"]),
    ],
    ends: ENDS,
    cables: CABLES,
};

/// A router of the folder `ospf`, of two shards.
macro_rules! of_two_shards {
    ($name:literal) => {
        Site {
            router: concat!(
                "shards = 2\n",
                include_str!(concat!("../../../../examples/frr/ospf/", $name, ".toml"))
            ),
            ..site!("ospf", $name, &["bfdd", "ospfd", "ospf6d"])
        }
    };
}

const SHARDED: Plan =
    Plan { sites: &[of_two_shards!("r1"), of_two_shards!("r2")], ends: ENDS, cables: CABLES };

pub(super) const FABRIC: Plan = Plan {
    sites: &[
        site!("fabric", "spine1", &["bgpd"]),
        site!("fabric", "spine2", &["bgpd"]),
        site!("fabric", "leaf1", &["bgpd"]),
        site!("fabric", "leaf2", &["bgpd"]),
    ],
    ends: ENDS,
    cables: &[
        [("spine1", "leaf1"), ("leaf1", "spine1")],
        [("spine1", "leaf2"), ("leaf2", "spine1")],
        [("spine2", "leaf1"), ("leaf1", "spine2")],
        [("spine2", "leaf2"), ("leaf2", "spine2")],
        [("leaf1", "lan"), ("h1", "eth0")],
        [("leaf2", "lan"), ("h2", "eth0")],
    ],
};

/// Both networks of a plan; the hosts of each reach each other.
fn both<'a>(bench: &'a Workbench, plan: &'a Plan) -> Result<[Network<'a>; 2]> {
    let networks =
        [Network::new(bench, plan, Kind::Kernel)?, Network::new(bench, plan, Kind::Ours)?];
    for network in &networks {
        reach(network)?;
    }
    Ok(networks)
}

fn reach(network: &Network<'_>) -> Result<()> {
    network.answers("h1", "10.2.0.9")?;
    network.answers("h1", "2001:db8:2::9")
}

/// The routes are equal; a cable is cut, the hosts reach each other again by the other one, the
/// routes are equal; and so once it is fixed.
fn cut(bench: &Workbench, plan: &Plan, cable: (&str, &str)) -> Result<()> {
    cut_in(&both(bench, plan)?, cable)
}

fn cut_in([theirs, ours]: &[Network<'_>; 2], cable: (&str, &str)) -> Result<()> {
    equal(ours, theirs)?;
    for state in ["down", "up"] {
        for network in [theirs, ours] {
            network.set_cable(cable, state)?;
            reach(network)?;
        }
        equal(ours, theirs)?;
    }
    Ok(())
}

pub(super) fn rip(bench: &Workbench) -> Result<()> {
    cut(bench, &RIP, ("r1", "cable1"))
}

pub(super) fn ospf(bench: &Workbench) -> Result<()> {
    let networks = both(bench, &OSPF)?;
    for network in &networks {
        // Both versions of IP by both cables.
        let are_up = || {
            let peers = network.vtysh("r1", "show bfd peers")?;
            Ok(peers.matches("Status: up").count() == 4)
        };
        until("BFD has four sessions", LIMIT, are_up)
            .with_context(|| network.vtysh("r1", "show bfd peers").unwrap_or_default())?;
    }
    cut_in(&networks, ("r1", "cable1"))
}

/// OSPF's hellos and BFD's packets come by either shard.
pub(super) fn sharded(bench: &Workbench) -> Result<()> {
    cut(bench, &SHARDED, ("r1", "cable1"))
}

/// As by the kernel when memory is short. Whoever watches the router starts it again.
pub(super) fn worker_killed(bench: &Workbench) -> Result<()> {
    let mut network = Network::new(bench, &OSPF, Kind::Ours)?;
    reach(&network)?;
    let mut before = Vec::new();
    for name in ["r1", "r2"] {
        // Both cables are used before all is settled.
        let settled =
            || Ok(network.decided(name)?.is_some_and(|all| Some(all) == network.table(name).ok()));
        until("the router has zebra's routes", LIMIT, settled)?;
        before.push(network.table(name)?);
    }
    for _ in 0..2 {
        network.crash("r1", Victim::Worker)?;
        let begun = Instant::now();
        reach(&network)?;
        println!("  the hosts reach each other {:.1} s later", begun.elapsed().as_secs_f64());
        for (name, before) in ["r1", "r2"].iter().zip(&before) {
            until("the routes are those before", LIMIT, || Ok(network.table(name)? == *before))
                .with_context(|| format!("{name}: {:?}, not {before:?}", network.table(name)))?;
        }
    }
    Ok(())
}

/// The carrier goes beyond both ends: an interface that is set down loses its link-local address.
pub(super) fn fabric(bench: &Workbench) -> Result<()> {
    let theirs = Network::patched(bench, &FABRIC, Kind::Kernel)?;
    let ours = Network::patched(bench, &FABRIC, Kind::Ours)?;
    for has_carrier in [true, false, true] {
        for network in [&theirs, &ours] {
            network.set_carrier(0, has_carrier)?;
            reach(network)?;
        }
        equal(&ours, &theirs)?;
    }
    Ok(())
}
