//! State and results of next-hop resolution: how packets to one destination leave ([`Egress`]),
//! which connections wait for a link address, and which neighbours are reachable because a
//! connection makes progress.
//!
//! Called by: `resolve.rs` and `neighbours.rs`, which change this state; sockets, which keep an
//! [`Egress`]. Forward progress of TCP confirms that a neighbour is reachable (RFC 4861 section
//! 7.3.1). The packet path does nothing for that: the progress of connections is noted when a
//! neighbour's DELAY begins, and compared when the DELAY ends. The limit `neighbours` bounds the
//! notes.

use std::collections::{BTreeMap, VecDeque};

use core::net::IpAddr;

use base::{DropReason, MacAddr, Mtu, PerSecond, SeqNumber};
use inet::HeaderTemplate;
use inet::neighbour::Key;
use mbuf::Mbuf;

use crate::connections::Connections;
use crate::handles::TcpHandle;

/// How packets to one destination leave: by which port, to which neighbour, with which headers.
#[derive(Clone)]
pub(crate) struct Egress {
    pub(crate) port: u16,
    pub(crate) neighbour: IpAddr,
    /// The largest packet that port, route and neighbour carry. The path may carry less.
    pub(crate) mtu: Mtu,
    pub(crate) template: HeaderTemplate,
    /// The template contains the neighbour's link address. If not, packets go to the pending queue.
    pub(crate) is_complete: bool,
    /// The destination is an IPv4 broadcast address.
    pub(crate) is_broadcast: bool,
}

/// Why no source address was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoSource {
    /// Nothing can be sent to the destination, for the named reason.
    Unreachable(DropReason),
    /// The port has no usable address of the destination's IP version.
    NoAddress,
}

/// The outcome of resolving a neighbour, with the packets that waited for its link address.
pub(crate) enum Outcome {
    /// The neighbour has this link address.
    Resolved(Key, MacAddr, VecDeque<Mbuf>),
    /// The neighbour does not answer, or its entry was removed from the table.
    Failed(Key, VecDeque<Mbuf>),
}

/// Waiting connections, and the rate limits of solicitations and advertisements.
#[derive(Default)]
pub(crate) struct Resolving {
    pub(crate) waiting: BTreeMap<Key, Vec<TcpHandle>>,
    pub(crate) solicitations: PerSecond,
    pub(crate) advertisements: PerSecond,
    /// Outcomes on which `neighbours.rs` has to act.
    pub(crate) outcomes: VecDeque<Outcome>,
    /// Timers are being handled: a neighbour that fails now did not answer. At other times a
    /// neighbour fails because its entry was removed.
    pub(crate) is_expiring: bool,
}

/// A connection, and its progress when the DELAY began.
pub(crate) type Note = (TcpHandle, (SeqNumber, SeqNumber));

/// The progress of connections when the DELAY of their neighbour began.
#[derive(Default)]
pub(crate) struct Progress {
    notes: BTreeMap<Key, Vec<Note>>,
}

impl Progress {
    /// Has a connection by way of neighbour `key` made progress since [`Progress::note`]?
    pub(crate) fn is_made(&self, key: Key, connections: &Connections) -> bool {
        let moved = |(handle, then): &Note| {
            // A connection that has moved to another port does not show whether this neighbour is
            // reachable.
            let pcb = connections.get(*handle).filter(|pcb| pcb.port == key.0);
            pcb.is_some_and(|pcb| pcb.tcb.progress() != *then)
        };
        self.notes.get(&key).is_some_and(|notes| notes.iter().any(moved))
    }

    /// Keep the progress of the connections by way of neighbour `key`, whose DELAY begins.
    pub(crate) fn note(&mut self, key: Key, notes: Vec<Note>) {
        self.notes.insert(key, notes);
    }

    /// Forget the notes of a neighbour whose entry was removed.
    pub(crate) fn forget(&mut self, key: Key) {
        self.notes.remove(&key);
    }
}
