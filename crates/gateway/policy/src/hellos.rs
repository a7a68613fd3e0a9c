//! The server names in the hellos of QUIC connections.
//!
//! Called by: `flows`, for datagrams of flows whose rule asks for the name. A hello may take
//! several packets, in any order: the packets of a connection are held back until its hello is
//! complete and its name is allowed. After that they pass, and so does what belongs to no new
//! connection. Limits: [`FLOWS_MAX`] flows, [`CONNECTIONS_MAX`] connections of each, [`BYTES_MAX`]
//! bytes of a hello.

use std::collections::{BTreeMap, HashMap, VecDeque};

use gateway::Ends;

use crate::hello::{self, BYTES_MAX, Seen};
use crate::quic::{ConnectionId, Initial, initials, is_long, is_of_unknown_version};

/// Flows whose connections are remembered; the oldest makes room, and its next connection is judged
/// as the first one was.
const FLOWS_MAX: usize = 1_024;
/// Connections of a flow at a time.
const CONNECTIONS_MAX: usize = 4;
/// Parts of a hello that wait for those before them.
const PARTS_MAX: usize = 64;

/// What a datagram is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Datagram {
    /// No beginning of a connection that was not judged already.
    Other {
        /// A connection of this flow was allowed.
        is_known: bool,
    },
    /// A packet of a version that cannot be read.
    Unknown,
    /// A hello that is not complete.
    Incomplete,
    /// A complete one of this connection.
    Hello(ConnectionId, Seen),
}

/// A hello in parts.
#[derive(Debug)]
struct Connection {
    id: ConnectionId,
    /// Its first bytes.
    bytes: Vec<u8>,
    /// Parts behind them.
    parts: BTreeMap<u64, Vec<u8>>,
    is_allowed: bool,
}

impl Connection {
    /// Take parts; false if they are too many.
    fn take(&mut self, parts: Vec<(u64, Vec<u8>)>) -> bool {
        for (offset, part) in parts {
            if offset.saturating_add(part.len() as u64) > BYTES_MAX as u64 {
                return false;
            }
            let known = self.parts.entry(offset).or_default();
            if known.len() < part.len() {
                *known = part;
            }
        }
        while let Some(first) = self.parts.first_entry()
            && *first.key() <= self.bytes.len() as u64
        {
            let (offset, part) = first.remove_entry();
            let known = self.bytes.len() - offset as usize;
            self.bytes.extend(part.get(known..).unwrap_or(&[]));
        }
        self.parts.len() <= PARTS_MAX
    }
}

/// The connections of all flows.
#[derive(Debug, Default)]
pub(crate) struct Hellos {
    flows: HashMap<Ends, Vec<Connection>>,
    /// By age; some are gone.
    order: VecDeque<Ends>,
}

impl Hellos {
    /// What a datagram of this flow is.
    pub(crate) fn see(&mut self, ends: &Ends, datagram: &[u8]) -> Datagram {
        let is_known = |flow: &Vec<Connection>| flow.iter().any(|one| one.is_allowed);
        let mut seen = Datagram::Other { is_known: self.flows.get(ends).is_some_and(is_known) };
        if !is_long(datagram) {
            return seen;
        }
        if is_of_unknown_version(datagram) {
            return Datagram::Unknown;
        }
        for Initial { id, crypto } in initials(datagram) {
            let connection = self.connection(ends, id);
            if connection.is_allowed {
                continue;
            }
            let fits = connection.take(crypto);
            seen = match hello::read_message(&connection.bytes) {
                _ if !fits => Datagram::Hello(id, Seen::Malformed),
                Seen::Incomplete => Datagram::Incomplete,
                complete => return Datagram::Hello(id, complete),
            };
        }
        seen
    }

    /// The name of a connection is allowed.
    pub(crate) fn allow(&mut self, ends: &Ends, id: ConnectionId) {
        let connection = self.connection(ends, id);
        connection.is_allowed = true;
        (connection.bytes, connection.parts) = (Vec::new(), BTreeMap::new());
    }

    /// The flow has ended.
    pub(crate) fn forget(&mut self, ends: &Ends) {
        self.flows.remove(ends);
    }

