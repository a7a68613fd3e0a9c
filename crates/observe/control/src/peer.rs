//! The peer of a Unix socket: its process, user and groups at the time it connected. Also the rate
//! at which connections are accepted: connections of one user beyond `control_user_accepts` in a
//! second are refused, and then the listener pauses, so that clients that connect again and again
//! cost little.
//!
//! Called by: `server.rs`. The kernel reports the user of a connection only after it was accepted.
//! So the pause affects all users: other users' connections wait in the backlog.

use std::os::fd::BorrowedFd;

use base::{Budget, Duration, Instant, Limit, Owner};
use rustix::net::sockopt;

use crate::ControlError;

const SECOND: Duration = Duration::from_secs(1);
/// How long the listener pauses.
const REST: Duration = Duration::from_millis(10);
/// Users that are counted separately in a second. Further users share the last entry.
const USERS_MAX: usize = 64;

/// The connections of this second.
#[derive(Default)]
pub(crate) struct Pace {
    began: Instant,
    of_users: Vec<(u32, usize)>,
    rests_until: Option<Instant>,
}

impl Pace {
    /// Count a connection of a user. Returns whether it may be answered.
    pub(crate) fn takes(&mut self, uid: u32, now: Instant, budget: &mut Budget) -> bool {
        if now >= self.began + SECOND {
            self.began = now;
            self.of_users.clear();
        }
        let known = self.of_users.iter().position(|(user, _)| *user == uid);
        let at = known.unwrap_or(self.of_users.len()).min(USERS_MAX - 1);
        if at == self.of_users.len() {
            self.of_users.push((uid, 0));
        }
        let count = &mut self.of_users[at].1;
        let takes = budget.admits(Limit::ControlUserAccepts, *count);
        *count += 1;
        if !takes {
            self.rests_until = Some(now + REST);
        }
        takes
    }

    /// Does the listener pause?
    pub(crate) fn rests(&mut self, now: Instant) -> bool {
        self.rests_until = self.rests_until.filter(|&until| now < until);
        self.rests_until.is_some()
    }

    /// When the listener's pause ends, as found by the last call of [`Pace::rests`].
    pub(crate) fn until(&self) -> Option<Instant> {
        self.rests_until
    }
}

/// A function that asks the kernel for the supplementary groups of a socket's peer (SO_PEERGROUPS).
/// No library wraps the call, and this crate has no `unsafe`, so the program passes the function
/// in.
pub type Groups = fn(BorrowedFd<'_>) -> Option<Vec<u32>>;

/// The other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The process ID of the peer, in this process's PID namespace.
    pub pid: i32,
    /// The user of the peer and all groups: the primary group first, no group twice.
    pub owner: Owner,
    /// The number of the peer's connection. No other connection to the same server ever has it.
    pub connection: u64,
}

impl Peer {
    /// Ask the kernel who is at the other end of `socket`, a connection with this number. If
    /// `groups` returns `None`, the peer has only its primary group.
    ///
    /// # Errors
    /// [`ControlError::System`]: `socket` is not a Unix socket, or not connected.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_who_comes_too_often_is_refused_and_others_are_not() {
        let (mut pace, mut budget) = (Pace::default(), Budget::default());
        budget.set(Limit::ControlUserAccepts, 3);
        let at = |ms: u64| Instant::ZERO + Duration::from_millis(ms);
        let mut takes = |uid, ms| pace.takes(uid, at(ms), &mut budget);
        assert_eq!([1, 1, 1, 1, 2].map(|uid| takes(uid, 10)), [true, true, true, false, true]);
        assert!(takes(1, 1010), "another second");
        assert_eq!(budget.hits(Limit::ControlUserAccepts), 1);
        // Users beyond the limit share an entry, so that the list does not grow.
        for uid in 0..1000 {
            pace.takes(uid, at(1020), &mut budget);
        }
        assert_eq!(pace.of_users.len(), USERS_MAX);
        assert!(pace.rests(at(1021)) && pace.until() == Some(at(1030)));
        assert!(!pace.rests(at(1030)) && pace.until().is_none());
    }
}
