//! Limits of the server and the client. Each is a maximum unless its comment says otherwise.
//!
//! Called by: all files of the crate.

/// Bytes of a file handle (RFC 1813 section 2.4).
pub const HANDLE_BYTES: usize = 64;
/// Bytes of a name in a directory.
pub const NAME_BYTES: usize = 255;
/// Bytes of the path in a symbolic link, and of a mounted path (RFC 1813 section 5.1.2).
pub const PATH_BYTES: usize = 1_024;
/// Bytes of a READ or a WRITE over TCP.
pub const TRANSFER_BYTES: u32 = 1 << 20;
/// The most bytes of a READ or a WRITE over UDP. The server also tells its clients to prefer this
/// size.
pub const DATAGRAM_TRANSFER_BYTES: u32 = 32 << 10;
/// Bytes of a client's READ or WRITE over UDP by default: six fragments on Ethernet.
pub const DATAGRAM_TRANSFER: u32 = 8 << 10;
/// The most bytes of a READ, or of directory entries, over UDP if the caller's address may be
/// forged. The reply then fits into one Ethernet packet.
pub const STRANGERS_TRANSFER: u32 = 1 << 10;
/// Addresses that a server remembers because they have completed a MOUNT over TCP.
pub const CALLERS_MAX: usize = 4_096;
/// Bytes of the results of READ, READDIR or READDIRPLUS in addition to the data or the entries.
pub const RESULTS_BYTES: u32 = 128;
/// The data of a READ with at least this many bytes is read into a buffer of the stream, if there
/// is one. For a smaller READ a copy is as fast.
pub const LENT_BYTES: usize = 16 << 10;
/// Bytes of an RPC record, which holds one transfer with headers and arguments.
pub const RECORD_BYTES: usize = TRANSFER_BYTES as usize + (64 << 10);
/// Bytes of a reply to READDIR or READDIRPLUS.
pub const LIST_BYTES: u32 = 128 << 10;
/// Files that a server remembers, by handle, with the directory and name where they were found. The
/// entries that were unused for the longest time are forgotten. If a call names a forgotten file,
/// the server searches for it.
pub const HANDLES_MAX: usize = 1 << 18;
/// How many entries a search for one file may look at.
pub const SEARCH_ENTRIES: usize = 1 << 20;
/// A search that takes longer than this ends without a result.
pub const SEARCH_AGE: base::Duration = base::Duration::from_secs(10);
/// If a search took longer than this, no other search begins for as long as it took.
pub const SEARCH_SHORT: base::Duration = base::Duration::from_millis(100);
/// How long a call waits for another call's search, before it is answered with NFS3ERR_JUKEBOX.
pub const SEARCH_WAIT: base::Duration = base::Duration::from_millis(200);
/// Files of which a server remembers that no search found them.
pub const GONE_MAX: usize = 1 << 16;
/// How long a server remembers that a file was not found.
pub const GONE_AGE: base::Duration = base::Duration::from_secs(60);
/// Names of one directory that a listing holds at a time. For a directory with more names, the next
/// ones are read when a call asks for them.
pub const LISTING_NAMES: usize = 1 << 15;
/// How many listings a server keeps between calls.
pub const LISTINGS_MAX: usize = 8;
/// How long a listing is kept. Files that are made in the meantime do not appear in it.
pub const LISTING_AGE: base::Duration = base::Duration::from_secs(30);
/// Directories between a file and the root.
pub const DEPTH_MAX: usize = 1_024;
/// Files that a server keeps open between calls.
pub const OPEN_FILES_MAX: usize = 128;
/// A file that nobody reads or writes is closed after this time, at most a second later.
pub const OPEN_FILE_AGE: base::Duration = base::Duration::from_secs(5);
/// For how long a READ assumes that an open file is still at the same path. A WRITE checks each
/// time.
pub const OPEN_FILE_CHECK: base::Duration = base::Duration::from_millis(10);
/// Number of locks for objects that are being changed.
pub const CHANGES: usize = 64;

/// READs or WRITEs that a client has in flight for one file.
pub const IN_FLIGHT: usize = 16;
/// Bytes of READs and WRITEs that a client has in flight over UDP. A socket of Linux has 208 KB for
/// datagrams that wait, and counts a datagram of 8 KB as 17 KB.
pub const DATAGRAM_IN_FLIGHT_BYTES: usize = 64 << 10;
/// Bytes of a READ or a WRITE that a client makes over TCP, unless the server prefers fewer.
pub const CLIENT_TRANSFER: u32 = 256 << 10;
/// For how long a client repeats its calls to a server that does not answer.
pub const PATIENCE: base::Duration = base::Duration::from_secs(60);
/// The user is notified after this time if the server cannot be reached.
pub const AWAY: base::Duration = base::Duration::from_secs(1);
/// The user is notified after this time if the server is silent. A silent server may be writing to
/// its disk.
pub const QUIET: base::Duration = base::Duration::from_secs(3);
/// How long a client waits until a server has removed an unfinished file.
pub const REMOVAL: base::Duration = base::Duration::from_secs(5);
/// How many times a file is written again because the server restarted in the meantime.
pub const RESTARTS: u32 = 8;
/// Entries of one directory that a client reads.
pub const ENTRIES_MAX: usize = 1 << 20;
