//! The state of a stack, for users: small values that are copied. Tables that may be long are
//! returned a page at a time, so that listing a hundred thousand connections does not block the
//! stack.
//!
//! Called by: programs, to show it; between turns, never for a packet. A page begins where the one
//! before ended. Rows that are added or removed meanwhile may be missed.
//!
//! ```
//! # use wirespeed_stack as wirespeed;
//! use wirespeed::pair::{PairConfig, pair};
//!
//! let (end, _other) = pair(&PairConfig::new([1, 2]));
//! let sizes = end.stack.snapshot();
//! assert_eq!((sizes.ports, sizes.connections), (1, 0));
//! let mut cursor = Some(0);
//! while let Some(from) = cursor {
//!     let page = end.stack.routes_page(from, 100);
//!     for route in page.rows {
//!         println!("{:?} by {:?}", route.dest, route.via);
//!     }
//!     cursor = page.next;
//! }
//! ```

use core::net::{IpAddr, SocketAddr};

use base::{Drops, Duration, LinkKind, MacAddr, Mtu};
use inet::Vrf;
use inet::neighbour::{Row, State};
use inet::route::SourceCheck;
use inet::{Address, Route};
use slotmap::Key;
use tcp::Info;

use crate::connections::Pcb;
use crate::groups::GroupRow;
use crate::handles::PortId;
use crate::stack::Stack;

/// Part of a table.
#[derive(Clone, Debug)]
pub struct Page<T> {
    /// The rows of this part.
    pub rows: Vec<T>,
    /// The cursor of the next page; `None` after the last page.
    pub next: Option<u64>,
}

/// The sizes of a stack's tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Ports.
    pub ports: usize,
    /// Connections, including ended ones that their users still hold.
    pub connections: usize,
    /// Records in TIME-WAIT.
    pub time_wait: usize,
    /// Connections in SYN-RECEIVED.
    pub half_open: usize,
    /// Listeners and UDP sockets.
    pub sockets: usize,
    /// Neighbours.
    pub neighbours: usize,
    /// Routes.
    pub routes: usize,
    /// Bytes of memory that the stack's buffers take.
    pub pool_bytes: usize,
    /// About how many of these bytes belong to buffers in use.
    pub pool_used_bytes: usize,
    /// Packets dropped so far.
    pub drops: u64,
}

/// The fragments of incomplete datagrams that a stack keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FragmentsRow {
    /// Incomplete datagrams, including condemned ones whose later fragments are refused.
    pub datagrams: usize,
    /// Fragments held.
    pub fragments: usize,
    /// Bytes of the fragments' buffers.
    pub bytes: usize,
    /// Number of sources of these datagrams: IPv4 addresses, or IPv6 networks of 64 bits.
    pub sources: usize,
    /// Time until the oldest datagram is given up; `None` if there is none.
    pub next_timeout: Option<Duration>,
}

/// One port.
#[derive(Clone, Debug)]
pub struct PortRow {
    /// The port's number.
    pub id: PortId,
    /// The port's name: see [`Stack::port_name`].
    pub name: String,
    /// The kind of link header that the port's frames begin with.
    pub link: LinkKind,
    /// Our link address on this port.
    pub mac: MacAddr,
    /// The largest packet in bytes.
    pub mtu_bytes: usize,
    /// Our addresses.
    pub addresses: Vec<Address>,
    /// The largest super-segment in bytes, 0 for none.
    pub tso_max_bytes: usize,
    /// Is the link up, as far as the device knows?
    pub link_up: bool,
    /// Why frames do not pass: see [`Stack::port_trouble`].
    pub failure: Option<String>,
    /// Do frames wait for room in the device?
    pub pushed_back: bool,
    /// For how long the device has taken none of the frames offered to it, in ms, if that is more
    /// than five seconds. `None`: the device takes frames, or is merely full.
    pub stalled_ms: Option<u64>,
    /// How the sources of packets are checked: see [`Stack::set_source_check`].
    pub source_check: SourceCheck,
    /// The VRF of the port, and its name.
    pub vrf: Option<(Vrf, String)>,
    /// The frames that the device lost, by reason, if it counts them.
    pub drops: Option<Drops>,
}

/// One connection.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionRow {
    /// The connection's place in the table, at which a page may begin. Another connection may have
    /// the place later.
    pub number: u64,
    /// Our address and port.
    pub local: SocketAddr,
    /// The peer's address and port.
    pub remote: SocketAddr,
    /// The port that the connection leaves by.
    pub port: PortId,
    /// The user that the connection belongs to.
    pub uid: u32,
    /// Time since the connection's first SYN, at the stack's last known time.
    pub age: Duration,
    /// The connection's statistics.
    pub info: Info,
}

