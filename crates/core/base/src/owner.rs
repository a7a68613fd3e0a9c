//! The owner of a socket, so that routes can be granted to groups of users.

use std::sync::Arc;

/// The user that opened a socket, with all groups of that user (for example from SO_PEERGROUPS).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user id.
    pub uid: u32,
    /// The ids of all groups of the user, primary and supplementary.
    pub groups: Arc<[u32]>,
}

impl Owner {
    /// The owner of sockets that the embedding program itself opens: uid 0 and no groups. Group
    /// restrictions do not apply to it.
    pub fn program() -> Owner {
        Owner { uid: 0, groups: Arc::default() }
    }

    /// Is the owner the embedding program?
    #[inline]
    pub fn is_program(&self) -> bool {
        self.uid == 0 && self.groups.is_empty()
    }

    /// Is the owner a member of `group`?
    pub fn in_group(&self, group: u32) -> bool {
        self.groups.contains(&group)
    }
}
