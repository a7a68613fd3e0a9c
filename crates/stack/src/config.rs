//! What a stack and its ports are made with.

use base::{Budget, Cidr, MacAddr, Switches};
use wire::checksum::Ladder;

/// Settings of a stack.
#[derive(Clone, Debug)]
pub struct StackConfig {
    /// 128 secret bits: sequence numbers, ports and tables are drawn with them. The same seed and
    /// the same inputs give the same packets; a program that is not a test draws it at random.
    pub seed: [u64; 2],
    /// What is on.
    pub switches: Switches,
    /// Limits.
    pub budget: Budget,
    /// The checksum rung; `None` is the best there is.
    pub ladder: Option<Ladder>,
}

impl StackConfig {
    /// Defaults with this seed.
    pub fn new(seed: [u64; 2]) -> StackConfig {
        StackConfig { seed, switches: Switches::default(), budget: Budget::default(), ladder: None }
    }
}

/// Settings of a port.
#[derive(Clone, Debug, Default)]
pub struct PortConfig {
    /// Our link address; means nothing on a raw IP port.
    pub mac: MacAddr,
    /// Our addresses, each with its network.
    pub addresses: Vec<Cidr>,
}