/// One listener or UDP socket.
#[derive(Clone, Copy, Debug)]
pub enum SocketRow {
    /// A listener.
    Listener {
        /// The address and port number that it listens on; `None` for every address.
        local: (Option<IpAddr>, u16),
        /// The user that the listener belongs to.
        uid: u32,
        /// Maximum of connections that are half open or wait to be accepted.
        backlog: usize,
        /// Connections that are half open.
        half_open: usize,
        /// Connections that wait to be accepted.
        waiting: usize,
    },
    /// A UDP socket.
    Udp {
        /// The address and port number that it is bound to; `None` for every address.
        local: (Option<IpAddr>, u16),
        /// The peer that the socket is connected to.
        peer: Option<SocketAddr>,
        /// The user that the socket belongs to.
        uid: u32,
        /// Received datagrams that wait to be read.
        waiting: usize,
        /// Bytes of memory that these datagrams take.
        waiting_bytes: usize,
    },
}

/// One of a port's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRow {
    /// The port.
    pub port: PortId,
    /// The address.
    pub address: Address,
}

/// One neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourRow {
    /// The port that the neighbour is on.
    pub port: PortId,
    /// The neighbour's IP address.
    pub ip: IpAddr,
    /// The neighbour's link address; `None` while it is being resolved.
    pub mac: Option<MacAddr>,
    /// The neighbour's state in neighbour discovery.
    pub state: State,
    /// The largest packet to send to the neighbour.
    pub mtu: Mtu,
    /// Time since the neighbour was last confirmed to be reachable; `None` if it never was.
    pub confirmed: Option<Duration>,
}

/// Returns at most `most` of the rows whose number is `cursor` or higher. The rows are numbered in
/// order.
fn page<T>(rows: impl Iterator<Item = (u64, T)>, cursor: u64, most: usize) -> Page<T> {
    let mut rows = rows.skip_while(|&(number, _)| number < cursor).peekable();
    let taken = rows.by_ref().take(most.max(1)).map(|(_, row)| row).collect();
    Page { rows: taken, next: rows.peek().map(|&(number, _)| number) }
}

/// The place of a handle in its table: a number below 2^32, in the order of the table.
fn place(handle: impl Key) -> u64 {
    handle.data().as_ffi() & u64::from(u32::MAX)
}

