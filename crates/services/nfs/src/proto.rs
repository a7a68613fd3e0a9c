//! NFS version 3 on the wire (RFC 1813 section 2 and 3).
//!
//! Called by: `server`, `client`. The names are ours; each comment gives the RFC's name. Handles
//! are copied; names and data are borrowed from the message.

mod status;

use rpc::xdr::{Bytes, Decode, DecodeError, Decoder, Encode, Opaque};

use crate::limits::HANDLE_BYTES;
pub use status::Status;

/// The number of the RPC program.
pub const PROGRAM: u32 = 100_003;
/// Its version.
pub const VERSION: u32 = 3;
/// Its port, for UDP and TCP.
pub const PORT: u16 = 2_049;

/// Procedures (NFSPROC3).
pub mod procedure {
    /// The attributes of a file.
    pub const GETATTR: u32 = 1;
    /// Set attributes of a file.
    pub const SETATTR: u32 = 2;
    /// Find the file with a name in a directory.
    pub const LOOKUP: u32 = 3;
    /// Check the caller's rights.
    pub const ACCESS: u32 = 4;
    /// The target of a symbolic link.
    pub const READLINK: u32 = 5;
    /// Read data of a file.
    pub const READ: u32 = 6;
    /// Write data of a file.
    pub const WRITE: u32 = 7;
    /// Make a file.
    pub const CREATE: u32 = 8;
    /// Make a directory.
    pub const MKDIR: u32 = 9;
    /// Make a symbolic link.
    pub const SYMLINK: u32 = 10;
    /// Make a device, a socket or a FIFO.
    pub const MKNOD: u32 = 11;
    /// Remove a file.
    pub const REMOVE: u32 = 12;
    /// Remove a directory.
    pub const RMDIR: u32 = 13;
    /// Give a file another name.
    pub const RENAME: u32 = 14;
    /// Give a file one more name.
    pub const LINK: u32 = 15;
    /// List the names in a directory.
    pub const READDIR: u32 = 16;
    /// List the names in a directory, with attributes and handles.
    pub const READDIRPLUS: u32 = 17;
    /// Get the size of the file system and the space that is free.
    pub const FSSTAT: u32 = 18;
    /// Get the limits and abilities of the server.
    pub const FSINFO: u32 = 19;
    /// Get the limits on names.
    pub const PATHCONF: u32 = 20;
    /// Write UNSTABLE data of a file to stable storage.
    pub const COMMIT: u32 = 21;
}

/// Bits of rights (ACCESS3).
pub mod access {
    /// Read data or a directory.
    pub const READ: u32 = 1;
    /// Look a name up.
    pub const LOOKUP: u32 = 2;
    /// Rewrite data, change entries.
    pub const MODIFY: u32 = 4;
    /// Append data, add entries.
    pub const EXTEND: u32 = 8;
    /// Remove entries.
    pub const DELETE: u32 = 16;
    /// Execute.
    pub const EXECUTE: u32 = 32;
}

/// A file handle (`nfs_fh3`): bytes that the server chooses, 64 at most.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle {
    bytes: [u8; HANDLE_BYTES],
    len: u8,
}

impl Handle {
    /// The handle with these bytes; `None` if there are more than 64.
    pub fn new(of: &[u8]) -> Option<Handle> {
        let mut bytes = [0; HANDLE_BYTES];
        bytes.get_mut(..of.len())?.copy_from_slice(of);
        Some(Handle { bytes, len: of.len() as u8 })
    }

    /// The handle's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl core::fmt::Debug for Handle {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Encode for Handle {
    fn encode(&self, out: &mut Vec<u8>) {
        Opaque(self.bytes()).encode(out);
    }
}

impl<'a> Decode<'a> for Handle {
    fn decode(from: &mut Decoder<'a>) -> Result<Handle, DecodeError> {
        Handle::new(from.opaque(HANDLE_BYTES)?).ok_or(DecodeError::TooLong)
    }
}

