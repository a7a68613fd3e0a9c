//! The rows of a stack's sections, but for connections and routes, which have files of their own.
//!
//! Called by: `observe` fills them, tools read them. Sizes are in bytes. `dev` is the name of a
//! port, `port` its number; a time that is `None` is for ever, or is not known.

use core::net::IpAddr;
use std::collections::BTreeMap;

use base::{Cidr, MacAddr};
use serde::{Deserialize, Serialize};

use super::as_text;

/// How much there is of everything: the section `stack`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// Ports.
    pub ports: u64,
    /// Connections, those that their users still hold after their end included.
    pub connections: u64,
    /// Records in TIME-WAIT.
    pub time_wait: u64,
    /// Connections in SYN-RECEIVED.
    pub half_open: u64,
    /// Listeners and UDP sockets.
    pub sockets: u64,
    /// Memory that the stack's buffers take.
    pub pool_bytes: u64,
    /// About how much of that is of buffers in use.
    pub pool_used_bytes: u64,
    /// Packets dropped so far.
    pub drops: u64,
    /// How checksums are computed on this processor.
    pub checksums: String,
    /// How the usual packet is forwarded.
    pub forwarding: String,
    /// Neighbours whose broadcast address is not ours, a line each.
    pub other_broadcasters: Vec<String>,
}

/// A port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Port {
    /// Its number.
    pub port: u16,
    /// Its name.
    pub name: String,
    /// The same, as other rows have it.
    pub dev: String,
    /// The header that its frames begin with: `ethernet` or `ip`.
    pub link: String,
    /// Its link address; `None` without Ethernet.
    #[serde(with = "as_text::option")]
    pub mac: Option<MacAddr>,
    /// The largest packet.
    pub mtu: u64,
    /// Its addresses, each with the length of its network's prefix.
    pub addresses: Vec<String>,
    /// The largest super-segment, 0 for none.
    pub tso_max_bytes: u64,
    /// Is the other end there?
    pub link_up: bool,
    /// Why frames do not pass.
    pub failure: Option<String>,
    /// Has the device refused frames, so that the stack waits for room?
    pub pushed_back: bool,
    /// For how long the device has taken nothing, once that is more than five seconds.
    pub stalled_ms: Option<u64>,
    /// The check of the sources of packets: `off`, `loose` or `strict`.
    pub source_check: String,
    /// Packets that the device lost, by reason, if it counts them by reason.
    pub drops: Option<BTreeMap<String, u64>>,
}

/// A listener or UDP socket. A field that its protocol does not have is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Socket {
    /// `tcp`, which is a listener, or `udp`.
    pub protocol: String,
    /// Where it is bound; `*` is every address.
    pub local: String,
    /// The peer of a connected UDP socket.
    pub remote: Option<String>,
    /// The user that it belongs to.
    pub uid: u32,
    /// The most connections that may wait to be accepted.
    pub backlog: Option<u64>,
    /// Handshakes under way.
    pub half_open: Option<u64>,
    /// Connections that wait to be accepted, or datagrams to be read.
    pub waiting: u64,
    /// Bytes of those datagrams.
    pub waiting_bytes: Option<u64>,
}

/// An address of the stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// The port that has it.
    pub port: u16,
    /// Its name.
    pub dev: String,
    /// The address with the length of its network's prefix.
    #[serde(with = "as_text")]
    pub address: Cidr,
    /// `preferred`, `tentative`, `deprecated` or `dadfailed`.
    pub state: String,
    /// Its origin: `static`, `dhcp`, `ra` and so on.
    pub origin: String,
    /// How long it is the source of new connections.
    pub preferred_ms: Option<u64>,
    /// How long it is there.
    pub valid_ms: Option<u64>,
}

/// A neighbour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbour {
    /// The port that it is on.
    pub port: u16,
    /// Its name.
    pub dev: String,
    /// Its address.
    pub address: IpAddr,
    /// Its link address; `None` while it is resolved.
    #[serde(with = "as_text::option")]
    pub mac: Option<MacAddr>,
    /// As `ip neigh` has it: `REACHABLE`, `STALE` and so on.
    pub state: String,
    /// The largest packet to send to it.
    pub mtu: u64,
    /// The time since it was confirmed last.
    pub confirmed_ms: Option<u64>,
}

/// A multicast group that was joined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// By this port.
    pub port: u16,
    /// Its name.
    pub dev: String,
    /// The group.
    pub group: IpAddr,
    /// `INCLUDE` or `EXCLUDE`, as RFC 3376 has it.
    pub mode: String,
    /// The sources that are included or excluded.
    pub sources: Vec<IpAddr>,
    /// Sockets that have joined it.
    pub sockets: u64,
    /// It belongs to one of our addresses.
    pub solicited_node: bool,
    /// The protocol by which routers learn of it, in the version that they speak.
    pub protocol: String,
    /// The time until the next message about it; `None` if none is to be sent.
    pub report_in_ms: Option<u64>,
}

/// The incomplete datagrams that are held, and the counters of fragments: the section `frag`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Fragments {
    /// Datagrams.
    pub datagrams_held: u64,
    /// Fragments.
    pub fragments_held: u64,
    /// Memory that they take.
    pub bytes_held: u64,
    /// Hosts and networks that they are from.
    pub sources: u64,
    /// The time until the oldest datagram expires.
    pub next_timeout_ms: Option<u64>,
    /// Counters and drops, by name.
    #[serde(flatten)]
    pub counted: BTreeMap<String, u64>,
}

/// A limit: the section `limits` has one by each name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limited {
    /// The most that there may be.
    pub value: u64,
    /// How often that was reached.
    pub hits: u64,
}