    fn connection(&mut self, ends: &Ends, id: ConnectionId) -> &mut Connection {
        if !self.flows.contains_key(ends) {
            while self.flows.len() >= FLOWS_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.flows.remove(&oldest);
            }
            // Those of flows that ended are not more than those that are there.
            if self.order.len() > 2 * FLOWS_MAX {
                let flows = &self.flows;
                self.order.retain(|ends| flows.contains_key(ends));
            }
            self.order.push_back(*ends);
        }
        let flow = self.flows.entry(*ends).or_default();
        let at = flow.iter().position(|one| one.id == id).unwrap_or_else(|| {
            if flow.len() == CONNECTIONS_MAX {
                flow.remove(0);
            }
            let (bytes, parts) = (Vec::new(), BTreeMap::new());
            flow.push(Connection { id, bytes, parts, is_allowed: false });
            flow.len() - 1
        });
        &mut flow[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hello::tests::hello;
    use crate::quic::tests::{ID, frame, seal};

    fn ends(port: u16) -> Ends {
        let guest = ([10, 0, 2, 100], port).into();
        Ends { guest, remote: ([192, 0, 3, 1], 443).into() }
    }

    /// A hello without its record's header.
    fn message(name: &str) -> Vec<u8> {
        hello(name)[5..].to_vec()
    }

    fn name(seen: &Datagram) -> Option<String> {
        match seen {
            Datagram::Hello(_, Seen::Hello(Some(name))) => Some(name.to_string()),
            _ => None,
        }
    }

    #[test]
    fn a_hello_is_read_from_its_packets_in_any_order() {
        let bytes = message("www.example.test");
        let (first, last) = bytes.split_at(40);
        let packets = [
            seal(&ID, 0, &frame(0, first)),
            seal(&ID, 1, &[frame(60, &last[20..]), frame(40, &last[..30])].concat()),
        ];
        for order in [[0, 1], [1, 0]] {
            let mut hellos = Hellos::default();
            let other = Datagram::Other { is_known: false };
            assert_eq!(hellos.see(&ends(1), b"no quic"), other);
            assert_eq!(hellos.see(&ends(1), &[0xc0, 0xff, 0, 0, 29]), Datagram::Unknown);
            assert_eq!(hellos.see(&ends(1), &packets[order[0]]), Datagram::Incomplete);
            assert_eq!(hellos.see(&ends(2), &packets[order[1]]), Datagram::Incomplete);
            let seen = hellos.see(&ends(1), &packets[order[1]]);
            assert_eq!(name(&seen).as_deref(), Some("www.example.test"));
            let Datagram::Hello(id, _) = seen else { panic!("a hello") };
            hellos.allow(&ends(1), id);
            let known = Datagram::Other { is_known: true };
            assert_eq!(hellos.see(&ends(1), &packets[0]), known, "it comes again");
            // Another connection of the same flow is judged for itself.
            let second = seal(b"12345678", 0, &frame(0, &message("other.test")));
            assert_eq!(name(&hellos.see(&ends(1), &second)).as_deref(), Some("other.test"));
            hellos.forget(&ends(1));
            assert_eq!(hellos.see(&ends(1), &[0x40, 1, 2]), other);
        }
    }

    #[test]
    fn hostile_guests_are_bounded() {
        let mut hellos = Hellos::default();
        for port in 0..5_000 {
            let packet = seal(&[port as u8; 8], 0, &frame(1, b"x"));
            assert_eq!(hellos.see(&ends(port), &packet), Datagram::Incomplete);
        }
        assert!(hellos.flows.len() <= FLOWS_MAX && hellos.order.len() <= 2 * FLOWS_MAX + 1);
        for id in 0..20 {
            hellos.see(&ends(1), &seal(&[id; 8], 0, &frame(1, b"x")));
        }
        assert_eq!(hellos.flows[&ends(1)].len(), CONNECTIONS_MAX);
        let is_refused = |seen: Datagram| matches!(seen, Datagram::Hello(_, Seen::Malformed));
        let far = seal(&ID, 0, &frame(BYTES_MAX - 4, b"too far"));
        assert!(is_refused(hellos.see(&ends(9), &far)));
        let seen = (0..200_usize)
            .map(|n| hellos.see(&ends(8), &seal(&ID, n as u8, &frame(2 + 2 * n, b"x"))));
        assert!(seen.into_iter().any(is_refused), "holes without end");
        assert!(is_refused(hellos.see(&ends(7), &seal(&ID, 0, &frame(0, b"no client hello")))));
    }
}
