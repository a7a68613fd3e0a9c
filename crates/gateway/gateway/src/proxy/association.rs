//! What a client's relay for datagrams has: its sockets, the hosts that may answer, names.
//!
//! Called by: `client.rs`, `datagrams.rs`.

use core::net::SocketAddr;
use std::collections::{BTreeMap, VecDeque};

use base::Instant;

use super::ids::LegId;
use super::lookup::Lookup;
use crate::outside::Ends;
use crate::report::{End, Protocol, Report};

/// A socket.
pub(super) struct Socket<S> {
    pub(super) socket: S,
    pub(super) leg: LegId,
}

/// A host to which a client has sent something.
pub(super) struct Peer {
    /// Where its address leads.
    pub(super) to: SocketAddr,
    pub(super) since: Instant,
    pub(super) bytes_up: u64,
    pub(super) bytes_down: u64,
}

/// A relay for datagrams.
pub(super) struct Association<S> {
    pub(super) relay: Socket<S>,
    /// The client's address; its port is 0 before its first datagram.
    pub(super) client: SocketAddr,
    /// For IPv4 and for IPv6.
    pub(super) outer: [Option<Socket<S>>; 2],
    pub(super) peers: BTreeMap<SocketAddr, Peer>,
    pub(super) lookups: VecDeque<Lookup>,
    pub(super) next: u32,
    pub(super) held: VecDeque<(u32, u16, Vec<u8>)>,
}

impl<S> Association<S> {
    /// A name that is looked up, by its number.
    pub(super) fn lookup(&mut self, number: u32) -> Option<&mut Lookup> {
        self.lookups.iter_mut().find(|lookup| lookup.number == number)
    }

    /// What the log hears of its flows.
    pub(super) fn reports(&self, end: End) -> Vec<Report> {
        let of = |(&remote, peer): (&SocketAddr, &Peer)| {
            let &Peer { since, bytes_up, bytes_down, .. } = peer;
            let ends = Ends { guest: self.client, remote };
            Report { protocol: Protocol::Udp, ends, end, since, bytes_up, bytes_down }
        };
        self.peers.iter().map(of).collect()
    }
}
