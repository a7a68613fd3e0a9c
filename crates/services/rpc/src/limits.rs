//! Limits of clients and servers. No message of a peer can make them keep more.
//!
//! Called by: all files of the crate. RFC 5531 has the first two; the others are ours.

use base::Duration;

/// Bytes in the body of a credential or verifier (RFC 5531 section 8.2).
pub const AUTH_BYTES_MAX: usize = 400;
/// Groups in an AUTH_SYS credential (RFC 5531 appendix A).
pub const GROUPS_MAX: usize = 16;
/// Bytes in the name of a machine in an AUTH_SYS credential (RFC 5531 appendix A).
pub const MACHINE_NAME_MAX: usize = 255;

/// Bytes of a record that is received, unless the user sets another limit.
pub const RECORD_BYTES: usize = 1 << 20;
/// Fragments of one record. More are of use only for an attack.
pub const FRAGMENTS_MAX: u32 = 4_096;
/// Bytes of a UDP datagram over IPv4 without options: 65,535 less the headers of IP and UDP.
pub const DATAGRAM_BYTES: usize = 65_507;
/// The unit in which buffers of records grow.
pub const BUFFER_UNIT: usize = 16_384;
/// Bytes at the beginning of a long call that are read and copied; the others stay in the buffers
/// that they arrived in. They hold a call's header with the longest credential and verifier, and
/// the arguments in front of data.
pub const HEAD_BYTES: usize = 2_048;
/// Bytes of calls that all connections of a server may leave in the buffers that they arrived in;
/// others are copied (`tasks`).
pub const ARRIVED_BYTES: usize = 8 << 20;

/// Bytes of unwritten replies of all connections of a server together (`tasks`). At this limit
/// replies are brief.
pub const REPLIES_BYTES: usize = 128 << 20;
/// Bytes of a brief reply, if the service has the choice: a READ of NFS then returns less.
pub const BRIEF_BYTES: usize = 16 << 10;
/// Bytes of unwritten brief replies of all connections together: 16 replies on each of 256
/// connections. With more connections, further calls wait.
pub const BRIEF_REPLIES_BYTES: usize = 64 << 20;
/// Bytes of long calls of all connections that wait for a server; further calls wait in the sockets
/// (`tasks`).
pub const CALLS_BYTES: usize = 64 << 20;

/// Calls of one client that wait for their reply; more are refused.
pub const CALLS_MAX: usize = 4_096;
/// Calls of a client that wait, unless the user sets another limit.
pub const CALLS: usize = 256;
/// How long a call may take, with all its retransmissions (libtirpc's `rpcinfo`: a minute).
pub const CALL_TIMEOUT: Duration = Duration::from_secs(25);
/// The first time-out over UDP while no round trip was measured (RFC 8085 section 3.1.1).
pub const RTO_INITIAL: Duration = Duration::from_secs(1);
/// The least difference between a time-out over UDP and the round trip: a server may read from a
/// disk.
pub const RTO_MIN: Duration = Duration::from_millis(50);
/// The longest time-out over UDP.
pub const RTO_MAX: Duration = Duration::from_secs(20);
/// Calls in flight over UDP before anything is known about the path.
pub const WINDOW_INITIAL: usize = 2;

/// Programs of one server, each with a range of versions.
pub const PROGRAMS_MAX: usize = 256;
/// Replies in the cache of a server over UDP; the oldest is evicted.
pub const DUPLICATES_MAX: usize = 1_024;
/// Bytes of replies in that cache; the oldest is evicted.
pub const DUPLICATE_BYTES: usize = 4 << 20;
/// How long a reply is kept for a repeated call: longer than clients repeat it.
pub const DUPLICATE_AGE: Duration = Duration::from_secs(120);
/// Bytes of unwritten replies of a connection to a server, or four records if that is less; at this
/// limit no more calls are read.
pub const REPLY_BYTES: usize = 4 << 20;
/// How long a record may take to arrive at a server, from its first byte on.
pub const HALF_RECORD: Duration = Duration::from_secs(30);
/// How long a connection to a server may be idle (the system's RPC servers: five minutes or six).
pub const IDLE: Duration = Duration::from_secs(360);
/// How long a peer may read none of the replies of a connection (`tasks`).
pub const STALL: Duration = Duration::from_secs(30);
/// Connections of a server at a time, unless the user sets another limit (`tasks`).
pub const CONNECTIONS: usize = 256;
/// Calls of one connection that are carried out, or whose replies are not written, unless the user
/// sets another limit (`tasks`).
pub const CONNECTION_CALLS: usize = 16;
/// Bytes of buffers that a client, or a pool of servers, keeps for the next calls and replies
/// (`tasks`).
pub const SPARE_BYTES: usize = 12 << 20;
/// How long a client waits for a connection (`tasks`).
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Mappings that a port mapper holds, of all transports.
pub const MAPPINGS_MAX: usize = 4_096;
/// Programs, versions and transports whose look-ups a port mapper counts.
pub const LOOKUPS_MAX: usize = 256;
/// Bytes of the path of a socket of this machine (unix(7)).
pub const PATH_MAX: usize = 107;
/// Bytes of a string in a message of the port mapper: network id, address, owner.
pub const STRING_MAX: usize = 128;
