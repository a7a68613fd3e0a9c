//! The table of situations in virtual time: each situation with its limit, the ranges of its
//! parameters, and the function that makes it.
//!
//! Called by: `explained.rs`. `programs` makes those whose limit is a program or a buffer, `paths`
//! those whose limit is between the ends. `over_wire` has a table for real time.

use explain::Limit;

use super::draw::Draw;
#[cfg(target_os = "linux")]
use super::over_wire::Wired;
use super::world::Setup;
use super::{paths, programs};

/// A situation.
pub(crate) struct Situation {
    /// The name of the situation.
    pub(super) name: &'static str,
    /// The limit that explain should name.
    pub(super) limit: Limit,
    /// The ranges that the parameters are drawn from, in words.
    pub(super) ranges: &'static str,
    /// Draws the parameters, and makes the situation.
    pub(super) draw: Drawn,
}

/// The way in which a situation is made.
#[derive(Clone, Copy)]
pub(crate) enum Drawn {
    /// A world in virtual time.
    World(fn(&mut Draw) -> Setup),
    /// Processes over `wirespeed wire`.
    #[cfg(target_os = "linux")]
    Wired(fn(&mut Draw) -> Wired),
}

const fn situation(
    name: &'static str,
    limit: Limit,
    ranges: &'static str,
    draw: fn(&mut Draw) -> Setup,
) -> Situation {
    Situation { name, limit, ranges, draw: Drawn::World(draw) }
}

/// All situations.
pub(crate) const SITUATIONS: &[Situation] = &[
    situation(
        "slow-writer",
        Limit::Application,
        "RTT 1-100 ms; writes of 200-20000 bytes, each 5-60 ms",
        programs::slow_writer,
    ),
    situation(
        "one-request-at-a-time",
        Limit::Application,
        "RTT 5-100 ms; requests of 500-8000 bytes, answers of 50-400, one at a time; no Nagle",
        programs::one_request,
    ),
    situation("idle", Limit::Idle, "RTT 1-100 ms; 1-100 kB, then nothing", programs::idle),
    situation(
        "send-buffer",
        Limit::SendBuffer,
        "RTT 10-100 ms; send buffer fixed at 8-64 kB; no bottleneck",
        programs::send_buffer,
    ),
    situation(
        "slow-reader-at-the-peer",
        Limit::PeerReader,
        "RTT 1-40 ms; receive buffer 64-512 kB; reads of 4-32 kB, each 20-100 ms, at most a \
         quarter of the buffer a round trip",
        programs::slow_reader,
    ),
    situation(
        "peer-stopped-reading",
        Limit::PeerReader,
        "RTT 1-100 ms; receive buffer 64-512 kB; reads nothing after 1-4 s",
        programs::stopped_reader,
    ),
    situation(
        "peer-window",
        Limit::ReceiveWindow,
        "RTT 10-100 ms; the peer's receive buffer fixed at 6-64 kB",
        programs::peer_window,
    ),
    situation(
        "silly-window",
        Limit::SillyWindow,
        "RTT 5-100 ms; the peer's receive buffer fixed at 500-2800 bytes",
        programs::silly_window,
    ),
    situation(
        "nagle-and-delayed-ack",
        Limit::Nagle,
        "RTT 0.4-10 ms; requests in two writes of 50-600 bytes, from 0.1 ms to half a round trip \
         and 1 ms at most apart",
        programs::nagle,
    ),
    situation(
        "slow-writer-at-the-peer",
        Limit::Peer,
        "at the receiver; RTT 1-100 ms; writes of 200-20000 bytes, each 5-60 ms",
        programs::slow_writer_there,
    ),
    situation(
        "our-slow-reader",
        Limit::OurReader,
        "at the receiver; RTT 1-40 ms; buffer 64-512 kB; reads of 4-32 kB, each 20-100 ms, at most \
         a quarter of the buffer a round trip",
        programs::our_reader,
    ),
    situation(
        "our-receive-buffer",
        Limit::ReceiveBuffer,
        "at the receiver; RTT 10-100 ms; our receive buffer fixed at 8-64 kB",
        programs::our_buffer,
    ),
    situation(
        "processor",
        Limit::Processor,
        "at the receiver; RTT 1-20 ms; 100-400 us of CPU for each frame",
        programs::processor,
    ),
    situation(
        "no-answer",
        Limit::NotConnected,
        "RTT 1-100 ms; the path is dead from the first SYN on",
        paths::no_answer,
    ),
    situation(
        "dead-path",
        Limit::DeadPath,
        "RTT 1-100 ms; 5-100 Mb/s; no packet passes after 1-4 s",
        paths::dead,
    ),
    situation(
        "link-down",
        Limit::LinkDown,
        "RTT 1-100 ms; 5-100 Mb/s; our port, at either end, loses its carrier after 1-4 s, or \
         before the first SYN",
        paths::unplugged,
    ),
    situation(
        "path-mtu-black-hole",
        Limit::PathMtu,
        "RTT 5-100 ms; from 1-3 s on packets of more than 1240-1440 bytes vanish",
        paths::black_hole,
    ),
    situation(
        "random-loss",
        Limit::Loss,
        "RTT 20-100 ms; 200-1000 Mb/s; 0.3-3 % of the data is lost at random; CUBIC",
        paths::loss,
    ),
    situation(
        "loss-on-the-way-to-us",
        Limit::Path,
        "at the receiver; RTT 20-100 ms; 200-1000 Mb/s; 0.3-3 % of the data is lost at random",
        paths::lossy_to_us,
    ),
    situation(
        "policer",
        Limit::Policer,
        "RTT 10-60 ms; a token bucket of 5-30 Mb/s and 10-40 ms; CUBIC",
        paths::policer,
    ),
    situation(
        "bufferbloat",
        Limit::Queue,
        "RTT 5-40 ms; 5-100 Mb/s; a queue of 4-10 round trips; CUBIC",
        paths::bloat,
    ),
    situation(
        "link-rate",
        Limit::LinkRate,
        "RTT 10-80 ms; 5-100 Mb/s; a queue of 0.5-1 round trip; CUBIC",
        paths::link_rate,
    ),
    situation(
        "link-rate-with-marks",
        Limit::LinkRate,
        "RTT 10-30 ms; 5-30 Mb/s; CoDel of 5 ms with ECN; CUBIC",
        paths::marks,
    ),
    situation(
        "pacing",
        Limit::Pacing,
        "RTT 10-80 ms; 5-100 Mb/s; a queue of 0.5-4 round trips; BBR",
        paths::pacing,
    ),
    situation(
        "reordering",
        Limit::Reordering,
        "RTT 10-60 ms; 300-500 Mb/s; 1-5 % of the data is late by 1.5-3 round trips; CUBIC",
        paths::reordering,
    ),
    situation(
        "growing-window",
        Limit::CongestionWindow,
        "RTT 150-300 ms; 10 Gb/s; a loss of some segments after 1-2 s, none later; CUBIC",
        paths::growing,
    ),
    situation(
        "device",
        Limit::Device,
        "RTT 0.1-2 ms; our device's link 10-30 Mb/s, a ring of 16-64 frames",
        paths::device,
    ),
];
