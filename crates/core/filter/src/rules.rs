//! The rules of the filter and of NAT, as structures: what a rule matches, and what it does then.
//!
//! Called by: `text`, which makes them of the operator's lines; `program`, which compiles them; the
//! stack, for limits of a rule and targets of NAT. A list of rules is ordered: the first rule that
//! matches wins. RFC 4787 section 5 (filtering), RFC 6056 (ports), RFC 6296 (prefixes).

use core::net::IpAddr;

use base::{Cidr, IpVersion};
use wire::protocol::{ICMP, ICMPV6, TCP, UDP};

use crate::{Packet, Set};

/// Ports of the outside that source NAT takes if its rule names none, both included. The ports
/// above are the router's own.
pub const NAT_PORTS: (u16, u16) = (1024, 60999);

/// Everything that the operator's text says.
#[derive(Clone, Debug)]
pub struct Rules {
    /// What happens to the first packet of a flow that no rule matches.
    pub default: Action,
    /// Rules of the filter, in order.
    pub filter: Vec<Rule>,
    /// Rules of NAT, in order.
    pub nat: Vec<NatRule>,
    /// The sets that rules name, by [`Hosts::sets`].
    pub sets: Vec<Set>,
}

/// The fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It goes on.
    Pass,
    /// It is dropped, and its sender learns nothing.
    Block,
    /// It is dropped; its sender gets a RST (TCP) or an ICMP error.
    Reject,
}

impl Action {
    /// The word in rules.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Action::Pass => "pass",
            Action::Block => "block",
            Action::Reject => "reject",
        }
    }
}

/// A rule of the filter.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The rule on one line, without comments.
    pub text: String,
    /// The line of the text where it begins, from 1.
    pub line: u32,
    /// What happens to a packet that matches.
    pub action: Action,
    /// The packets that match.
    pub matches: Match,
    /// `new`: how many flows may begin in a second.
    pub rate: Option<Rate>,
    /// `states`: how many flows one source may have at a time.
    pub states_per_source: Option<u32>,
    /// `label`: a name for counters, which keep their values over reloads by it.
    pub label: Option<String>,
    /// `log`: the first packet of each flow is logged.
    pub log: bool,
    /// `loose`: no window check; flows may begin in the middle.
    pub loose: bool,
    /// `stateless`: no state is kept, each packet is judged by itself.
    pub stateless: bool,
}

/// A bound on the flows that begin in a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Flows in a second, at least 1.
    pub per_second: u32,
    /// Each source has the rate for itself: an IPv4 address, or an IPv6 network of 64 bits.
    pub per_source: bool,
}

/// What a rule asks of a packet; all of it must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Match {
    /// The port that the packet came by.
    pub in_ports: Ports,
    /// The port that it leaves by.
    pub out_ports: Ports,
    /// The only version that the rule is about.
    pub version: Option<IpVersion>,
    /// Its source.
    pub from: Hosts,
    /// Its destination.
    pub to: Hosts,
    /// Protocols with destination ports or ICMP types; empty means every protocol.
    pub services: Vec<Service>,
    /// Ranges of source ports, both ends included; empty means every port.
    pub from_ports: Vec<(u16, u16)>,
    /// TCP flags.
    pub flags: Option<Flags>,
}

/// Ports of the router that a rule names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Ports {
    /// The rule names none: also the router itself.
    #[default]
    Any,
    /// One of these numbers; [`ROUTER`](crate::ROUTER) is the router itself (`self`).
    Of(Vec<u16>),
    /// Every number but these (`!self`).
    Not(Vec<u16>),
}

impl Ports {
    /// Is `port` one of them?
    #[must_use]
    pub fn contains(&self, port: u16) -> bool {
        match self {
            Ports::Any => true,
            Ports::Of(list) => list.contains(&port),
            Ports::Not(list) => !list.contains(&port),
        }
    }
}

/// Hosts that a rule names: networks and sets, or all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts {
    /// `!`: all hosts but these.
    pub negated: bool,
    /// Networks without host bits.
    pub networks: Vec<Cidr>,
    /// Indices of [`Rules::sets`].
    pub sets: Vec<usize>,
}

impl Default for Hosts {
    /// Every host of both versions.
    fn default() -> Hosts {
        Hosts { negated: true, networks: Vec::new(), sets: Vec::new() }
    }
}

impl Hosts {
    /// Every host of both versions?
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.negated && self.networks.is_empty() && self.sets.is_empty()
    }

    /// Is `addr` one of them? `sets` are those of the rules.
    #[must_use]
    pub fn contains(&self, addr: IpAddr, sets: &[Set]) -> bool {
        let is_listed = self.networks.iter().any(|network| network.contains(addr))
            || self.sets.iter().filter_map(|&set| sets.get(set)).any(|set| set.contains(addr));
        is_listed != self.negated
    }
}

