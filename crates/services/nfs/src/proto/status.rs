//! The status of a call of NFS version 3 (RFC 1813 section 2.6).
//!
//! Called by: `server`, `client`. The names are ours; each comment gives the RFC's name.

rpc::xdr! {
    /// The status of a call (`nfsstat3`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Status {
        /// NFS3_OK.
        Ok = 0,
        /// NFS3ERR_PERM: only the owner may do this.
        NotOwner = 1,
        /// NFS3ERR_NOENT.
        NoEntry = 2,
        /// NFS3ERR_IO.
        Io = 5,
        /// NFS3ERR_NXIO.
        NoDevice = 6,
        /// NFS3ERR_ACCES.
        Access = 13,
        /// NFS3ERR_EXIST.
        Exists = 17,
        /// NFS3ERR_XDEV.
        CrossDevice = 18,
        /// NFS3ERR_NODEV.
        NotThisDevice = 19,
        /// NFS3ERR_NOTDIR.
        NotDirectory = 20,
        /// NFS3ERR_ISDIR.
        IsDirectory = 21,
        /// NFS3ERR_INVAL.
        Invalid = 22,
        /// NFS3ERR_FBIG.
        TooBig = 27,
        /// NFS3ERR_NOSPC.
        NoSpace = 28,
        /// NFS3ERR_ROFS.
        ReadOnly = 30,
        /// NFS3ERR_MLINK.
        TooManyLinks = 31,
        /// NFS3ERR_NAMETOOLONG.
        NameTooLong = 63,
        /// NFS3ERR_NOTEMPTY.
        NotEmpty = 66,
        /// NFS3ERR_DQUOT.
        Quota = 69,
        /// NFS3ERR_STALE.
        Stale = 70,
        /// NFS3ERR_REMOTE.
        Remote = 71,
        /// NFS3ERR_BADHANDLE.
        BadHandle = 10_001,
        /// NFS3ERR_NOT_SYNC.
        NotSync = 10_002,
        /// NFS3ERR_BAD_COOKIE.
        BadCookie = 10_003,
        /// NFS3ERR_NOTSUPP.
        NotSupported = 10_004,
        /// NFS3ERR_TOOSMALL.
        TooSmall = 10_005,
        /// NFS3ERR_SERVERFAULT.
        ServerFault = 10_006,
        /// NFS3ERR_BADTYPE.
        BadType = 10_007,
        /// NFS3ERR_JUKEBOX: call again later.
        Jukebox = 10_008,
    }
}

impl Status {
    /// The status's name in the RFC.
    pub fn name(self) -> &'static str {
        match self {
            Status::Ok => "NFS3_OK",
            Status::NotOwner => "NFS3ERR_PERM",
            Status::NoEntry => "NFS3ERR_NOENT",
            Status::Io => "NFS3ERR_IO",
            Status::NoDevice => "NFS3ERR_NXIO",
            Status::Access => "NFS3ERR_ACCES",
            Status::Exists => "NFS3ERR_EXIST",
            Status::CrossDevice => "NFS3ERR_XDEV",
            Status::NotThisDevice => "NFS3ERR_NODEV",
            Status::NotDirectory => "NFS3ERR_NOTDIR",
            Status::IsDirectory => "NFS3ERR_ISDIR",
            Status::Invalid => "NFS3ERR_INVAL",
            Status::TooBig => "NFS3ERR_FBIG",
            Status::NoSpace => "NFS3ERR_NOSPC",
            Status::ReadOnly => "NFS3ERR_ROFS",
            Status::TooManyLinks => "NFS3ERR_MLINK",
            Status::NameTooLong => "NFS3ERR_NAMETOOLONG",
            Status::NotEmpty => "NFS3ERR_NOTEMPTY",
            Status::Quota => "NFS3ERR_DQUOT",
            Status::Stale => "NFS3ERR_STALE",
            Status::Remote => "NFS3ERR_REMOTE",
            Status::BadHandle => "NFS3ERR_BADHANDLE",
            Status::NotSync => "NFS3ERR_NOT_SYNC",
            Status::BadCookie => "NFS3ERR_BAD_COOKIE",
            Status::NotSupported => "NFS3ERR_NOTSUPP",
            Status::TooSmall => "NFS3ERR_TOOSMALL",
            Status::ServerFault => "NFS3ERR_SERVERFAULT",
            Status::BadType => "NFS3ERR_BADTYPE",
            Status::Jukebox => "NFS3ERR_JUKEBOX",
        }
    }
}
