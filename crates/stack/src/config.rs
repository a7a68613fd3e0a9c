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
    /// Report the solicited-node groups of IPv6 addresses by MLD (RFC 3810 section 6): switches
    /// that look at reports forward neighbour discovery to nobody else. Off where the wire has
    /// neither switch nor router.
    pub solicited_node_reports: bool,
}

impl StackConfig {
    /// Defaults with this seed.
    pub fn new(seed: [u64; 2]) -> StackConfig {
        StackConfig {
            seed,
            switches: Switches::default(),
            budget: Budget::default(),
            ladder: None,
            solicited_node_reports: true,
        }
    }
}

/// What the IP header of a socket's packets says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpSettings {
    /// Hops that a packet may take: TTL (RFC 791) or hop limit (RFC 8200).
    pub ttl: u8,
    /// Type of service or traffic class: differentiated services (RFC 2474), two low bits for ECN.
    pub tos: u8,
    /// No field of it: what rules of policy routing select by (Linux's SO_MARK); 0 unless set.
    pub mark: u32,
}

impl Default for IpSettings {
    /// 64 hops (RFC 1700's recommended default), best effort.
    fn default() -> IpSettings {
        IpSettings { ttl: 64, tos: 0, mark: 0 }
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
