//! The settings of a stack, of its ports and of its sockets.

use base::{Budget, Cidr, MacAddr, Switches};
use inet::{Selector, Vrf};
use wire::checksum::Ladder;

/// Settings of a stack.
///
/// ```
/// # mod wirespeed { pub use {base::*, wirespeed_stack::*}; }
/// use wirespeed::{Budget, Limit, Stack, StackConfig};
///
/// let mut budget = Budget::default();
/// budget.set(Limit::Connections, 100);
/// let stack = Stack::new(StackConfig { budget, ..StackConfig::new([1, 2]) });
/// assert_eq!(stack.budget().of(Limit::Connections), 100);
/// ```
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
    /// How many bytes of a long write are copied before their headers are made and the first burst
    /// may leave. `wirespeed lab knee` finds the best value for a machine. A value outside of
    /// [`StackConfig::WRITE_UNIT_MIN_BYTES`] to [`StackConfig::WRITE_UNIT_MAX_BYTES`] counts as the
    /// nearer bound.
    pub write_unit_bytes: usize,
    /// Report the solicited-node groups of IPv6 addresses by MLD (RFC 3810 section 6). Switches
    /// that read reports forward neighbour discovery only to the hosts that reported. Turn it off
    /// on a link with neither such a switch nor a router.
    pub solicited_node_reports: bool,
    /// What the program takes of the datagrams for other hosts; nothing by default.
    pub foreign: Foreign,
}

/// Which datagrams for addresses that are not ours the program takes, by
/// [`crate::Stack::foreign_receive`]: of every port, unless the stack forwards them. With a
/// listener at `0.0.0.0:0` for TCP (`inspect`), a program answers for every host: a gateway whose
/// outer side is sockets of the system, for example.
///
/// ```
/// # mod wirespeed { pub use {base::*, device, wirespeed_stack::*}; }
/// use wirespeed::pair::{PairConfig, pair};
/// use wirespeed::{Event, Foreign, ForeignKind, Instant, IpSettings, Owner, Route, StackConfig};
///
/// let foreign = Foreign { udp: true, echo: true, ..Foreign::default() };
/// let stack = StackConfig { foreign, ..StackConfig::new([1, 2]) };
/// let (mut guest, mut gateway) = pair(&PairConfig { stack, ..PairConfig::new([1, 2]) });
/// guest.stack.add_route(Route::new("0.0.0.0/0".parse()?, Some(gateway.addr), guest.port.0));
///
/// // The guest asks 198.51.100.53, which is no address of the gateway.
/// let now = Instant::from_nanos(1);
/// let socket = guest.stack.udp_bind("0.0.0.0:0".parse()?, Owner::program())?;
/// guest.stack.udp_send(socket, "198.51.100.53:53".parse()?, b"which?", now)?;
/// guest.stack.poll(now);
/// gateway.stack.poll(now);
/// assert_eq!(gateway.stack.next_event(), Some(Event::Foreign));
/// let mut datagrams = Vec::new();
/// gateway.stack.foreign_receive(&mut datagrams, 64);
/// for datagram in datagrams {
///     assert_eq!(datagram.flow.kind, ForeignKind::Udp);
///     assert_eq!(datagram.payload.as_slice(), b"which?");
///     // The source of the answer is the address that was asked.
///     let (from, to) = (datagram.flow.dst, datagram.flow.src);
///     gateway.stack.udp_send_between(from, to, IpSettings::default(), b"this one", now)?;
///     gateway.stack.give_back(datagram.payload);
/// }
/// gateway.stack.poll(now);
/// guest.stack.poll(now);
/// let answer = guest.stack.udp_receive(socket).expect("an answer");
/// assert_eq!(answer.from, "198.51.100.53:53".parse()?);
/// assert_eq!(answer.payload.as_slice(), b"this one");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Foreign {
    /// UDP datagrams, and errors about those that the program sends
    /// ([`crate::Stack::foreign_take_error`]).
    pub udp: bool,
    /// ICMP and ICMPv6 echo requests.
    pub echo: bool,
    /// UDP datagrams for our own addresses, too, if no socket takes them; without this the answer
    /// is "port unreachable".
    pub unclaimed: bool,
    /// What hosts without an address send: datagrams from 0.0.0.0 to 255.255.255.255 come to
    /// sockets, such as a DHCP server's, and router solicitations to the program
    /// ([`crate::Stack::take_router_solicitation`]).
    pub newcomers: bool,
}

impl StackConfig {
    /// The default of [`StackConfig::write_unit_bytes`].
    pub const WRITE_UNIT_BYTES: usize = 46 * 1024;
    /// The minimum of `write_unit_bytes`. A unit is more than a segment anyway.
    pub const WRITE_UNIT_MIN_BYTES: usize = 1024;
    /// The maximum of `write_unit_bytes`: the default of a connection's `unsent_limit_bytes`.
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
            foreign: Foreign::default(),
        }
    }
}

