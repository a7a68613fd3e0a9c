//! Who a socket belongs to, so that routes can be granted to groups of users.

use std::sync::Arc;

/// The user that opened a socket, with every group of that user (as SO_PEERGROUPS gives them).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user.
    pub uid: u32,
    /// All groups, primary and supplementary.
    pub groups: Arc<[u32]>,
}

impl Owner {
    /// The embedding program itself: uid 0 and no groups, subject to no restriction by group.
    pub fn program() -> Owner {
        Owner { uid: 0, groups: Arc::default() }
    }

    /// Is the owner a member of `group`?
    pub fn in_group(&self, group: u32) -> bool {
        self.groups.contains(&group)
    }
}
