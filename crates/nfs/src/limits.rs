//! What server and client bound.
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
/// A READ of so many bytes is read into a buffer of the stream if there is one; less is as quickly
/// copied.
pub const LENT_BYTES: usize = 16 << 10;
/// Bytes of an RPC record: a transfer, and what is around it.
pub const RECORD_BYTES: usize = TRANSFER_BYTES as usize + (64 << 10);
/// Bytes of a reply to READDIR or READDIRPLUS.
pub const LIST_BYTES: u32 = 128 << 10;
/// Files of which a server knows by their handle where they are; the oldest that are not used are
/// forgotten, and their handles are answered with NFS3ERR_STALE.
pub const HANDLES_MAX: usize = 1 << 18;
/// Directories between a file and the root.
pub const DEPTH_MAX: usize = 1_024;
/// Files that a server keeps open between calls.
pub const OPEN_FILES_MAX: usize = 128;
/// How long a file that nobody reads or writes is kept open, and up to a second more.
pub const OPEN_FILE_AGE: base::Duration = base::Duration::from_secs(5);

/// READs or WRITEs that a client has in flight for one file.
pub const IN_FLIGHT: usize = 16;
/// Bytes of READs and WRITEs that a client has in flight over UDP: a socket of Linux has 208 KB for
/// datagrams that wait, and counts each of 8 KB as 17.
pub const DATAGRAM_IN_FLIGHT_BYTES: usize = 64 << 10;
/// Bytes of each over TCP, unless the server wants fewer.
pub const CLIENT_TRANSFER: u32 = 256 << 10;
/// Times that a call which changes nothing when it is repeated is made, if connections end.
pub const TRIES: u32 = 3;
/// Entries of one directory that a client takes.
pub const ENTRIES_MAX: usize = 1 << 20;
