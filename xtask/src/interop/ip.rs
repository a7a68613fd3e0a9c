//! Suite `ip`: IPv4 and IPv6 as a host among others: routers that advertise and redirect,
//! neighbours that come and go, fragments, paths and neighbours with MTUs of their own. The kernel
//! and its programs are at the other end of a TAP.

pub(super) mod capture;
mod dhcp;
mod fragments;
mod groups;
mod links;
mod names;
mod neighbours;
mod slaac;
mod steps;

use super::outside::{IP, SHA256SUM, SOCAT, TUN};
use super::{Case, Need};
pub(super) use steps::{ours, sysctl, until};

const BRIDGE: Need = Need::Program { program: "bridge", package: "iproute2" };
const DNSMASQ: Need = Need::Program { program: "dnsmasq", package: "dnsmasq-base" };
pub(super) const PING: Need = Need::Program { program: "ping", package: "iputils-ping" };
const RADVD: Need = Need::Program { program: "radvd", package: "radvd" };
pub(super) const TCPDUMP: Need = Need::Program { program: "tcpdump", package: "tcpdump" };
pub(super) const TSHARK: Need = Need::Program { program: "tshark", package: "tshark" };

pub(super) const CASES: &[Case] = &[
    Case {
        name: "neighbours are asked, found and confirmed; one that goes away is noticed",
        needs: &[Need::Root, TUN, IP, SOCAT, TCPDUMP, TSHARK, PING],
        run: neighbours::come_and_go,
    },
    Case {
        name: "datagrams of 64 KB in fragments, both ways, IPv4 and IPv6",
        needs: CAPTURED,
        run: fragments::echoed,
    },
    Case {
        name: "a redirect of the kernel's is followed, IPv6",
        needs: CAPTURED,
        run: |b| links::redirected(b, &links::V6),
    },
    Case {
        name: "a redirect of the kernel's is followed, IPv4",
        needs: CAPTURED,
        run: |b| links::redirected(b, &links::V4),
    },
    Case {
        name: "a neighbour's link address changes in mid-transfer, IPv4 and IPv6",
        needs: CAPTURED,
        run: links::neighbour_moves,
    },
    Case {
        name: "a lease of dnsmasq: address, router, names; renewed and given back",
        needs: &[Need::Root, TUN, IP, SOCAT, SHA256SUM, TCPDUMP, TSHARK, DNSMASQ],
        run: dhcp::leased,
    },
    Case {
        name: "names of dnsmasq: A, AAAA, aliases, an answer that takes TCP",
        needs: &[Need::Root, TUN, IP, SOCAT, SHA256SUM, TCPDUMP, TSHARK, DNSMASQ],
        run: names::looked_up,
    },
    Case {
        name: "groups: the kernel's bridge has our reports in its table, IGMPv3 and MLDv2",
        needs: &[Need::Root, TUN, IP, BRIDGE, SOCAT, SHA256SUM, TCPDUMP, TSHARK],
        run: groups::joined,
    },
    Case {
        name: "an address of the kernel's is found to be taken, IPv4 and IPv6",
        needs: &[Need::Root, TUN, IP, TCPDUMP, TSHARK],
        run: groups::taken,
    },
];

/// Those that move much, with every frame captured.
pub(super) const TRANSFERS: &[Case] = &[
    Case {
        name: "100 MB each way over IPv6, by SLAAC and a link-local gateway",
        needs: &[Need::Root, TUN, IP, SOCAT, SHA256SUM, TCPDUMP, TSHARK, RADVD],
        run: slaac::transfer,
    },
    Case {
        name: "the path's MTU shrinks in mid-transfer, IPv4 and IPv6",
        needs: &[Need::Root, TUN, IP, SOCAT, SHA256SUM, TCPDUMP, TSHARK, PING],
        run: links::path_shrinks,
    },
    Case {
        name: "neighbours at 1500 and 65521 on one wire each get their best size",
        needs: CAPTURED,
        run: links::neighbours_differ,
    },
];

const CAPTURED: &[Need] = &[Need::Root, TUN, IP, SOCAT, SHA256SUM, TCPDUMP, TSHARK];
