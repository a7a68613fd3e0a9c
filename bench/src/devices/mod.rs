//! The rows of bench `devices`: the table of its issue, word for word. Called by `main.rs`.
//! `filter` compares our packet filters with libpcap's, `mitigation` two levels of wake-ups,
//! `one_packet` two rings. A row for a feature that is not built yet says so and has no value.

mod filter;
mod livelock;
mod mitigation;
mod one_packet;
mod rings;
mod small;
mod tap;

use crate::harness::{Better, Spec, spec};

/// The table.
pub const ROWS: &[Spec] = {
    use Better::{Higher, Lower};
    &[
        spec(
            "filter tcp and port 80 and host 10.0.0.1, 64 bytes, matching: libpcap interpreter ns \
             / our JIT ns",
            Higher,
            3.0,
            6.0,
            "x",
            filter::compiled,
        ),
        spec(
            "the same filter: libpcap interpreter ns / our interpreter ns",
            Higher,
            1.0,
            1.4,
            "x",
            filter::interpreted,
        ),
        spec(
            "tap intercept: STREAMS allocate-and-free model / ours",
            Higher,
            20.0,
            40.0,
            "x",
            tap::intercept,
        ),
        spec(
            "instructions per packet added by taps with no listener",
            Lower,
            6.0,
            2.0,
            "instructions",
            tap::instructions_without_listener,
        ),
        spec(
            "user ns per 64-byte UDP datagram to the application above the bare ring loop, AF_XDP",
            Lower,
            90.0,
            60.0,
            "ns",
            rings::above_the_ring,
        ),
        spec(
            "total CPU per 64-byte UDP datagram / bare receive loop, AF_PACKET",
            Lower,
            1.10,
            1.05,
            "x",
            rings::total_cpu,
        ),
        spec(
            "wake-ups per MB, bulk between two threads, level 5 / level 0",
            Lower,
            0.05,
            0.03,
            "x",
            mitigation::wakeups,
        ),
        spec(
            "throughput, bulk between two threads, level 5 / level 0",
            Higher,
            1.0,
            1.2,
            "x",
            mitigation::throughput,
        ),
        spec(
            "CPU per byte, bulk between two threads, level 5 / level 0",
            Lower,
            0.9,
            0.7,
            "x",
            mitigation::cpu_per_byte,
        ),
        spec(
            "64-byte flood at level 5: p99 latency in units of the level's time bound",
            Lower,
            2.0,
            1.2,
            "bounds",
            mitigation::flood_latency,
        ),
        spec(
            "64-byte TCP segments to the application over mem / kernel over veth without offload",
            Higher,
            5.0,
            10.0,
            "x",
            small::over_memory,
        ),
        spec(
            "64-byte TCP segments to the application over TAP / kernel over veth without offload",
            Higher,
            0.9,
            1.3,
            "x",
            small::over_tap,
        ),
        spec(
            "delivered rate at ten times the load the receiver can take / its peak",
            Higher,
            0.8,
            0.95,
            "x",
            livelock::delivered,
        ),
        spec(
            "application's share of the core under that load, percent",
            Higher,
            30.0,
            45.0,
            "%",
            livelock::applications_share,
        ),
        spec(
            "one-packet driver / queued driver throughput on a 1 Gb/s mem link with 150 us service",
            Lower,
            0.6,
            0.5,
            "x",
            one_packet::ratio,
        ),
    ]
};
