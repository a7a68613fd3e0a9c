//! UDP sockets: their state and options, and the reasons why calls are refused.
//!
//! Called by: the other files of this folder. `demux.rs` finds the socket
//! of a datagram. RFC 768, RFC 1122 section 4.1, RFC 6056. Limits: `sockets`, `udp_queue_bytes`,
//! `udp_errors`.

mod between;
mod bind;
mod demux;
pub(crate) mod errors;
pub(crate) mod input;
pub(crate) mod receive;
mod segments;
mod send;
mod supers;

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use std::collections::VecDeque;

use base::{DropReason, Instant, Mtu, Owner};
pub(crate) use between::Between;
pub(crate) use demux::{Sender, UdpSockets};
use inet::icmp::{ErrorKind, Unreachable};
use mbuf::Mbuf;
pub use receive::UdpReceived;
use wire::checksum::Sum;
use wire::udp;

use crate::config::{IpSettings, MtuDiscovery};
use crate::resolving::{Egress, NoSource};

/// The most datagrams that one call sends or receives, as in Linux.
pub const SEGMENTS_MAX: usize = 64;

/// A received datagram.
pub struct Datagram {
    /// The sender.
    pub from: SocketAddr,
    /// The address of ours that it was sent to.
    pub to: SocketAddr,
    /// The payload of the datagram.
    pub payload: Mbuf,
}

impl Datagram {
    /// How many bytes the datagram takes of a socket's queue. An empty datagram takes those of its
    /// buffer.
    #[inline(always)]
    fn cost(&self) -> usize {
        self.payload.len() + 128
    }
}

/// Why a UDP call was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpError {
    /// The address is taken, or no ephemeral port is free.
    AddressInUse,
    /// A limit is reached.
    LimitReached,
    /// The socket is closed.
    Closed,
    /// No address of ours has the destination's IP version, or the requested source is not ours or
    /// not the address that the socket is bound to.
    NoAddress,
    /// The device is full; poll and try again.
    WouldBlock,
    /// The destination is a broadcast address: call [`crate::Stack::udp_set_broadcast`] first.
    Broadcast,
    /// The destination of a probe is a group. Each member has another path: probe a host.
    Group,
    /// The packet would be larger than this MTU and may not be fragmented: see [`MtuDiscovery`].
    TooBig(Mtu),
    /// The segments have no bytes, there are more than `SEGMENTS_MAX`, or they have more than
    /// 65,535 bytes in all.
    InvalidSegments,
    /// The datagram cannot be sent, for the named reason.
    Unsendable(DropReason),
}

impl fmt::Display for UdpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UdpError::AddressInUse => {
                "another socket has the address, or NAT has the port, or no port is free"
            }
            UdpError::LimitReached => "a limit is reached",
            UdpError::Closed => "the socket is closed",
            UdpError::NoAddress => "no address of ours fits the destination",
            UdpError::WouldBlock => "the device is full: try again",
            UdpError::Broadcast => "the destination is a broadcast address, which was not allowed",
            UdpError::Group => "the destination is a group: probe a host",
            UdpError::TooBig(mtu) => return write!(f, "message too long, mtu={}", mtu.bytes()),
            UdpError::InvalidSegments => "segments of no bytes, too many, or too long in all",
            UdpError::Unsendable(reason) => reason.meaning(),
        })
    }
}

impl core::error::Error for UdpError {}

impl From<NoSource> for UdpError {
    fn from(why: NoSource) -> UdpError {
        match why {
            NoSource::Unreachable(reason) => UdpError::Unsendable(reason),
            NoSource::NoAddress => UdpError::NoAddress,
        }
    }
}

pub(crate) struct Socket {
    pub(crate) local: (Option<IpAddr>, u16),
    /// The only peer from which datagrams are received.
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) owner: Owner,
    pub(crate) ip: IpSettings,
    options: UdpOptions,
    /// The socket may send to broadcast addresses.
    may_broadcast: bool,
    pub(crate) queue: VecDeque<Datagram>,
    pub(crate) queued_bytes: usize,
    errors: Errors,
    /// How the last datagram left (see [`Flow`]).
    flow: Option<Box<Flow>>,
}

impl Socket {
    fn new(local: (Option<IpAddr>, u16), peer: Option<SocketAddr>, owner: Owner) -> Socket {
        Socket {
            local,
            peer,
            owner,
            ip: IpSettings::default(),
            options: UdpOptions::default(),
            may_broadcast: false,
            queue: VecDeque::new(),
            queued_bytes: 0,
            errors: Errors::default(),
            flow: None,
        }
    }
}

