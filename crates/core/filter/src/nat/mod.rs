//! Translation of addresses (NAT): mappings of inside endpoints to outside ones, the rewriting of
//! packets, and networks that are exchanged one to one.
//!
//! Called by: the table of states, which holds a mapping for each translated flow, and the stack,
//! which rewrites a packet when it leaves. A state has two tuples, one for each direction; the
//! translation of a packet gives it the reversed tuple of the other direction. RFC 4787, 5382,
//! 5508, 6888, 7857, 6296.

mod index;
pub mod mappings;
pub mod plain;
pub mod pool;
pub mod ports;
pub mod prefix;
pub mod quote;
pub mod rewrite;

#[cfg(test)]
mod samples;

pub use mappings::{InvalidPool, MappingRow, Mappings, NotPlaced};
pub use plain::{Delta, PlainV4, PlainV6};
pub use pool::{
    Addresses, BlockEvent, Filtering, HOLD, Inside, Mapped, MappingId, NatCounters, PORTS, Pool,
    PoolId, PoolUse, Refused, Request, Sockets, SourceReport,
};
pub use ports::Shards;
pub use prefix::{InvalidPrefix, OneToOne, Prefix};
pub use quote::{quoted_tuple, rewrite_error};
pub use rewrite::{Checksum, Options, identification, rewrite};
