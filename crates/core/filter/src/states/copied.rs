//! A state as it goes to the partner of a pair of routers, and why a copy may be refused there.
//!
//! Called by: `copies.rs`, which makes copies; `imports.rs`, which takes them; the partner's
//! session, which puts them into datagrams. Times are spans, because the partner has another clock.
//! Rules are not in a copy: the importer asks its own. docs/decisions/0151.

use base::{Duration, SeqNumber};
use wire::protocol;

use super::key::Key;
use super::record::{Common, Side, flag};
use super::segment::NO_SCALE;
use super::tcp;
use super::timeouts::Phase;
use crate::packet::{ROUTER, Tuple};

/// The largest window that scaling allows, in bytes (RFC 7323 section 2.3).
const WINDOW_MAX: u32 = 65_535 << 14;

/// A copy of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The tuple of the first packet as it arrived.
    pub original: Tuple,
    /// The tuple of answers as they arrive.
    pub reply: Tuple,
    /// Where the flow is.
    pub phase: Phase,
    /// Type and code of the first message of a flow of ICMP.
    pub icmp: Option<(u8, u8)>,
    /// A rule says that windows are not checked.
    pub loose: bool,
    /// Port that the first packet came by.
    pub in_port: u16,
    /// Port that it left by.
    pub out_port: u16,
    /// The time since the first packet.
    pub age: Duration,
    /// The time since the last packet that counts.
    pub idle: Duration,
    /// Packets in the original and the reply direction.
    pub packets: [u64; 2],
    /// Bytes in the original and the reply direction.
    pub bytes: [u64; 2],
    /// What tracking knows of a TCP connection; `None` for other protocols.
    pub tcp: Option<CopiedTcp>,
    /// The mapping that the flow uses.
    pub mapping: CopiedMapping,
}

/// Which endpoint of a flow has a mapping of NAT. Both ends of the mapping are in the tuples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopiedMapping {
    /// None: addresses stay, or networks are exchanged one to one.
    #[default]
    None,
    /// Its source: the flow began inside.
    Source,
    /// Its destination: the flow came in by a mapping.
    Destination,
}

/// What tracking knows of a TCP connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopiedTcp {
    /// The original and the reply side.
    pub sides: [CopiedSide; 2],
    /// Window scales: the original side's in the low half.
    pub scales: u8,
    /// Bits for what came of the handshake and of the end: any value is one.
    pub flags: u8,
}

/// One side of a TCP connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopiedSide {
    /// Behind the highest sequence number that it has sent.
    pub end: SeqNumber,
    /// The highest sequence number that it may send up to.
    pub max_end: SeqNumber,
    /// The largest window that it has advertised, in bytes.
    pub max_window: u32,
}

/// What became of a copy that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Imported {
    /// There is a new state.
    New,
    /// The state that was there is as new as the copy.
    Updated,
}

/// Why a copy was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NotImported {
    /// Its parts contradict each other, or it is of a socket of the partner's.
    Malformed,
    /// A later copy came before it.
    Old,
    /// The state that is here has had later packets.
    Newer,
    /// Rules here do not pass the flow.
    Rule,
    /// No rule of NAT here gives the flow its outside address.
    NatRule,
    /// Another flow has one of its tuples.
    InTheWay,
    /// The table of states is full: `filter_states`.
    Full,
    /// The source has as many states as it may: `filter_states_per_source`.
    SourceLimit,
    /// Another inside endpoint has the outside port.
    PortTaken,
    /// A socket of the router has the outside port.
    PortOfSocket,
    /// The inside endpoint has another outside endpoint here.
    MappedElsewhere,
    /// A limit of NAT: `nat_mappings`, `nat_addresses`, `nat_ports_per_source`.
    NatLimit,
    /// The outside port is another shard's.
    OtherShard,
}

impl NotImported {
    /// All of them.
    pub const ALL: [NotImported; 13] = [
        NotImported::Malformed,
        NotImported::Old,
        NotImported::Newer,
        NotImported::Rule,
        NotImported::NatRule,
        NotImported::InTheWay,
        NotImported::Full,
        NotImported::SourceLimit,
        NotImported::PortTaken,
        NotImported::PortOfSocket,
        NotImported::MappedElsewhere,
        NotImported::NatLimit,
        NotImported::OtherShard,
    ];

