//! The rows of a stack's sections. Connections and routes have files of their own.
//!
//! Called by: `observe`, which fills the rows; tools, which read them. Sizes are in bytes. `dev` is
//! the name of a port, `port` its number. A time of `None` is for ever, or is not known.

use core::net::IpAddr;
use std::collections::BTreeMap;

use base::{Cidr, MacAddr};
use serde::{Deserialize, Serialize};

use super::as_text;

/// The totals of a stack: the section `stack`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// The number of ports.
    pub ports: u64,
    /// Connections, including ended ones that their users still hold.
    pub connections: u64,
    /// Records in TIME-WAIT.
    pub time_wait: u64,
    /// Connections in SYN-RECEIVED.
    pub half_open: u64,
    /// Listeners and UDP sockets.
    pub sockets: u64,
    /// The memory of the stack's buffers.
    pub pool_bytes: u64,
    /// About how much of that memory belongs to buffers in use.
    pub pool_used_bytes: u64,
    /// Packets dropped so far.
    pub drops: u64,
    /// How checksums are computed on this processor.
    pub checksums: String,
    /// How most packets are forwarded.
    pub forwarding: String,
    /// Neighbours whose broadcast address differs from ours, a line each.
    pub other_broadcasters: Vec<String>,
}

/// A port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Port {
    /// The number of the port.
    pub port: u16,
    /// The name of the port.
    pub name: String,
    /// The name again, in the field that holds it in other rows.
    pub dev: String,
    /// The header with which the port's frames begin: `ethernet` or `ip`.
    pub link: String,
    /// The port's link address; `None` without Ethernet.
    #[serde(with = "as_text::option")]
    pub mac: Option<MacAddr>,
    /// The largest packet.
    pub mtu: u64,
    /// The port's addresses, each with the prefix length of its network.
    pub addresses: Vec<String>,
    /// The largest super-segment; 0 if the port takes none.
    pub tso_max_bytes: u64,
    /// Is the link up?
    pub link_up: bool,
    /// Why the port carries no frames, if it does not.
    pub failure: Option<String>,
    /// Did the device refuse frames, so that the stack waits for room?
    pub pushed_back: bool,
    /// How long the device has taken no frames, if that is more than five seconds.
    pub stalled_ms: Option<u64>,
    /// The check of packets' source addresses: `off`, `loose` or `strict`.
    pub source_check: String,
    /// The VRF that the port belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vrf: Option<Vrf>,
    /// Packets that the device lost, by reason, if it counts them by reason.
    pub drops: Option<BTreeMap<String, u64>>,
}

/// A VRF.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vrf {
    /// The name.
    pub name: String,
    /// The number of its table.
    pub table: u32,
}

/// A listener or UDP socket. Fields that do not apply to the protocol are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Socket {
    /// `tcp` for a listener, or `udp`.
    pub protocol: String,
    /// The address and port that the socket is bound to; `*` stands for every address.
    pub local: String,
    /// The peer of a connected UDP socket.
    pub remote: Option<String>,
    /// The user that owns the socket.
    pub uid: u32,
    /// The most connections that may wait to be accepted.
    pub backlog: Option<u64>,
    /// Handshakes that are not complete.
    pub half_open: Option<u64>,
    /// Connections that wait to be accepted, or datagrams that wait to be read.
    pub waiting: u64,
    /// The number of bytes in those datagrams.
    pub waiting_bytes: Option<u64>,
}

/// An address of the stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// The number of the port that has the address.
    pub port: u16,
    /// The name of the port.
    pub dev: String,
    /// The address with the prefix length of its network.
    #[serde(with = "as_text")]
    pub address: Cidr,
    /// The state: `preferred`, `tentative`, `deprecated` or `dadfailed`.
    pub state: String,
    /// The origin of the address: `static`, `dhcp`, `ra` and so on.
    pub origin: String,
    /// How long the address is preferred as the source of new connections.
    pub preferred_ms: Option<u64>,
    /// How long the address stays valid.
    pub valid_ms: Option<u64>,
}

/// A neighbour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbour {
    /// The number of the neighbour's port.
    pub port: u16,
    /// The name of the port.
    pub dev: String,
    /// The neighbour's address.
    pub address: IpAddr,
    /// The neighbour's link address; `None` while it is being resolved.
    #[serde(with = "as_text::option")]
    pub mac: Option<MacAddr>,
    /// The state, as in `ip neigh`: `REACHABLE`, `STALE` and so on.
    pub state: String,
    /// The largest packet that is sent to the neighbour.
    pub mtu: u64,
    /// The time since the neighbour was last confirmed.
    pub confirmed_ms: Option<u64>,
}

/// A multicast group that was joined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// The number of the port on which the group was joined.
    pub port: u16,
    /// The name of the port.
    pub dev: String,
    /// The group.
    pub group: IpAddr,
    /// The filter mode of RFC 3376: `INCLUDE` or `EXCLUDE`.
    pub mode: String,
    /// The sources that are included or excluded.
    pub sources: Vec<IpAddr>,
    /// Sockets that have joined the group.
    pub sockets: u64,
    /// The group is the solicited-node group of one of our addresses.
    pub solicited_node: bool,
    /// The protocol by which routers learn of the group, and its version on this link.
    pub protocol: String,
    /// The time until the next report about the group; `None` if none is to be sent.
    pub report_in_ms: Option<u64>,
}

/// The incomplete datagrams that are held, and the counters of fragments: the section `frag`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Fragments {
    /// Incomplete datagrams.
    pub datagrams_held: u64,
    /// Fragments of these datagrams.
    pub fragments_held: u64,
    /// The memory of these fragments.
    pub bytes_held: u64,
    /// The hosts and networks that the fragments came from.
    pub sources: u64,
    /// The time until the oldest datagram expires.
    pub next_timeout_ms: Option<u64>,
    /// Counters and drops, by name.
    #[serde(flatten)]
    pub counted: BTreeMap<String, u64>,
}

/// A limit: the section `limits` has one for each name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limited {
    /// The value of the limit.
    pub value: u64,
    /// How often the limit was reached.
    pub hits: u64,
}
