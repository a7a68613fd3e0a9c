//! MOUNT version 3 on the wire (RFC 1813 section 5.1): the way from a path to a file handle.
//!
//! Called by: `server`, `client`.

use rpc::xdr::{Bounded, Bytes, List};

use crate::proto::{Handle, Status};

/// The program.
pub const PROGRAM: u32 = 100_005;
/// Its version.
pub const VERSION: u32 = 3;

/// Procedures.
pub mod procedure {
    /// The handle of a path.
    pub const MNT: u32 = 1;
    /// The list of clients and the paths that they have mounted.
    pub const DUMP: u32 = 2;
    /// A path is no longer used.
    pub const UMNT: u32 = 3;
    /// No path is used any more.
    pub const UMNTALL: u32 = 4;
    /// The paths that can be mounted.
    pub const EXPORT: u32 = 5;
}

/// A path that is mounted.
pub type Path = Bounded<Bytes, 1_024>;

rpc::xdr! {
    /// The results of MNT (`mountres3_ok`).
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Mounted {
        /// The handle of the path.
        pub handle: Handle,
        /// The flavors of credentials that the server takes.
        pub flavors: Vec<u32>,
    }

    /// A path that can be mounted (`exportnode`).
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Export {
        /// The path.
        pub dir: Path,
        /// The clients that may mount it; everybody if it is empty.
        pub groups: List<Bounded<Bytes, 255>>,
    }
}

/// The status of MNT that says the same as one of NFS.
pub fn status(of: Status) -> Status {
    match of {
        Status::Ok
        | Status::NotOwner
        | Status::NoEntry
        | Status::Io
        | Status::Access
        | Status::NotDirectory
        | Status::Invalid
        | Status::NameTooLong
        | Status::NotSupported => of,
        _ => Status::ServerFault,
    }
}
