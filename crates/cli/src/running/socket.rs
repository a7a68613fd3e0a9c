//! Sockets of a running stack, as another program opens and uses them.
//!
//! Called by: `nc` and `ping` ask, `control_service/sockets.rs` answers and trusts nothing in it:
//! whose a socket is does not come from here but from the kernel.

use core::net::{IpAddr, SocketAddr};
use std::path::Path;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use wirespeed::Instant;
use wirespeed::control::Client;

use super::{Question, TIMEOUT, ask, find};

/// What is asked of the stack; a socket is named by the number that [`Call::Open`] gave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Call {
    /// Open one: `{ "socket": N }`.
    Open(Kind),
    /// Send data in base64, as a datagram, an echo request with a sequence number, or bytes of a
    /// stream: `{ "sent": BYTES, "at_ns": T }`. `to` is for those that are not connected.
    Send { socket: u64, to: Option<SocketAddr>, seq: u16, data: String },
    /// What came since: `data` with what belongs to it; of TCP `state` and `eof`, too.
    Receive { socket: u64 },
    /// No more will be sent by a connection.
    Shutdown { socket: u64 },
    /// Close it.
    Close { socket: u64 },
}

/// A kind of socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// Echo requests to a host.
    Ping { host: IpAddr },
    /// Datagrams, from and to `peer` alone if it is connected.
    Udp { local: SocketAddr, peer: Option<SocketAddr> },
    /// A connection.
    Connect { remote: SocketAddr },
    /// Connections to this port.
    Listen { local: SocketAddr },
}

/// A socket in a running stack.
pub(crate) struct Remote {
    client: Client,
    socket: u64,
}

impl Remote {
    /// Open one in the first stack of the program at this control socket, or of this process.
    ///
    /// # Errors
    /// [`wirespeed::control::ControlError`]; [`super::Refused`] with the program's reason.
    pub(crate) fn open(path: Option<&Path>, pid: Option<u32>, kind: Kind) -> Result<Remote> {
        let mut client = Client::connect(&find(path, pid)?, TIMEOUT)?;
        let question = Question::Socket { stack: 0, call: Call::Open(kind) };
        let opened = ask(&mut client, &question)?.body;
        let socket = opened["socket"].as_u64().context("the program gives no socket")?;
        Ok(Remote { client, socket })
    }

    /// One that a listener accepted, over the listener's connection.
    pub(crate) fn accepted(self, socket: u64) -> Remote {
        Remote { client: self.client, socket }
    }

    fn call(&mut self, call: Call) -> Result<Value> {
        Ok(ask(&mut self.client, &Question::Socket { stack: 0, call })?.body)
    }

    /// Send; returns how many bytes were taken, and when by the stack's clock.
    pub(crate) fn send(
        &mut self,
        to: Option<SocketAddr>,
        seq: u16,
        data: &[u8],
    ) -> Result<(usize, Instant)> {
        let (socket, data) = (self.socket, STANDARD.encode(data));
        let body = self.call(Call::Send { socket, to, seq, data })?;
        let number = |key: &str| body[key].as_u64().unwrap_or(0);
        Ok((number("sent") as usize, Instant::from_nanos(number("at_ns"))))
    }

    /// What came since.
    pub(crate) fn receive(&mut self) -> Result<Value> {
        self.call(Call::Receive { socket: self.socket })
    }

    /// No more will be sent.
    pub(crate) fn shutdown(&mut self) -> Result<()> {
        self.call(Call::Shutdown { socket: self.socket }).map(drop)
    }

    /// Close it.
    pub(crate) fn close(mut self) -> Result<()> {
        self.call(Call::Close { socket: self.socket }).map(drop)
    }
}

/// The bytes of a key's text.
pub(crate) fn bytes(row: &Value, key: &str) -> Vec<u8> {
    STANDARD.decode(row[key].as_str().unwrap_or_default()).unwrap_or_default()
}