/// The options of a UDP socket; all are off by default.
/// RFC 6936 4-a.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpOptions {
    /// What happens to datagrams that are larger than the path carries.
    pub mtu_discovery: MtuDiscovery,
    /// Send datagrams without a checksum (SO_NO_CHECK, UDP_NO_CHECK6_TX). Over IPv6, receivers drop
    /// these unless they have allowed them. For tunnels only, whose inner packets have checksums
    /// (RFC 6935).
    pub no_checksum: bool,
    /// Receive datagrams without a checksum over IPv6 (UDP_NO_CHECK6_RX). Over IPv4 all sockets
    /// receive them.
    pub accepts_zero_checksum: bool,
    /// Keep the errors that the network reports about this socket's datagrams (IP_RECVERR), for
    /// [`crate::Stack::udp_take_errors`].
    pub error_queue: bool,
    /// [`crate::Stack::udp_receive_into`] takes several datagrams at once (UDP_GRO).
    pub coalesces: bool,
}

/// How a socket's datagrams to one destination leave.
#[derive(Clone)]
pub(super) struct Flow {
    remote: SocketAddr,
    /// The source address that the caller requested; `None`: that of the route.
    asked: Option<IpAddr>,
    local_port: u16,
    /// [`crate::Stack::flow_epoch`] when the flow was looked up.
    epoch: u64,
    until: Instant,
    pub(super) egress: Egress,
    /// Frames of the flow leave with a gap between them (`pace.rs`).
    has_gap: bool,
    /// The largest packet that the path is known to carry.
    most: Mtu,
    /// The largest packet that the next hop receives.
    link: Mtu,
    /// The sum of addresses, protocol and ports.
    sum: Sum,
}

/// Each socket that sends has a flow of at most this many bytes.
const _: () = assert!(size_of::<Flow>() <= 256);

impl Flow {
    /// The largest packet that the path is known to carry.
    pub(super) fn most(&self) -> Mtu {
        self.most
    }

    /// The largest packet that is sent in one piece.
    pub(super) fn limit(&self, discovery: MtuDiscovery) -> Mtu {
        if discovery == MtuDiscovery::Probe { self.link } else { self.most }
    }

    /// Size in bytes of the packet that carries `payload_len` bytes.
    #[inline(always)]
    pub(super) fn packet_len(&self, payload_len: usize) -> usize {
        let template = &self.egress.template;
        template.len() - template.link_len() + udp::HEADER_LEN + payload_len
    }

    /// Do the flow's frames need nothing but headers: neither a link address nor a gap?
    #[inline(always)]
    pub(super) fn is_direct(&self) -> bool {
        self.egress.is_complete && !self.has_gap
    }

    /// Does a datagram leave at once and whole?
    #[inline(always)]
    pub(super) fn takes(&self, payload_len: usize) -> bool {
        self.packet_len(payload_len) <= self.most.bytes() && self.is_direct()
    }

    /// The UDP header of a payload, with a checksum field for the device to finish.
    pub(super) fn unfinished_header(&self, payload_len: usize) -> [u8; udp::HEADER_LEN] {
        inet::udp::unfinished_header((self.local_port, self.remote.port()), payload_len, self.sum)
    }

    /// The UDP header of a payload with this sum; `None`: the datagram has no checksum.
    #[inline(always)]
    pub(super) fn header(&self, payload_len: usize, payload: Option<Sum>) -> [u8; udp::HEADER_LEN] {
        inet::udp::header((self.local_port, self.remote.port()), payload_len, self.sum, payload)
    }
}

/// An error that the network reported about one datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpErrorReport {
    /// The error. In [`ErrorKind::TooBig`] the MTU is plausible: less than the packet's size, and
    /// not less than the minimum of its IP version.
    pub kind: ErrorKind,
    /// ICMP type and code; `None` if this host found out itself that the next hop does not answer.
    pub icmp: Option<(u8, u8)>,
    /// The host that reports the error: a router, the destination, or this host itself.
    pub from: IpAddr,
    /// The address of ours that the datagram was sent from.
    pub local: SocketAddr,
    /// The destination of the datagram.
    pub remote: SocketAddr,
    /// The quoted part of the datagram's payload, at most 64 bytes: usually none, or all of a short
    /// payload.
    pub payload: Vec<u8>,
    /// Size in bytes of the datagram's whole payload, by its quoted UDP header.
    pub payload_len: usize,
}

/// The errors that the network reported to a socket.
#[derive(Default)]
pub(super) struct Errors {
    /// The last error, and the destination of its datagram.
    pending: Option<(SocketAddr, Unreachable)>,
    queue: VecDeque<UdpErrorReport>,
    /// The path MTU reported last, and until when it is used. The report cannot be verified, so
    /// only this socket uses it.
    narrow: Option<(IpAddr, Mtu, Instant)>,
}

impl Errors {
    pub(super) fn forget_queue(&mut self) {
        self.queue = VecDeque::new();
    }

    /// The path MTU that was reported for `remote`, and until when it is used.
    pub(super) fn path_mtu(&self, remote: IpAddr, now: Instant) -> Option<(Mtu, Instant)> {
        let (_, mtu, until) = self.narrow.filter(|&(ip, _, until)| ip == remote && now < until)?;
        Some((mtu, until))
    }
}
