//! Calls of a client on sockets in a running stack.
//!
//! Called by: `nc` and `ping`, which make calls; `observe`, which answers them and trusts nothing
//! in a call: the kernel, not the call, says who owns a socket.

use core::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// A call on the stack. A socket is named by the number that [`Call::Open`] returned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Call {
    /// Open a socket: [`Called::socket`].
    Open(Kind),
    /// Send data as a datagram, an echo request, or bytes of a stream: [`Called::sent`].
    Send {
        /// The socket.
        socket: u64,
        /// The destination, if the socket is not connected.
        to: Option<SocketAddr>,
        /// The sequence number of an echo request.
        seq: u16,
        /// The data in base64.
        data: String,
    },
    /// Receive everything that came since the last call; for TCP, `state` and `eof` as well. If
    /// nothing came, the answer may wait.
    Receive {
        /// The socket.
        socket: u64,
        /// How long the answer may wait.
        #[serde(default)]
        wait: Option<Wait>,
    },
    /// End the sending half of a connection.
    Shutdown {
        /// The socket.
        socket: u64,
    },
    /// Close a socket.
    Close {
        /// The socket.
        socket: u64,
    },
}

/// How long an answer may wait for something to come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// The time in milliseconds.
    pub ms: u32,
    /// The state of the connection that the client knows: the answer comes when the state differs.
    /// Empty for sockets other than TCP connections.
    #[serde(default)]
    pub seen: String,
}

/// A kind of socket. A `link` is the port of a link-local address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "addresses, as bind(2) and connect(2) have them")]
pub enum Kind {
    /// Echo requests to a host.
    Ping {
        host: IpAddr,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        link: Option<String>,
    },
    /// Datagrams; from and to `peer` only, if there is one.
    Udp {
        local: SocketAddr,
        peer: Option<SocketAddr>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        link: Option<String>,
    },
    /// A TCP connection to a host.
    Connect {
        remote: SocketAddr,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        link: Option<String>,
    },
    /// A listener for TCP connections to this port.
    Listen { local: SocketAddr },
}

/// The answer to a call. Fields that do not belong to the call are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Called {
    /// The number of the socket that was opened.
    pub socket: Option<u64>,
    /// The number of bytes that the socket took.
    pub sent: Option<u64>,
    /// When the socket took the bytes, by the stack's clock.
    pub at_ns: Option<u64>,
    /// Connections that were accepted.
    pub accepted: Vec<Accepted>,
    /// Answers to echo requests.
    pub echoes: Vec<Echo>,
    /// Datagrams.
    pub datagrams: Vec<Datagram>,
    /// Bytes of a stream, in base64.
    pub data: String,
    /// The peer has closed the stream: no more data will come.
    pub eof: bool,
    /// The state of the connection; empty for other sockets.
    pub state: String,
    /// The error that the socket had since the last call.
    pub error: Option<String>,
}

impl Called {
    /// Is there nothing in the answer?
    pub fn is_empty(&self) -> bool {
        self.accepted.is_empty()
            && self.echoes.is_empty()
            && self.datagrams.is_empty()
            && self.data.is_empty()
            && self.error.is_none()
            && !self.eof
    }
}

/// A connection that a listener accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// The number of the connection's socket.
    pub socket: u64,
    /// The peer.
    pub from: Option<String>,
}

/// An answer to an echo request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Echo {
    /// The sender.
    pub from: IpAddr,
    /// The sequence number of the request.
    pub seq: u16,
    /// The TTL or hop limit of the answer when it came.
    pub ttl: u8,
    /// When the answer came, by the stack's clock.
    pub at_ns: u64,
    /// The number of bytes after the ICMP header; `None` if the answer was an error.
    pub bytes: Option<u64>,
    /// The error, if the answer was one.
    pub error: Option<String>,
}

/// A datagram that came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Datagram {
    /// The sender.
    pub from: SocketAddr,
    /// The data in base64.
    pub data: String,
}
