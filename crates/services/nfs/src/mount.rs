//! MOUNT version 3 on the wire (RFC 1813 section 5.1), which maps paths to file handles.
//!
//! Called by: `server`, `client`.

use rpc::xdr::{Bounded, Bytes, List};

use crate::proto::{Handle, Status};

/// The number of the RPC program.
pub const PROGRAM: u32 = 100_005;
/// Its version.
pub const VERSION: u32 = 3;

/// Procedures.
pub mod procedure {
    /// Get the file handle of a path.
    pub const MNT: u32 = 1;
    /// List the clients and the paths that they have mounted.
    pub const DUMP: u32 = 2;
    /// Report that the client no longer uses a path.
    pub const UMNT: u32 = 3;
    /// Report that the client uses no path any more.
    pub const UMNTALL: u32 = 4;
    /// List the paths that can be mounted.
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
        /// The clients that may mount the path; everybody if the list is empty.
        pub groups: List<Bounded<Bytes, 255>>,
    }
}

/// The MOUNT status with the same meaning as an NFS status.
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
