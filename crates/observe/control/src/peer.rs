//! The peer of a Unix socket: its process, user and groups at the time of connect.
//!
//! Called by: `server.rs`, once for each client. Source: unix(7), SO_PEERCRED and SO_PEERGROUPS.

use std::os::fd::BorrowedFd;

use base::Owner;
use rustix::net::sockopt;

use crate::ControlError;

/// Asks the kernel for the supplementary groups of a socket's peer, SO_PEERGROUPS. No library wraps
/// the call and this crate has no `unsafe`, so the program passes the function in.
pub type Groups = fn(BorrowedFd<'_>) -> Option<Vec<u32>>;

/// The other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its process ID, in this process's PID namespace.
    pub pid: i32,
    /// Its user and all its groups: the primary one first, no group twice.
    pub owner: Owner,
    /// The number of its connection, which no other one to the same server ever has.
    pub connection: u64,
}

impl Peer {
    /// Ask the kernel who is at the other end of a connection with this number. If `groups` returns
    /// `None`, there is only the primary group.
    ///
    /// # Errors
    /// [`ControlError::System`]: it is not a Unix socket, or not connected.
    pub fn of(
        socket: BorrowedFd<'_>,
        groups: Groups,
        connection: u64,
    ) -> Result<Peer, ControlError> {
        let credentials = sockopt::socket_peercred(socket)
            .map_err(ControlError::system("the kernel does not say who connected"))?;
        let primary = credentials.gid.as_raw();
        let mut all = vec![primary];
        all.extend(groups(socket).unwrap_or_default().into_iter().filter(|&g| g != primary));
        let owner = Owner { uid: credentials.uid.as_raw(), groups: all.into() };
        Ok(Peer { pid: credentials.pid.as_raw_pid(), owner, connection })
    }
}
