//! The curves: throughput by the bytes of a write, by the stack's unit of writing, by the frames of
//! a burst, by the size of mbufs, by the MTU. What is measured at each point.
//!
//! Called by: `knee.rs`.

use base::Mtu;
use device::Offloads;
use stack::pair::PairConfig;

use crate::joined::Joining;

/// A write that is longer than any unit.
const LONG_BYTES: usize = 1 << 20;

/// What is varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Varied {
    /// Bytes of a write of the program
    Write,
    /// Bytes of a long write that the stack copies before it sends them
    Unit,
    /// Frames that the wire takes at a time
    Burst,
    /// Bytes of an mbuf, with a device that cuts large segments
    Mbuf,
    /// The MTU of the wire
    Mtu,
}

impl Varied {
    pub(super) const ALL: [Varied; 5] =
        [Varied::Write, Varied::Unit, Varied::Burst, Varied::Mbuf, Varied::Mtu];

    /// On the command line and in the document.
    pub(super) fn name(self) -> &'static str {
        match self {
            Varied::Write => "write",
            Varied::Unit => "unit",
            Varied::Burst => "burst",
            Varied::Mbuf => "mbuf",
            Varied::Mtu => "mtu",
        }
    }

    pub(super) fn heading(self) -> &'static str {
        match self {
            Varied::Write => "bytes of a write",
            Varied::Unit => "unit of a long write, bytes",
            Varied::Burst => "frames of a burst",
            Varied::Mbuf => "bytes of an mbuf, device that cuts segments",
            Varied::Mtu => "MTU, bytes",
        }
    }

    /// What sizes count.
    pub(super) fn of(self) -> &'static str {
        if self == Varied::Burst { "frames" } else { "bytes" }
    }

    /// Of small to large.
    pub(super) fn sizes(self) -> Vec<usize> {
        let doubled = |from: usize, to: usize| {
            std::iter::successors(Some(from), |n| Some(n * 2)).take_while(move |&n| n <= to)
        };
        match self {
            Varied::Write => doubled(64, 256 << 10).collect(),
            // Below a segment a unit is a segment and a byte.
            Varied::Unit => {
                doubled(2 << 10, 32 << 10).flat_map(|n| [n, n + n / 2]).chain([64 << 10]).collect()
            }
            Varied::Burst => doubled(1, 128).collect(),
            Varied::Mbuf => doubled(2 << 10, 32 << 10).chain([65_535]).collect(),
            Varied::Mtu => {
                vec![576, 1_000, 1_500, 2_200, 3_000, 4_352, 6_000, 9_000, 16_384, 32_768, 65_535]
            }
        }
    }

    /// The stacks, the wire and the writes of a size.
    pub(super) fn joining(self, size: usize) -> Option<Joining> {
        let mut pair = PairConfig::new([0x1988, 0x6b]);
        let mut write_bytes = 64 << 10;
        match self {
            Varied::Write => write_bytes = size,
            Varied::Unit => {
                pair.stack.write_unit_bytes = size;
                write_bytes = LONG_BYTES;
            }
            Varied::Burst => pair.wire.depth = size,
            Varied::Mbuf => {
                pair.wire.offloads = Offloads { tso_max_bytes: size, ..Offloads::default() };
            }
            Varied::Mtu => pair.wire.mtu = Mtu::new(size)?,
        }
        Some(Joining { pair, tcp: tcp::Config::default(), write_bytes })
    }
}
