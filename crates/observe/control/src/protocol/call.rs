//! Calls of a client on sockets in a running stack.
//!
//! Called by: `nc` and `ping` ask, `observe` answers and trusts nothing in it: the kernel says
//! whose a socket is, not the call.

use core::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// A call of the stack; a socket is named by the number that [`Call::Open`] gave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Call {
    /// Open a socket: [`Called::socket`].
    Open(Kind),
    /// Send data as a datagram, an echo request, or bytes of a stream: [`Called::sent`].
    Send {
        /// The socket.
        socket: u64,
        /// To this host, if the socket is not connected.
        to: Option<SocketAddr>,
        /// The number of an echo request.
        seq: u16,
        /// In base64.
        data: String,
    },
    /// Receive all that came since the last call; for TCP `state` and `eof`, too. If nothing came,
    /// the answer may wait.
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
    /// In milliseconds.
    pub ms: u32,
    /// The state of the connection that the client knows: another state is an answer. Empty for
    /// other sockets.
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

/// The answer to a call; fields that do not belong to the call are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Called {
    /// The number of the socket that was opened.
    pub socket: Option<u64>,
    /// Bytes that were taken.
    pub sent: Option<u64>,
    /// When they were taken, by the stack's clock.
    pub at_ns: Option<u64>,
    /// Connections that were accepted.
    pub accepted: Vec<Accepted>,
    /// Answers to echo requests.
    pub echoes: Vec<Echo>,
    /// Datagrams.
    pub datagrams: Vec<Datagram>,
    /// Bytes of a stream, in base64.
    pub data: String,
    /// No more will come.
    pub eof: bool,
    /// The state of the connection; empty for other sockets.
    pub state: String,
    /// The error of the socket since the last call.
    pub error: Option<String>,
}

impl Called {
    /// Has nothing come?
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
    /// The number of its socket.
    pub socket: u64,
    /// The peer.
    pub from: Option<String>,
}

/// An answer to an echo request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Echo {
    /// The sender.
    pub from: IpAddr,
    /// The number of the request.
    pub seq: u16,
    /// The hops that it had left.
    pub ttl: u8,
    /// When it came, by the stack's clock.
    pub at_ns: u64,
    /// Bytes behind the ICMP header; `None`: an error was the answer.
    pub bytes: Option<u64>,
    /// That error.
    pub error: Option<String>,
}

/// A datagram that came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Datagram {
    /// The sender.
    pub from: SocketAddr,
    /// In base64.
    pub data: String,
}
