//! The rows of bench `ip`. Called by `main.rs`. `versions` compares IPv6 with IPv4. `fragments`
//! compares fragmented datagrams with whole ones. `segments` compares one call that sends many
//! datagrams with one call for each. `receive` measures the cost of received datagrams. `gaps`
//! measures the delivery to a receiver that loses frames which follow each other too closely.
//! `storm` counts the frames that a broadcast causes among hosts that disagree about the broadcast
//! address.

mod fragments;
mod gaps;
mod kernel;
mod receive;
mod segments;
mod storm;
mod versions;

use anyhow::Result;

use crate::harness::{Better, Spec, spec};
use crate::measure::Measurement;

/// The table.
pub const ROWS: &[Spec] = {
    use Better::{Higher, Lower};
    &[
        spec("IPv6 / IPv4, worst row of issues 1 and 2", Higher, 0.95, 0.99, "x", versions::worst),
        spec(
            "six-fragment datagrams / unfragmented, bytes per CPU-second at MTU 1500",
            Higher,
            0.6,
            0.8,
            "x",
            fragments::ratio,
        ),
        spec(
            "UDP 64 bytes to the application over mem / kernel recvmmsg over veth, receiver's CPU \
             with its softirq",
            Higher,
            8.0,
            15.0,
            "x",
            receive::against_recvmmsg,
        ),
        spec(
            "UDP GSO sends / single sends, datagrams per CPU-second",
            Higher,
            3.0,
            6.0,
            "x",
            segments::against_single,
        ),
        spec(
            "8 KB writes into a receiver that loses frames closer than 50 us, delivered share with \
             pacing",
            Higher,
            0.999,
            1.0,
            "x",
            gaps::delivered,
        ),
        spec(
            "the same: goodput with pacing / the receiver's own rate",
            Higher,
            0.9,
            0.97,
            "x",
            gaps::goodput,
        ),
        spec(
            "storm, frames per original frame: legacy hosts",
            Higher,
            100.0,
            100.0,
            "frames",
            storm::legacy,
        ),
        spec("storm, frames per original frame: our hosts", Lower, 4.0, 2.0, "frames", storm::ours),
        spec(
            "storm, frames per original frame: behind our router",
            Lower,
            0.0,
            0.0,
            "frames",
            storm::behind,
        ),
        spec(
            "broadcast flood at full rate: CPU of a bystander in percent of a core per 100,000 \
             frames/s",
            Lower,
            10.0,
            4.0,
            "%",
            receive::bystander,
        ),
    ]
};

/// Measures our side of one row without the other side, for a profile; `None` if `case` is unknown.
pub fn ours(case: &str, seconds: f64) -> Option<Result<Measurement>> {
    match case {
        "udp-whole" => Some(fragments::run(fragments::WHOLE, seconds)),
        "udp-fragments" => Some(fragments::run(fragments::IN_SIX, seconds)),
        "udp-single" => Some(segments::run(segments::How::Single, seconds)),
        "udp-segments" => Some(segments::run(segments::How::Made, seconds)),
        "udp-supers" => Some(segments::run(segments::How::Whole, seconds)),
        "udp-receive" => Some(receive::ours(seconds)),
        _ => None,
    }
}
