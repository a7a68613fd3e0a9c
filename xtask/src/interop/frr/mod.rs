//! Suites `frr` and `frr-soak`: `wirespeed up` with the daemons of FRR beside it as its control
//! plane. Each case compares our routes with those that the same daemons write into a kernel's
//! table.
//!
//! docs/frr.md. Needed: Debian's frr.

mod border;
pub(super) mod daemons;
mod fpm;
mod hosts;
mod mirrors;
mod netlink;
mod network;
mod routing;
mod soak;
mod tables;
mod vrrp;

use super::ip::{DNSMASQ, PING, RADVD};
use super::outside::{IP, TUN};
use super::router::{PYTHON3, SS};
use super::{Case, Need};

/// FRR's shell, which Debian's package brings beside the daemons.
pub(super) const VTYSH: Need = Need::Program { program: "vtysh", package: "frr" };

const BIRD: Need = Need::Program { program: "bird", package: "bird2" };

const KEEPALIVED: Need = Need::Program { program: "keepalived", package: "keepalived" };

const PAIR: &[Need] = &[Need::Root, TUN, IP, PING, PYTHON3, KEEPALIVED];
const UDHCPC: Need = Need::Program { program: "udhcpc", package: "udhcpc" };
const DIG: Need = Need::Program { program: "dig", package: "bind9-dnsutils" };

const NEEDS: &[Need] = &[Need::Root, TUN, IP, SS, PING, VTYSH];

pub(super) const CASES: &[Case] = &[
    Case {
        name: "zebra's routes by FPM: added, changed, gone; zebra killed, and back with others",
        needs: NEEDS,
        run: fpm::routes,
    },
    Case {
        name: "routes of a kernel's tables: BIRD's, two metrics, 20,000 at once, a link down",
        needs: &[Need::Root, TUN, IP, SS, PING, BIRD],
        run: netlink::routes,
    },
    Case {
        name: "BGP with 100,000 routes of BIRD, received, counted, withdrawn",
        needs: &[Need::Root, TUN, IP, SS, PING, VTYSH, BIRD],
        run: border::routes,
    },
    Case {
        name: "zebra is stopped for a while: packets go on, nothing waits, changes come afterwards",
        needs: NEEDS,
        run: fpm::stopped,
    },
    Case {
        name: "dnsmasq and radvd on a mirror serve hosts: a lease, a name, a prefix and a router",
        needs: &[Need::Root, TUN, IP, SS, PING, DNSMASQ, RADVD, UDHCPC, DIG],
        run: hosts::served,
    },
    Case {
        name: "OSPF and OSPFv3 with BFD by two routers of two shards, a cable is cut",
        needs: NEEDS,
        run: routing::sharded,
    },
    Case {
        name: "the worker is killed while OSPF runs: it goes on with the mirrors that are there",
        needs: NEEDS,
        run: routing::worker_killed,
    },
    Case { name: "RIP and RIPng, a cable is cut", needs: NEEDS, run: routing::rip },
    Case { name: "OSPF and OSPFv3 with BFD, a cable is cut", needs: NEEDS, run: routing::ospf },
    Case {
        name: "BGP over link-local addresses in a fabric, a cable is cut",
        needs: NEEDS,
        run: routing::fabric,
    },
    Case {
        name: "by mirrors FRR speaks OSPF, OSPFv3, RIP, RIPng, BGP and BFD with FRR beyond a port",
        needs: NEEDS,
        run: mirrors::protocols,
    },
    Case {
        name: "by mirrors BGP needs no address: unnumbered, with router advertisements",
        needs: NEEDS,
        run: mirrors::unnumbered,
    },
    Case {
        name: "mirrors in the host's namespace: its services are reached by the router's ports",
        needs: &[Need::Root, TUN, IP, SS, PING],
        run: mirrors::host,
    },
    Case {
        name: "VRRP by keepalived: the master is killed, a translated connection goes on",
        needs: PAIR,
        run: vrrp::with_macs,
    },
    Case {
        name: "VRRP without a virtual link address: the master is killed, the connection goes on",
        needs: PAIR,
        run: vrrp::addresses,
    },
];

pub(super) const SOAK: &[Case] = &[Case {
    name: "cables, daemons and routers of a fabric fail at random, beside one of kernels",
    needs: NEEDS,
    run: soak::run,
}];
