//! Punting: packets for the router itself that no socket of ours takes go to its program as they
//! came, and the program gives them to a mirror of the port, where routing daemons run. What the
//! daemons send by the mirror leaves by the port.
//!
//! Called by: `ingress.rs` when a packet would be refused; `egress.rs` for what comes back;
//! programs take the frames (`calls.rs`). Off until a port has a mirror; then only the refusing
//! branches of the receive path look here, so that neither connections nor forwarded packets pay.
//! Rules of the filter have passed a punted packet. Limits: [`PuntConfig`], `punt_bytes`. Counters:
//! `punted_routing`, `punted_other`, `mirror_out`, and the drops whose names begin with `punt_` and
//! `mirror_`. docs/decisions/0147-punting.md.

mod calls;
mod class;
mod egress;
pub(crate) mod ingress;
mod limit;
mod queue;

use std::collections::BTreeSet;

pub use class::PuntClass;
pub use egress::MirrorError;
pub use queue::Punted;

use limit::Bucket;
use queue::Queue;

/// What is punted, and how much of it; of one stack.
///
/// ```
/// # mod wirespeed { pub use wirespeed_stack::*; }
/// use wirespeed::{PuntConfig, Stack, StackConfig};
///
/// let mut stack = Stack::new(StackConfig::new([1, 2]));
/// stack.set_punt_config(PuntConfig { ports: vec![1_900], ..PuntConfig::default() });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PuntConfig {
    /// Further destination ports of UDP, in host order: datagrams to them are punted also if they
    /// are to a broadcast address, or to a group of more than the link. For packets to an address
    /// of ours it is not needed: they are punted if no socket takes them.
    pub ports: Vec<u16>,
    /// Packets a second of the class [`PuntClass::Other`]; a tenth of them may come at once.
    pub rate: u32,
    /// The same for the class [`PuntClass::Routing`].
    pub routing_rate: u32,
    /// Packets of all ports that wait for [`crate::Stack::punted`].
    pub queue: usize,
}

impl Default for PuntConfig {
    /// No further ports, 1,000 and 10,000 packets a second, 512 packets.
    fn default() -> PuntConfig {
        PuntConfig { ports: Vec::new(), rate: 1_000, routing_rate: 10_000, queue: 512 }
    }
}

/// The ports that have mirrors, and the packets that wait for the program.
#[derive(Default)]
pub(crate) struct Punt {
    config: PuntConfig,
    ports: BTreeSet<u16>,
    /// The port that the frames of the current burst came by, if they are processed as if they had
    /// come by the port that has their destination.
    came_by: Option<u16>,
    routing: Bucket,
    other: Bucket,
    queue: Queue,
}

impl Punt {
    /// Has the port a mirror?
    pub(crate) fn is_of(&self, port: u16) -> bool {
        self.ports.contains(&port)
    }

    /// The port whose mirror gets packets that are processed as those of `in_port`; `None` if it
    /// has none.
    fn mirror(&self, in_port: u16) -> Option<u16> {
        Some(self.came_by.unwrap_or(in_port)).filter(|port| self.is_of(*port))
    }
}
