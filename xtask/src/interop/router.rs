//! Suites `router` and `router-soak`: `wirespeed up CONFIG.toml` routes between the kernels of two
//! other namespaces. Tools in those namespaces test it: ping, traceroute, iperf3, `ip route get`.
//! Every case but the soak captures the packets, and checks the captures with tshark.
//!
//! RFC 1812, RFC 1191, RFC 8201, RFC 2992. docs/router.md.

mod links;
mod paths;
pub(super) mod scene;
mod soak;

use super::ip::{PING, TCPDUMP, TSHARK};
use super::iperf::IPERF3;
use super::outside::{IP, TUN};
use super::{Case, Need};

pub(super) const TRACEROUTE: Need = Need::Program { program: "traceroute", package: "traceroute" };
pub(super) const SS: Need = Need::Program { program: "ss", package: "iproute2" };

/// Debian's Python.
pub(super) const PYTHON: &str = "/usr/bin/python3";
pub(super) const PYTHON3: Need = Need::Program { program: "python3", package: "python3" };

const CAPTURED: &[Need] = &[Need::Root, TUN, IP, SS, PING, IPERF3, TCPDUMP, TSHARK];

pub(super) const CASES: &[Case] = &[
    Case {
        name: "a hop between two networks: traceroute, iperf3 both ways, IPv4 and IPv6",
        needs: &[Need::Root, TUN, IP, SS, PING, IPERF3, TRACEROUTE, TCPDUMP, TSHARK],
        run: paths::across,
    },
    Case {
        name: "the far link has a smaller MTU: fragments without DF, else an ICMP error",
        needs: CAPTURED,
        run: paths::narrow,
    },
    Case {
        name: "on a stick: from one VLAN of a trunk to another",
        needs: &[Need::Root, TUN, IP, SS, PING, IPERF3, TCPDUMP, TSHARK, PYTHON3],
        run: paths::stick,
    },
    Case {
        name: "a link is cut: ECMP, a route of a higher metric, no route at all",
        needs: CAPTURED,
        run: links::cut,
    },
    Case {
        name: "SIGHUP in mid-transfer applies the differences, SIGTERM ends the router cleanly",
        needs: CAPTURED,
        run: links::reloaded,
    },
];

pub(super) const SOAK: &[Case] = &[Case {
    name: "configurations and links come and go at random while flows pass",
    needs: &[Need::Root, TUN, IP, SS, PING, IPERF3],
    run: soak::run,
}];
