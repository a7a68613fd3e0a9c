//! Routing protocols between routers of ours: RIP, OSPF and OSPFv3 with BFD, BGP by link-local
//! addresses. A network of kernels with the same daemons and configurations runs beside each, and
//! the routes have to be the same.
//!
//! Called by: `mod.rs`. RFC 2453, RFC 2328, RFC 5340, RFC 5882, RFC 4271, RFC 8950.

use anyhow::{Context, Result};

use super::super::Workbench;
use super::super::ip::until;
use super::super::router::scene::LIMIT;
use super::network::{Cable, End, Kind, Network, Plan, Site, equal, site};

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

const FABRIC: Plan = Plan {
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

pub(super) fn fabric(bench: &Workbench) -> Result<()> {
    cut(bench, &FABRIC, ("leaf1", "spine1"))
}
