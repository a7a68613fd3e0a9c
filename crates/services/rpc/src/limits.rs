//! Limits of clients and servers. Messages from a peer cannot make them keep more than this.
//!
//! Called by: all files of the crate. The first three limits are those of RFC 5531; the others are
//! ours.

use base::Duration;

/// Bytes in the body of a credential or verifier (RFC 5531 section 8.2).
pub const AUTH_BYTES_MAX: usize = 400;
/// Groups in an AUTH_SYS credential (RFC 5531 appendix A).
pub const GROUPS_MAX: usize = 16;
/// Bytes in the name of a machine in an AUTH_SYS credential (RFC 5531 appendix A).
pub const MACHINE_NAME_MAX: usize = 255;

/// Bytes of a received record, unless the user sets another limit.
pub const RECORD_BYTES: usize = 1 << 20;
/// Fragments of one record. Only an attacker would send more.
pub const FRAGMENTS_MAX: u32 = 4_096;
/// Bytes of a UDP datagram over IPv4 without options: 65,535 less the headers of IP and UDP.
pub const DATAGRAM_BYTES: usize = 65_507;
/// The unit in which the buffers of records grow, in bytes.
pub const BUFFER_UNIT: usize = 16_384;
/// How many bytes at the beginning of a long call are read and copied; the rest stays in the
/// buffers in which it arrived. These bytes hold a call's header with the longest credential and
/// verifier, and the arguments in front of the data.
pub const HEAD_BYTES: usize = 2_048;
/// Bytes of calls that a server leaves in the buffers in which they arrived, over all its
/// connections. Beyond this, calls are copied (`tasks`).
pub const ARRIVED_BYTES: usize = 8 << 20;

/// Bytes of unwritten replies over all connections of a server (`tasks`). At this limit replies are
/// brief.
pub const REPLIES_BYTES: usize = 128 << 20;
/// Bytes of a brief reply, if the service can choose: for example, a READ of NFS then returns less.
pub const BRIEF_BYTES: usize = 16 << 10;
/// Bytes of unwritten brief replies over all connections: 16 replies on each of 256 connections.
/// With more connections, further calls wait.
pub const BRIEF_REPLIES_BYTES: usize = 64 << 20;
/// Bytes of long calls that wait for a free server, over all connections. Further calls stay in the
/// sockets (`tasks`).
pub const CALLS_BYTES: usize = 64 << 20;

/// The most calls of one client that may wait for their replies; more are refused.
pub const CALLS_MAX: usize = 4_096;
/// How many calls of a client may wait, unless the user sets another limit.
pub const CALLS: usize = 256;
/// How long a call may take, with all its retransmissions (`rpcinfo` of libtirpc allows a minute).
pub const CALL_TIMEOUT: Duration = Duration::from_secs(25);
/// The first time-out over UDP, as long as no round trip was measured (RFC 8085 section 3.1.1).
pub const RTO_INITIAL: Duration = Duration::from_secs(1);
/// By how much a time-out over UDP exceeds the round trip at least: a server may have to read from
/// a disk.
pub const RTO_MIN: Duration = Duration::from_millis(50);
/// The longest time-out over UDP.
pub const RTO_MAX: Duration = Duration::from_secs(20);
/// Calls in flight over UDP before anything is known about the path.
pub const WINDOW_INITIAL: usize = 2;

/// Programs of one server, each with a range of versions.
pub const PROGRAMS_MAX: usize = 256;
/// Replies in the duplicate cache of a server over UDP; the oldest is evicted.
pub const DUPLICATES_MAX: usize = 1_024;
/// Bytes of the replies in the duplicate cache; the oldest reply is evicted.
pub const DUPLICATE_BYTES: usize = 4 << 20;
/// How long a reply is kept in case the call is repeated: longer than clients repeat calls.
pub const DUPLICATE_AGE: Duration = Duration::from_secs(120);
/// Bytes of unwritten replies of one connection to a server, or four records if that is less. At
/// this limit no more calls are read.
pub const REPLY_BYTES: usize = 4 << 20;
/// How long a record may take to arrive at a server, from its first byte on.
pub const HALF_RECORD: Duration = Duration::from_secs(30);
/// How long a connection to a server may be idle (the RPC servers of Linux: five or six minutes).
pub const IDLE: Duration = Duration::from_secs(360);
/// A connection is ended if its peer reads none of the replies for this long (`tasks`).
pub const STALL: Duration = Duration::from_secs(30);
/// Connections of a server at a time, unless the user sets another limit (`tasks`).
pub const CONNECTIONS: usize = 256;
/// Calls of one connection that are being carried out or whose replies are not written yet, unless
/// the user sets another limit (`tasks`).
pub const CONNECTION_CALLS: usize = 16;
/// Bytes of unused buffers that a client, or a pool of servers, keeps for later calls and replies
/// (`tasks`).
pub const SPARE_BYTES: usize = 12 << 20;
/// How long a client waits until a connection is made (`tasks`).
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Mappings that a port mapper holds, over all transports.
pub const MAPPINGS_MAX: usize = 4_096;
/// Combinations of program, version and transport for which a port mapper counts look-ups.
pub const LOOKUPS_MAX: usize = 256;
/// Bytes of the path of a Unix socket (unix(7)).
pub const PATH_MAX: usize = 107;
/// Bytes of a string in a message of the port mapper: network id, address, owner.
pub const STRING_MAX: usize = 128;