rpc::xdr! {
    /// The type of a file (`ftype3`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Kind {
        /// NF3REG.
        Regular = 1,
        /// NF3DIR.
        Directory = 2,
        /// NF3BLK.
        Block = 3,
        /// NF3CHR.
        Character = 4,
        /// NF3LNK.
        Symlink = 5,
        /// NF3SOCK.
        Socket = 6,
        /// NF3FIFO.
        Fifo = 7,
    }

    /// A time since 1970, UTC (`nfstime3`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Time {
        /// Seconds.
        pub seconds: u32,
        /// Nanoseconds.
        pub nanoseconds: u32,
    }

    /// The attributes of a file (`fattr3`): 84 bytes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Attributes {
        /// The file's type.
        pub kind: Kind,
        /// The bits of chmod(2).
        pub mode: u32,
        /// How many names (hard links) the file has.
        pub nlink: u32,
        /// The user that owns the file.
        pub uid: u32,
        /// The group that owns the file.
        pub gid: u32,
        /// Bytes in the file.
        pub size: u64,
        /// Bytes of disk that the file occupies.
        pub used: u64,
        /// The major number of a device.
        pub major: u32,
        /// The minor number of a device.
        pub minor: u32,
        /// The number of the file system.
        pub fsid: u64,
        /// The number of the file in its file system.
        pub fileid: u64,
        /// The time of the last read.
        pub atime: Time,
        /// The time of the last write.
        pub mtime: Time,
        /// The time of the last change.
        pub ctime: Time,
    }

    /// Attributes of a file before a call, by which a client sees whether others have changed the
    /// file (`wcc_attr`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Before {
        /// Bytes in the file.
        pub size: u64,
        /// The time of the last write.
        pub mtime: Time,
        /// The time of the last change.
        pub ctime: Time,
    }

    /// Attributes of a file before and after a call that changed it (`wcc_data`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Changed {
        /// Before the call.
        pub before: Option<Before>,
        /// After the call.
        pub after: Option<Attributes>,
    }

    /// How a time is set: not at all, to the server's current time, or to the given time.
    #[allow(missing_docs, reason = "the variants are above")]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub union SetTime {
        0 => Keep,
        1 => Now,
        2 => To(Time),
    }

    /// Attributes to set (`sattr3`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SetAttributes {
        /// The bits of chmod(2).
        pub mode: Option<u32>,
        /// The owner.
        pub uid: Option<u32>,
        /// The group.
        pub gid: Option<u32>,
        /// The size in bytes: the file is cut, or extended by zeros.
        pub size: Option<u64>,
        /// The time of the last read.
        pub atime: SetTime,
        /// The time of the last write.
        pub mtime: SetTime,
    }

    /// A name in a directory (`diropargs3`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct At<'a> {
        /// The directory.
        pub dir: Handle,
        /// The name.
        pub name: Opaque<'a>,
    }

    /// Arguments of WRITE, without the data.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct WriteHead {
        /// The file.
        pub file: Handle,
        /// The offset of the data in the file.
        pub offset: u64,
        /// How many bytes of the data are to be written.
        pub count: u32,
        /// Where the data has to be before the server answers.
        pub stable: Stable,
    }

    /// Arguments of WRITE.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Write<'a> {
        /// The arguments before the data.
        pub head: WriteHead,
        /// The data.
        pub data: Opaque<'a>,
    }

    /// Where data is when a WRITE is answered (`stable_how`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Stable {
        /// UNSTABLE: with the server, which may lose it if it fails.
        Unstable = 0,
        /// DATA_SYNC: the data is on stable storage.
        DataSync = 1,
        /// FILE_SYNC: the data and the attributes are on stable storage.
        FileSync = 2,
    }

    /// How a file is made (`createhow3`). UNCHECKED: the file may exist. GUARDED: it must not
    /// exist. EXCLUSIVE: it must not exist, unless an earlier try of this call, with the same
    /// verifier, has made it.
    #[allow(missing_docs, reason = "the variants are above")]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub union How {
        0 => Unchecked(SetAttributes),
        1 => Guarded(SetAttributes),
        2 => Exclusive([u8; 8]),
    }

    /// The results of CREATE, MKDIR and SYMLINK.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Made {
        /// The new file.
        pub handle: Option<Handle>,
        /// Its attributes.
        pub attributes: Option<Attributes>,
        /// The directory in which the file was made, before and after the call.
        pub dir: Changed,
    }

    /// The results of LOOKUP.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Found {
        /// The file.
        pub handle: Handle,
        /// Its attributes.
        pub attributes: Option<Attributes>,
        /// The directory in which the name was looked up.
        pub dir: Option<Attributes>,
    }

    /// The results of READ.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Data<'a> {
        /// The attributes of the file.
        pub attributes: Option<Attributes>,
        /// How many bytes were read.
        pub count: u32,
        /// Does the file end after these bytes?
        pub eof: bool,
        /// The data.
        pub data: Opaque<'a>,
    }

    /// The results of WRITE.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Written {
        /// The file, before and after the call.
        pub file: Changed,
        /// How many bytes were written.
        pub count: u32,
        /// Where the written bytes are.
        pub committed: Stable,
        /// The verifier. It changes when the server restarts.
        pub verifier: [u8; 8],
    }

    /// An entry in the results of READDIRPLUS (`entryplus3`).
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Entry {
        /// The number of the file.
        pub fileid: u64,
        /// The file's name.
        pub name: Bytes,
        /// The cookie with which a client asks for the entries after this one.
        pub cookie: u64,
        /// The file's attributes.
        pub attributes: Option<Attributes>,
        /// The file's handle.
        pub handle: Option<Handle>,
    }

    /// The results of FSINFO.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Info {
        /// The attributes of the file whose handle was given.
        pub attributes: Option<Attributes>,
        /// The most bytes of a READ.
        pub rtmax: u32,
        /// Bytes of a READ that the server prefers.
        pub rtpref: u32,
        /// The bytes of a READ should be a multiple of this.
        pub rtmult: u32,
        /// The most bytes of a WRITE.
        pub wtmax: u32,
        /// Bytes of a WRITE that the server prefers.
        pub wtpref: u32,
        /// The bytes of a WRITE should be a multiple of this.
        pub wtmult: u32,
        /// Bytes of a READDIR that the server prefers.
        pub dtpref: u32,
        /// The largest size of a file, in bytes.
        pub maxfilesize: u64,
        /// The resolution of the server's times.
        pub time_delta: Time,
        /// FSF3 bits: hard links 1, symbolic links 2, PATHCONF is the same for all files 8, times
        /// can be set 16.
        pub properties: u32,
    }
}

// The default sets no time. `Default` is not derived, because the macro cannot mark a variant as
// the default.
#[allow(clippy::derivable_impls, reason = "the macro's unions have no attribute on a variant")]
impl Default for SetTime {
    fn default() -> SetTime {
        SetTime::Keep
    }
}
