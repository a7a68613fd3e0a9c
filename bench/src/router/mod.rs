//! The rows of bench `router`. Called by `main.rs`. `memory` measures our router between a
//! generator and a sink, `kernel` Linux and our router between veth pairs, and `routes` route
//! changes while packets are forwarded. A row for a feature that does not exist yet says so and has
//! no value.

pub(crate) mod kernel;
mod memory;
mod routes;

use crate::harness::{Better, Spec, spec};

/// The table.
pub const ROWS: &[Spec] = {
    use Better::{Higher, Lower};
    &[
        spec(
            "64-byte v4 mem to mem, one core, 1 route, Mpps",
            Higher,
            10.0,
            16.0,
            "Mpps",
            memory::one_route,
        ),
        spec(
            "the same, 1 M routes, random destinations / 1 route",
            Higher,
            0.6,
            0.8,
            "x",
            memory::million_routes,
        ),
        spec("64-byte v6 / v4", Higher, 0.8, 0.92, "x", memory::v6_over_v4),
        spec("tagged trunk to tagged trunk / untagged", Higher, 0.9, 0.97, "x", memory::tagged),
        spec("two cores / one", Higher, 1.8, 1.95, "x", memory::two_cores),
        spec(
            "64-byte mem to mem / kernel between two veths, packets per CPU-second",
            Higher,
            12.0,
            25.0,
            "x",
            kernel::memory_against_veths,
        ),
        spec(
            "64-byte through AF_XDP, generator included / kernel between two veths, packets per \
             CPU-second",
            Higher,
            0.75,
            0.82,
            "x",
            kernel::xdp_against_veths,
        ),
        spec(
            "10 Gb/s of full-size frames mem to mem, share of one core",
            Lower,
            0.15,
            0.08,
            "cores",
            memory::ten_gigabit,
        ),
        spec(
            "recorded stream of 100,000 route changes into the FIB, seconds",
            Lower,
            2.0,
            0.5,
            "s",
            routes::changes,
        ),
        spec(
            "longest pause of forwarding while they are applied, us",
            Lower,
            100.0,
            20.0,
            "us",
            routes::longest_pause,
        ),
        spec(
            "forwarding at ten times the load it can take / its peak",
            Higher,
            0.85,
            0.97,
            "x",
            memory::overload,
        ),
    ]
};
