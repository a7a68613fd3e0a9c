//! The owner of a socket, so that routes can be granted to groups of users.

use std::sync::Arc;

/// The user that opened a socket, with all groups of that user (as from SO_PEERGROUPS).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user.
    pub uid: u32,
    /// All groups, primary and supplementary.
    pub groups: Arc<[u32]>,
}

impl Owner {
    /// The embedding program itself: uid 0 and no groups; group restrictions do not apply to it.
    pub fn program() -> Owner {
        Owner { uid: 0, groups: Arc::default() }
    }

    /// Is it the embedding program?
    #[inline]
    pub fn is_program(&self) -> bool {
        self.uid == 0 && self.groups.is_empty()
    }

    /// Is the owner a member of `group`?
    pub fn in_group(&self, group: u32) -> bool {
        self.groups.contains(&group)
    }
}
