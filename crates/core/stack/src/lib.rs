//! One shard of a host: the only crate that joins all layers. [`Stack`] owns its ports, its
//! connections and its buffers; it has no lock and no thread, reads no clock and draws no random
//! number.
//!
//! Called by: programs (the polled API: `poll`, then reads and writes), `net`, `sim`.
//! The receive path is `rx.rs`, the transmit path `tx.rs`: read these two first.
//!
//! # Per shard, and published to all
//!
//! Per shard: connections, listeners' queues, timers, buffers, counters, ports' queues. Published
//! by the first shard (`shard.rs`): addresses, permanent neighbours, switches; routes are looked up
//! in one FIB. A single stack does not share any of this.

mod addresses;
mod arp;
mod autoconf;
mod bare;
mod change;
mod clock;
mod config;
mod connections;
mod extension;
mod flow_cache;
mod flows;
mod follow;
mod for_us;
mod foreign;
mod forward;
mod frag;
mod groups;
mod handles;
mod icmp;
mod icmp_redirect;
#[cfg(feature = "internals")]
pub mod internals;
mod learned;
mod local;
mod loopback;
mod macs;
mod mtu;
mod nd;
mod neighbours;
mod next_hop;
mod no_connection;
mod pace;
pub mod pair;
mod poll;
mod port;
mod proxy;
mod punt;
mod release;
mod reroute;
mod resolve;
mod resolving;
mod routes;
mod rx;
pub mod shard;
mod shared;
pub mod snapshot;
mod socket;
mod stack;
mod stamp;
mod taps;
mod timers;
mod trim;
mod tx;
mod vrf;

pub use addresses::{AddressError, check_address, is_destination};
pub use autoconf::{AutoConfig, AutoconfError, AutoconfStatus, Progress};
pub use clock::VirtualClock;
pub use config::{Foreign, IpSettings, MtuDiscovery, PortConfig, StackConfig};
pub use foreign::{ForeignDatagram, ForeignError, ForeignFlow, ForeignKind, RouterSolicitation};
pub use groups::{GroupError, GroupRow, MulticastOptions, SourceChange};
pub use handles::{Event, ListenerHandle, PingHandle, PortId, RequestHandle, TcpHandle, UdpHandle};
pub use inet::address::{Address, AddressState, Origin};
/// Searching for the path MTU in a protocol above UDP (RFC 8899).
pub use inet::dplpmtud;
/// The sources from which a socket receives a group.
pub use inet::group::{Filter as SourceFilter, Mode as FilterMode};
/// Why a packet did not arrive.
pub use inet::icmp::{ErrorKind, Unreachable};
pub use inet::neighbour::State as NeighbourState;
/// Routes, as [`Stack::add_route`] takes them.
pub use inet::route;
pub use inet::router::Router;
pub use inet::slaac::Identifiers;
pub use inet::{Route, RouteOrigin, Vrf};
pub use learned::{RefusedRoute, RouteRefusal};
pub use local::{BroadcastForm, OtherBroadcaster};
pub use macs::PortMacError;
pub use mtu::MtuError;
pub use pace::{GAP_MAX, GapError};
pub use port::{Armed, Awaited, Forwarded, MitigationError, ReplaceError};
pub use punt::{MirrorError, PuntClass, PuntConfig, Punted};
pub use routes::{FibFound, FibQuery, FibResult};
pub use socket::EPHEMERAL_PORTS;
pub use socket::listener::{FastOpenConfig, ListenConfig};
pub use socket::loan::Loan;
pub use socket::open::{ConnectError, FastConnect, ListenError};
pub use socket::options::Follows;
pub use socket::ping::{Echo, EchoError};
pub use socket::udp::{Datagram, SEGMENTS_MAX, UdpError, UdpErrorReport, UdpOptions, UdpReceived};
pub use stack::Stack;
pub use taps::TapId;
pub use tcp::usrreq::CallError;

#[cfg(test)]
mod tests;
