//! Settings with which a stack, its ports and its sockets are made.

use base::{Budget, Cidr, MacAddr, Switches};
use wire::checksum::Ladder;

/// Settings of a stack.
#[derive(Clone, Debug)]
pub struct StackConfig {
    /// 128 secret bits: sequence numbers, ports and tables are drawn with them. The same seed and
    /// the same inputs give the same packets; a program that is not a test draws it at random.
    pub seed: [u64; 2],
    /// The optimisations that are on.
    pub switches: Switches,
    /// Limits.
    pub budget: Budget,
    /// The checksum implementation; `None` selects the fastest.
    pub ladder: Option<Ladder>,
    /// Bytes of a long write that are copied before headers are made of them and the first burst
    /// may leave. `wirespeed lab knee` finds it for a machine; a value outside of
    /// [`StackConfig::WRITE_UNIT_MIN_BYTES`] to [`StackConfig::WRITE_UNIT_MAX_BYTES`] counts as the
    /// nearer bound.
    pub write_unit_bytes: usize,
    /// Report the solicited-node groups of IPv6 addresses by MLD (RFC 3810 section 6): switches
    /// that read reports forward neighbour discovery only to the hosts that reported. Turn it off
    /// on a link with neither switch nor router.
    pub solicited_node_reports: bool,
}

impl StackConfig {
    /// The default of [`StackConfig::write_unit_bytes`].
    pub const WRITE_UNIT_BYTES: usize = 46 * 1024;
    /// Its minimum. A unit is more than a segment anyway.
    pub const WRITE_UNIT_MIN_BYTES: usize = 1024;
    /// Its maximum: the default of a connection's `unsent_limit_bytes`.
    pub const WRITE_UNIT_MAX_BYTES: usize = 64 * 1024;

    /// Defaults with this seed.
    pub fn new(seed: [u64; 2]) -> StackConfig {
        StackConfig {
            seed,
            switches: Switches::default(),
            budget: Budget::default(),
            ladder: None,
            write_unit_bytes: StackConfig::WRITE_UNIT_BYTES,
            solicited_node_reports: true,
        }
    }
}

/// Settings for the IP header of a socket's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpSettings {
    /// Hops that a packet may take: TTL (RFC 791) or hop limit (RFC 8200).
    pub ttl: u8,
    /// Type of service or traffic class: differentiated services (RFC 2474), two low bits for ECN.
    pub tos: u8,
    /// Not in the header: a number by which rules of policy routing select (Linux's SO_MARK); 0
    /// unless set.
    pub mark: u32,
    /// The socket's own address need not be one of the stack's (Linux's IP_TRANSPARENT): for
    /// proxies that answer in another host's name. Only the program that owns the stack may set it.
    pub transparent: bool,
}

impl Default for IpSettings {
    /// 64 hops (RFC 1700's recommended default), best effort, from our own addresses.
    fn default() -> IpSettings {
        IpSettings { ttl: 64, tos: 0, mark: 0, transparent: false }
    }
}

/// What becomes of a datagram that is larger than the path is known to carry (Linux's
/// IP_MTU_DISCOVER). Packets that are not fragments always forbid routers to fragment them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MtuDiscovery {
    /// It leaves in fragments (IP_PMTUDISC_WANT).
    #[default]
    Want,
    /// It is refused with [`crate::UdpError::TooBig`] (IP_PMTUDISC_DO).
    Do,
    /// It is sent whole, whatever is known of the path, if the port sends packets of its size: to
    /// find out what the path carries (IP_PMTUDISC_PROBE, RFC 8899).
    Probe,
}

/// Settings of a port.
#[derive(Clone, Debug, Default)]
pub struct PortConfig {
    /// Our link address; means nothing on a raw IP port.
    pub mac: MacAddr,
    /// Our addresses, each with its network.
    pub addresses: Vec<Cidr>,
}
