//! A listener or UDP socket, as `show sockets` has it.
//!
//! Called by: `observe` fills it, tools read it.

use serde::{Deserialize, Serialize};

/// A socket. What its protocol does not have is `None`.
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