/// A protocol with a range of its destination ports, or of its ICMP messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// Its number behind the IP header.
    pub protocol: u8,
    /// The first destination port; for ICMP, type × 256 + code.
    pub first: u16,
    /// The last one.
    pub last: u16,
}

impl Service {
    /// All of a protocol.
    #[must_use]
    pub const fn all(protocol: u8) -> Service {
        Service { protocol, first: 0, last: u16::MAX }
    }

    /// Protocol × 65,536 + port or ICMP type and code: the number of a packet's service. An ICMP
    /// packet without type and code counts as type 255, code 255, which means nothing (RFC 4443
    /// section 2.1).
    #[must_use]
    #[inline]
    pub fn number(packet: &Packet) -> u32 {
        let protocol = packet.tuple.protocol;
        let value = match protocol {
            ICMP | ICMPV6 => {
                let (kind, code) = packet.icmp.unwrap_or((u8::MAX, u8::MAX));
                u16::from_be_bytes([kind, code])
            }
            _ => packet.tuple.dst_port,
        };
        u32::from(protocol) << 16 | u32::from(value)
    }

    /// Is a packet with this [`number`](Self::number) of the service?
    #[must_use]
    pub const fn contains(self, number: u32) -> bool {
        let protocol = (self.protocol as u32) << 16;
        protocol | self.first as u32 <= number && number <= protocol | self.last as u32
    }
}

/// Has the protocol ports in its first four bytes? TCP, UDP, DCCP (RFC 4340), SCTP (RFC 9260) and
/// UDP-Lite (RFC 3828).
#[must_use]
pub const fn has_ports(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | 33 | 132 | 136)
}

/// TCP flags, in the bits of the header: those of `mask` must be as in `set`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags {
    /// Flags that must be there.
    pub set: u8,
    /// Flags that are looked at.
    pub mask: u8,
}

impl Flags {
    /// Do the flags of a segment match?
    #[must_use]
    pub const fn contains(self, flags: u8) -> bool {
        flags & self.mask == self.set
    }
}

/// A rule of NAT.
#[derive(Clone, Debug)]
pub struct NatRule {
    /// The rule on one line, without comments.
    pub text: String,
    /// The line of the text where it begins, from 1.
    pub line: u32,
    /// Packets whose source it translates (all kinds but `dest`), before translation.
    pub source: Option<Match>,
    /// First packets whose destination it translates (`dest`, and `both` and `prefix` from the
    /// outside), before translation. Their [`Packet::out_port`] is [`ROUTER`](crate::ROUTER) if the
    /// destination is an address of the router, else any other number.
    pub dest: Option<Match>,
    /// What it translates to.
    pub nat: Nat,
}

/// What a rule of NAT translates to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nat {
    /// `source`: another source address, and a source port of `ports`.
    Source {
        /// Where the addresses are from.
        target: Target,
        /// The ports of the outside, both included.
        ports: (u16, u16),
        /// Which hosts may answer to a mapping.
        filtering: Filtering,
        /// Ports that a source gets at once, logged as one (RFC 7422); `None`: each by itself.
        block: Option<u16>,
    },
    /// `keep`: no translation. RFC 6888 REQ-6.
    Keep,
    /// `dest`: another destination.
    Dest {
        /// The host.
        addr: IpAddr,
        /// The ports before translation that begin at `first`, and the port that `first` becomes;
        /// `None`: the port is kept.
        port: Option<PortMap>,
    },
    /// `prefix`: RFC 6296, stateless and neutral to checksums. Both are of one length.
    Prefix {
        /// Behind the router.
        inside: Cidr,
        /// As others see it.
        outside: Cidr,
    },
    /// `both`: one to one, in both directions; host bits are kept. Both are of one length.
    Both {
        /// Behind the router.
        inside: Cidr,
        /// As others see it.
        outside: Cidr,
    },
}

/// Where source NAT takes addresses from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The address of the port that the packet leaves by, of the packet's version (masquerade).
    Port,
    /// One of a network, or one alone; a source keeps the same one (paired, RFC 4787 REQ-2).
    Network(Cidr),
}

/// Which packets from outside a mapping lets in (RFC 4787 section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Filtering {
    /// Those of every host (endpoint-independent).
    Independent,
    /// Those of hosts that the inside has sent to (address-dependent).
    #[default]
    Address,
    /// Those of ports that the inside has sent to (address- and port-dependent).
    Port,
}

/// How `dest` maps ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortMap {
    /// The first port before translation.
    pub from: u16,
    /// The port that it becomes; those behind it follow, if `is_range`.
    pub to: u16,
    /// Port `from + n` becomes `to + n`; else every port becomes `to`.
    pub is_range: bool,
}

impl PortMap {
    /// The port that `port` becomes.
    #[must_use]
    pub const fn map(self, port: u16) -> u16 {
        if self.is_range { self.to.wrapping_add(port.wrapping_sub(self.from)) } else { self.to }
    }
}