    /// For tools and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            NotImported::Malformed => "malformed",
            NotImported::Old => "old",
            NotImported::Newer => "newer_here",
            NotImported::Rule => "rule",
            NotImported::NatRule => "nat_rule",
            NotImported::InTheWay => "in_the_way",
            NotImported::Full => "full",
            NotImported::SourceLimit => "source_limit",
            NotImported::PortTaken => "port_taken",
            NotImported::PortOfSocket => "port_of_socket",
            NotImported::MappedElsewhere => "mapped_elsewhere",
            NotImported::NatLimit => "nat_limit",
            NotImported::OtherShard => "other_shard",
        }
    }
}

/// Bits of [`CopiedTcp::flags`] in order.
const FLAGS: [u16; 8] = [
    flag::FIN,
    flag::FIN << 1,
    flag::SYN_ACKED,
    flag::SYN_ACKED << 1,
    flag::RST_IN_REPLY,
    flag::RST_EXACT,
    flag::EARLY_DATA,
    flag::UNSURE,
];

/// Bits of the numbers in [`FLAGS`].
const SYNS_ACKED: u8 = 1 << 2 | 1 << 3;
const UNSURE: u8 = 1 << 7;

impl CopiedTcp {
    pub(super) fn of(common: &Common) -> CopiedTcp {
        let bit = |(at, flag): (usize, &u16)| u8::from(common.has(*flag)) << at;
        let sides = common.sides.map(|side| CopiedSide {
            end: side.end,
            max_end: side.max_end,
            max_window: side.max_window,
        });
        let mut flags = FLAGS.iter().enumerate().map(bit).fold(0, |all, bit| all | bit);
        if common.has(flag::LOOSE) && common.has(flag::UNSURE) {
            // Its windows are still to be picked up, long after the handshake.
            flags = flags & !UNSURE | SYNS_ACKED;
        }
        CopiedTcp { sides, scales: common.scales, flags }
    }

    /// Write it into a record whose phase is set. Windows of a connection that goes on are those of
    /// a while ago, so that tracking picks them up from the next segments.
    pub(super) fn write(&self, common: &mut Common, is_loose: bool) {
        common.sides = self.sides.map(|side| Side {
            end: side.end,
            max_end: side.max_end,
            max_window: side.max_window.min(WINDOW_MAX),
        });
        common.scales = self.scales;
        let all = FLAGS.iter().fold(flag::LOOSE | flag::PENDING_SYN, |all, flag| all | flag);
        common.flags &= !all;
        for (at, flag) in FLAGS.iter().enumerate() {
            common.flags |= if self.flags >> at & 1 != 0 { *flag } else { 0 };
        }
        if is_loose {
            common.flags &= !flag::UNSURE;
            common.flags |= flag::LOOSE;
        } else if is_under_way(common.phase) {
            for which in 0..2 {
                if common.scale(which) == NO_SCALE {
                    common.set_scale(which, 0);
                }
            }
            tcp::pick_up(common);
        }
    }
}

/// Do both sides of a connection in this phase send?
const fn is_under_way(phase: Phase) -> bool {
    matches!(phase, Phase::TcpEstablished | Phase::TcpHalfClosed | Phase::TcpClosing)
}

impl Copied {
    /// Both keys, if the parts of the copy fit each other. `None`: no state can be like that.
    pub(crate) fn keys(&self) -> Option<(Key, Key)> {
        let original = Key::of(&self.original)?;
        let reply = Key::of(&self.reply)?;
        let is_one_version = self.original.src.is_ipv4() == self.reply.src.is_ipv4();
        let protocol = self.original.protocol;
        let is_icmp = matches!(protocol, protocol::ICMP | protocol::ICMPV6);
        let phases = match protocol {
            protocol::TCP => Phase::TcpSynSent..=Phase::TcpReset,
            protocol::UDP => Phase::UdpUnreplied..=Phase::DnsReplied,
            _ if is_icmp => Phase::IcmpUnreplied..=Phase::IcmpReplied,
            _ => Phase::OtherUnreplied..=Phase::OtherReplied,
        };
        let fits = is_one_version
            && self.reply.protocol == protocol
            && original != reply
            && phases.contains(&self.phase)
            && self.tcp.is_some() == (protocol == protocol::TCP)
            && (self.icmp.is_none() || is_icmp)
            && self.in_port != ROUTER
            && self.out_port != ROUTER;
        fits.then_some((original, reply))
    }
}