/// Settings for the IP header of a socket's packets.
///
/// ```
/// # mod wirespeed { pub use {base::*, wirespeed_stack::*}; }
/// use wirespeed::pair::{PairConfig, pair};
/// use wirespeed::{Instant, IpSettings, Owner};
/// # use std::net::SocketAddr;
///
/// let (mut end, other) = pair(&PairConfig::new([1, 2]));
/// let to = SocketAddr::new(other.addr, 80);
/// let ip = IpSettings { tos: 0xb8, mark: 7, ..IpSettings::default() }; // expedited forwarding
/// let (tcp, now) = (Default::default(), Instant::from_nanos(1));
/// let connection = end.stack.tcp_connect_with(to, None, &tcp, Owner::program(), ip, now)?;
/// assert_eq!(end.stack.tcp_ip(connection), Some(ip));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpSettings {
    /// Hops that a packet may take: TTL (RFC 791) or hop limit (RFC 8200).
    pub ttl: u8,
    /// Type of service or traffic class: differentiated services (RFC 2474), two low bits for ECN.
    pub tos: u8,
    /// Not in the header: a number by which the rules of policy routing select packets (Linux's
    /// SO_MARK). 0 unless set.
    pub mark: u32,
    /// Not in the header either: the VRF that the socket belongs to (Linux's SO_BINDTODEVICE with a
    /// VRF). It receives and sends only there. An open connection stays in its VRF.
    pub vrf: Vrf,
    /// The socket may have an address that is not one of the stack's (Linux's IP_TRANSPARENT), for
    /// proxies that answer in another host's name. Only the program that owns the stack may set it.
    pub transparent: bool,
}

impl Default for IpSettings {
    /// 64 hops (RFC 1700's recommended default), best effort, from our own addresses, in no VRF.
    fn default() -> IpSettings {
        IpSettings { ttl: 64, tos: 0, mark: 0, vrf: Vrf::NONE, transparent: false }
    }
}

impl IpSettings {
    /// The defaults for packets that are routed by this selector.
    pub(crate) fn by(selector: Selector) -> IpSettings {
        let Selector { mark, vrf } = selector;
        IpSettings { mark, vrf, ..IpSettings::default() }
    }

    /// What selects the table for the packets, beside the owner.
    pub(crate) fn selector(&self) -> Selector {
        Selector { mark: self.mark, vrf: self.vrf }
    }
}

/// What the stack does with a datagram that is larger than the path is known to carry (Linux's
/// IP_MTU_DISCOVER). Packets that are not fragments always forbid routers to fragment them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MtuDiscovery {
    /// The datagram leaves in fragments (IP_PMTUDISC_WANT).
    #[default]
    Want,
    /// The datagram is refused with [`crate::UdpError::TooBig`] (IP_PMTUDISC_DO).
    Do,
    /// The datagram is sent whole if the port sends packets of its size, even if the path is known
    /// to carry only smaller ones: a program can probe the path (IP_PMTUDISC_PROBE, RFC 8899).
    Probe,
}

/// Settings of a port.
///
/// ```
/// # mod wirespeed { pub use {base::*, device, wirespeed_stack::*}; }
/// use wirespeed::device::channel;
/// use wirespeed::{MacAddr, PortConfig, Stack, StackConfig};
///
/// let (device, _frames) = channel::pair(&channel::Config::default()); // Ethernet
/// let mut stack = Stack::new(StackConfig::new([1, 2]));
/// let config = PortConfig {
///     mac: MacAddr([2, 0, 0, 0, 0, 1]), // 2: administered locally
///     addresses: vec!["192.0.2.1/24".parse()?, "2001:db8::1/64".parse()?],
///     ..PortConfig::default()
/// };
/// let port = stack.add_port(Box::new(device), config);
/// assert_eq!(stack.addresses(port).len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct PortConfig {
    /// Our link address. A raw IP port ignores it.
    pub mac: MacAddr,
    /// Our addresses, each with its network.
    pub addresses: Vec<Cidr>,
    /// Answer ARP requests and neighbour solicitations for every address that no neighbour is known
    /// to have: proxy ARP (RFC 1027) and proxy neighbour discovery (RFC 4861 section 7.2.8), for a
    /// private link with one guest, which needs no gateway then; its own addresses are never
    /// answered for. On a link with other hosts it takes their packets away.
    ///
    /// ```
    /// # mod wirespeed { pub use {base::*, wirespeed_stack::*}; }
    /// use wirespeed::{MacAddr, PortConfig};
    ///
    /// let addresses = vec!["10.0.2.2/24".parse()?];
    /// let mac = MacAddr([2, 0, 0, 0, 0, 1]);
    /// let to_the_guest = PortConfig { mac, addresses, answer_all: true };
    /// # assert!(to_the_guest.answer_all && !PortConfig::default().answer_all);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub answer_all: bool,
}