impl Stack {
    /// The sizes of the stack's tables, now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            ports: self.ports.iter().count(),
            connections: self.connections.len(),
            time_wait: self.connections.time_wait_count(),
            half_open: self.listeners.half_open.count(),
            sockets: self.listeners.len() + self.udp.len(),
            neighbours: self.neighbours.len(),
            routes: self.routes.len(),
            pool_bytes: self.core.cx.pool.held_bytes(),
            pool_used_bytes: self.core.cx.pool.in_use_bytes(),
            drops: self.core.drops.total(),
        }
    }

    /// The fragments of incomplete datagrams, now.
    pub fn fragments(&self) -> FragmentsRow {
        let deadline = self.frags.next_deadline();
        FragmentsRow {
            datagrams: self.frags.len(),
            fragments: self.frags.held(),
            bytes: self.frags.bytes(),
            sources: self.frags.sources(),
            next_timeout: (!self.frags.is_empty()).then(|| deadline.since(self.core.cx.now)),
        }
    }

    /// Ask each port's device whether frames pass, so that [`PortRow::link_up`] is current. Unless
    /// it is asked, a device notices a cut link only by frames that it could not send. This takes a
    /// system call for each port.
    pub fn check_links(&mut self) {
        for port in self.ports.iter_mut() {
            port.device.check_link();
        }
    }

    /// A page of the ports; begin with `cursor` 0. At most `most` rows, but at least one.
    pub fn ports_page(&self, cursor: u64, most: usize) -> Page<PortRow> {
        let now = self.core.cx.now;
        let rows = self.ports.iter().map(|port| {
            let row = PortRow {
                id: port.id,
                name: self.port_name(port.id),
                link: port.limits.link,
                mac: port.mac,
                mtu_bytes: port.limits.mtu.bytes(),
                addresses: port.addresses.clone(),
                tso_max_bytes: port.limits.offloads.tso_max_bytes,
                link_up: port.device.link_up(),
                failure: port.trouble(now),
                pushed_back: port.is_pushed_back(),
                stalled_ms: port.stalled(now).map(base::Duration::as_millis),
                source_check: port.source_check,
                vrf: self.vrf_name(port.vrf).map(|name| (port.vrf, name)),
                drops: port.device.drops().cloned(),
            };
            (u64::from(port.id.0), row)
        });
        page(rows, cursor, most)
    }

    /// A page of the connections; begin with `cursor` 0. At most `most` rows, but at least one.
    pub fn connections_page(&self, cursor: u64, most: usize) -> Page<ConnectionRow> {
        let rows = self.connections.iter().map(|(handle, pcb)| (place(handle), pcb));
        let Page { rows, next } = page(rows.map(|(at, pcb)| (at, (at, pcb))), cursor, most);
        let row = |(number, pcb)| self.connection_row(number, pcb);
        Page { rows: rows.into_iter().map(row).collect(), next }
    }

    /// The connections at these places of the table. `numbers` has to be sorted; connections that
    /// no longer exist are left out.
    pub fn connections_at(&self, numbers: &[u64]) -> Vec<ConnectionRow> {
        let rows = self.connections.iter().map(|(handle, pcb)| (place(handle), pcb));
        let wanted = rows.filter(|(number, _)| numbers.binary_search(number).is_ok());
        wanted.map(|(number, pcb)| self.connection_row(number, pcb)).collect()
    }

    fn connection_row(&self, number: u64, pcb: &Pcb) -> ConnectionRow {
        ConnectionRow {
            number,
            local: pcb.key.local(),
            remote: pcb.key.remote(),
            port: PortId(pcb.port),
            uid: pcb.owner.uid,
            age: self.core.cx.now.since(pcb.opened_at),
            info: pcb.tcb.info(),
        }
    }

    /// A page of the listeners, then of the UDP sockets; begin with `cursor` 0. At most `most`
    /// rows, but at least one.
    pub fn sockets_page(&self, cursor: u64, most: usize) -> Page<SocketRow> {
        let listeners = self.listeners.iter().map(|(handle, l)| {
            let row = SocketRow::Listener {
                local: l.local,
                uid: l.owner.uid,
                backlog: l.backlog,
                half_open: l.half_open.count(),
                waiting: l.accepted.len(),
            };
            (place(handle), row)
        });
        let datagrams = self.udp.iter().map(|(handle, socket)| {
            let row = SocketRow::Udp {
                local: socket.local,
                peer: socket.peer,
                uid: socket.owner.uid,
                waiting: socket.queue.len(),
                waiting_bytes: socket.queued_bytes,
            };
            (1 << 32 | place(handle), row)
        });
        page(listeners.chain(datagrams), cursor, most)
    }

    /// A page of the addresses of all ports; begin with `cursor` 0. At most `most` rows, but at
    /// least one.
    pub fn addresses_page(&self, cursor: u64, most: usize) -> Page<AddressRow> {
        let rows = self.ports.iter().flat_map(|port| {
            port.addresses.iter().map(|&address| AddressRow { port: port.id, address })
        });
        page((0..).zip(rows), cursor, most)
    }

    /// A page of the neighbours; begin with `cursor` 0. At most `most` rows, but at least one.
    pub fn neighbours_page(&self, cursor: u64, most: usize) -> Page<NeighbourRow> {
        let now = self.core.cx.now;
        let row = |row: Row| {
            let port = PortId(row.port);
            NeighbourRow {
                port,
                ip: row.ip,
                mac: row.mac,
                state: row.state,
                mtu: self.neighbour_mtu(port, row.ip).unwrap_or(Mtu::MIN_V4),
                confirmed: row.confirmed_at.map(|at| now.since(at)),
            }
        };
        let Page { rows, next } = page((0..).zip(self.neighbours.rows()), cursor, most);
        Page { rows: rows.into_iter().map(row).collect(), next }
    }

    /// A page of the groups that ports receive, because a socket has joined them or because they
    /// are the solicited-node groups of our addresses; begin with `cursor` 0. At most `most` rows,
    /// but at least one.
    pub fn groups_page(&self, cursor: u64, most: usize) -> Page<GroupRow> {
        page((0..).zip(self.group_rows()), cursor, most)
    }

    /// A page of the routes; begin with `cursor` 0. At most `most` rows, but at least one.
    pub fn routes_page(&self, cursor: u64, most: usize) -> Page<Route> {
        page((0..).zip(self.routes.iter()), cursor, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_hold_every_row_once() {
        let table: Vec<(u64, u64)> = (0..1000).filter(|n| n % 3 != 0).map(|n| (n, n)).collect();
        for most in [1, 7, 666, 667, 5000] {
            let (mut found, mut cursor) = (Vec::new(), Some(0));
            while let Some(at) = cursor {
                let page = page(table.iter().copied(), at, most);
                assert!(page.rows.len() <= most);
                found.extend(page.rows);
                cursor = page.next;
            }
            assert_eq!(found, table.iter().map(|&(_, row)| row).collect::<Vec<_>>(), "{most}");
        }
    }
}
