//! Limits of server and client.
//!
//! Called by: all files of the crate.

/// Bytes of a file handle (RFC 1813 section 2.4).
pub const HANDLE_BYTES: usize = 64;
/// Bytes of a name in a directory.
pub const NAME_BYTES: usize = 255;
/// Bytes of a path in a symbolic link, and of one that is mounted (RFC 1813 section 5.1.2).
pub const PATH_BYTES: usize = 1_024;
/// Bytes of a READ or a WRITE over TCP.
pub const TRANSFER_BYTES: u32 = 1 << 20;
/// Bytes of a READ or a WRITE over UDP at most, and those that a client should ask for.
pub const DATAGRAM_TRANSFER_BYTES: u32 = 32 << 10;
/// Bytes of a READ or a WRITE over UDP unless somebody asks for others: six fragments of Ethernet.
pub const DATAGRAM_TRANSFER: u32 = 8 << 10;
/// Bytes of a READ or of entries over UDP for an address that may be forged: the reply fits into
/// one packet of Ethernet.
pub const STRANGERS_TRANSFER: u32 = 1 << 10;
/// Addresses that are remembered because they have completed a MOUNT over TCP.
pub const CALLERS_MAX: usize = 4_096;
/// Bytes of the results of READ, READDIR or READDIRPLUS around data and entries.
pub const RESULTS_BYTES: u32 = 128;
/// A READ of this many bytes or more goes into a buffer of the stream if there is one; a smaller
/// one is copied as quickly.
pub const LENT_BYTES: usize = 16 << 10;
/// Bytes of an RPC record: a transfer, with headers and arguments.
pub const RECORD_BYTES: usize = TRANSFER_BYTES as usize + (64 << 10);
/// Bytes of a reply to READDIR or READDIRPLUS.
pub const LIST_BYTES: u32 = 128 << 10;
/// Files whose place a server remembers by their handle. The oldest unused ones are forgotten; if a
/// call names one again, the server searches for it.
pub const HANDLES_MAX: usize = 1 << 18;
/// Entries that a search for one file looks at.
pub const SEARCH_ENTRIES: usize = 1 << 20;
/// After this time a search ends in vain.
pub const SEARCH_AGE: base::Duration = base::Duration::from_secs(10);
/// After a search that has taken longer than this there is a pause as long as the search was.
pub const SEARCH_SHORT: base::Duration = base::Duration::from_millis(100);
/// How long a call waits for another's search, before it is answered with NFS3ERR_JUKEBOX.
pub const SEARCH_WAIT: base::Duration = base::Duration::from_millis(200);
/// Files that a server remembers not to have found anywhere.
pub const GONE_MAX: usize = 1 << 16;
/// How long a server remembers that a file was not found.
pub const GONE_AGE: base::Duration = base::Duration::from_secs(60);
/// Names of one directory that a listing holds at a time; in a longer directory, the next names are
/// read when a call asks for them.
pub const LISTING_NAMES: usize = 1 << 15;
/// Listings that a server keeps between calls.
pub const LISTINGS_MAX: usize = 8;
/// How long a listing is kept: files that were made since are not in it.
pub const LISTING_AGE: base::Duration = base::Duration::from_secs(30);
/// Directories between a file and the root.
pub const DEPTH_MAX: usize = 1_024;
/// Files that a server keeps open between calls.
pub const OPEN_FILES_MAX: usize = 128;
/// How long a file that nobody reads or writes is kept open, and up to a second more.
pub const OPEN_FILE_AGE: base::Duration = base::Duration::from_secs(5);
/// How long a READ assumes that an open file is still where it was; a WRITE checks each time.
pub const OPEN_FILE_CHECK: base::Duration = base::Duration::from_millis(10);
/// Locks for objects that are being changed.
pub const CHANGES: usize = 64;

/// READs or WRITEs that a client has in flight for one file.
pub const IN_FLIGHT: usize = 16;
/// Bytes of READs and WRITEs that a client has in flight over UDP: a socket of Linux has 208 KB for
/// datagrams that wait, and counts each of 8 KB as 17.
pub const DATAGRAM_IN_FLIGHT_BYTES: usize = 64 << 10;
/// Bytes of a READ or a WRITE that a client makes over TCP, unless the server wants fewer.
pub const CLIENT_TRANSFER: u32 = 256 << 10;
/// How long a client waits for a server that is away, and repeats its calls.
pub const PATIENCE: base::Duration = base::Duration::from_secs(60);
/// When the user is told that a server is away.
pub const AWAY: base::Duration = base::Duration::from_secs(1);
/// When the user is told that a server is silent: it may be writing to its disk.
pub const QUIET: base::Duration = base::Duration::from_secs(3);
/// How long a client waits for a server to remove an unfinished file.
pub const REMOVAL: base::Duration = base::Duration::from_secs(5);
/// Times that a file is written again because the server restarted meanwhile.
pub const RESTARTS: u32 = 8;
/// Entries of one directory that a client takes.
pub const ENTRIES_MAX: usize = 1 << 20;
