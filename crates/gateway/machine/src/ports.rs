//! The table of published ports.
//!
//! Called by: `machine.rs`, which has it; `publishing.rs`, which changes it; `turns.rs`, when a
//! client has connected.

use std::net::SocketAddr;

use ::gateway::Token;
use outside::ListenerId;

use super::publish::Published;

/// All published ports.
#[derive(Debug, Default)]
pub(super) struct Ports {
    pub(super) all: Vec<Port>,
    /// The number that was given last.
    pub(super) last: u64,
}

/// A published port: one socket.
#[derive(Debug)]
pub(super) struct Port {
    /// Its number, which no other one has had. The sockets of one request have the same.
    pub(super) id: u64,
    /// The address and the port of the host.
    pub(super) at: SocketAddr,
    pub(super) what: Published,
    pub(super) open: Open,
}

/// What is open for it.
#[derive(Debug)]
pub(super) enum Open {
    Tcp(ListenerId),
    Udp(Token),
}

impl Ports {
    /// Where a listener leads.
    pub(super) fn of(&self, listener: ListenerId) -> Option<&Published> {
        let is_it = |port: &&Port| matches!(port.open, Open::Tcp(id) if id == listener);
        self.all.iter().find(is_it).map(|port| &port.what)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Port> {
        self.all.iter()
    }
}
