//! What another program asks of the sockets of a running stack.
//!
//! Called by: `socket.rs` asks, `control_service/sockets.rs` answers and trusts nothing in it:
//! whose a socket is does not come from here but from the kernel.

use core::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// What is asked of the stack; a socket is named by the number that [`Call::Open`] gave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Call {
    /// Open one: `{ "socket": N }`.
    Open(Kind),
    /// Send data in base64, as a datagram, an echo request with a sequence number, or bytes of a
    /// stream: `{ "sent": BYTES, "at_ns": T }`. `to` is for those that are not connected.
    Send { socket: u64, to: Option<SocketAddr>, seq: u16, data: String },
    /// What came since: `data` with what belongs to it; of TCP `state` and `eof`, too. If nothing
    /// did, the answer may wait.
    Receive {
        socket: u64,
        #[serde(default)]
        wait: Option<Wait>,
    },
    /// No more will be sent by a connection.
    Shutdown { socket: u64 },
    /// Close it.
    Close { socket: u64 },
}

/// How long an answer may wait for something to come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wait {
    pub(crate) ms: u32,
    /// The state of the connection that the client knows: another one is news. Empty for others.
    #[serde(default)]
    pub(crate) seen: String,
}

/// A kind of socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// Echo requests to a host, which a port's link has if it is link-local.
    Ping {
        host: IpAddr,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        link: Option<String>,
    },
    /// Datagrams, from and to `peer` alone if it is connected.
    Udp {
        local: SocketAddr,
        peer: Option<SocketAddr>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        link: Option<String>,
    },
    /// A connection.
    Connect {
        remote: SocketAddr,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        link: Option<String>,
    },
    /// Connections to this port.
    Listen { local: SocketAddr },
}
