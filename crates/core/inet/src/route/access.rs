//! The users that may use a route, and the sender that a route is looked up for.
//!
//! Called by: `rib.rs`, `lookup.rs`, and `stack`, which names the sender of each packet. A program
//! that embeds the stack may use every route; the groups of a route restrict users; a forwarded
//! packet belongs to no user and to no group. Limit: [`GROUPS_MAX`]. docs/decisions/0080.

use std::sync::Arc;

use base::Owner;

use super::Route;
use crate::vrf::Vrf;

/// The most groups in the list of a route.
pub const GROUPS_MAX: usize = 64;

/// Which users may use a route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Only members of one of these groups.
    Include(Arc<[u32]>),
    /// Everybody except members of one of these groups.
    Exclude(Arc<[u32]>),
}

impl Access {
    /// May this user use the route?
    pub fn admits(&self, owner: &Owner) -> bool {
        let is_member = |groups: &[u32]| groups.iter().any(|&group| owner.in_group(group));
        match self {
            Access::Include(groups) => is_member(groups),
            Access::Exclude(groups) => !is_member(groups),
        }
    }

    /// The groups of the list.
    pub fn groups(&self) -> &[u32] {
        match self {
            Access::Include(groups) | Access::Exclude(groups) => groups,
        }
    }
}

/// What beside its owner selects the table for the packets of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// Linux's SO_MARK; 0 if none was set.
    pub mark: u32,
    /// The VRF that the socket belongs to.
    pub vrf: Vrf,
}

impl Selector {
    /// Nothing but a VRF.
    #[must_use]
    pub const fn of_vrf(vrf: Vrf) -> Selector {
        Selector { mark: 0, vrf }
    }
}

/// The sender of the packet that a route is looked up for.
#[derive(Clone, Copy, Debug)]
pub enum Sender<'a> {
    /// The stack itself, or the program that it is part of: no restriction applies.
    Program,
    /// The stack itself, in a VRF: it answers a packet that came by one of the VRF's ports.
    Vrf(Vrf),
    /// A socket.
    Socket {
        /// The owner of the socket. [`Owner::program`] is as free as [`Sender::Program`].
        owner: &'a Owner,
        /// Its mark and its VRF.
        by: Selector,
    },
    /// Another host: the packet came by this port and is forwarded.
    Transit {
        /// The port that the packet came by.
        in_port: u16,
        /// The VRF of that port.
        vrf: Vrf,
    },
}

/// A restriction: some users may not use the route.
pub(super) const FOR_SOME_USERS: u32 = 1;
/// A restriction: forwarded packets may not use the route.
pub(super) const NOT_FOR_TRANSIT: u32 = 2;

impl Sender<'_> {
    /// The VRF in whose table the packet is looked up.
    #[inline(always)]
    pub fn vrf(&self) -> Vrf {
        match *self {
            Sender::Program => Vrf::NONE,
            Sender::Vrf(vrf) | Sender::Transit { vrf, .. } => vrf,
            Sender::Socket { by, .. } => by.vrf,
        }
    }

    /// The restriction that applies to this sender.
    #[inline(always)]
    pub(super) fn restriction(&self) -> u32 {
        match self {
            Sender::Program | Sender::Vrf(_) => 0,
            Sender::Socket { owner, .. } if owner.is_program() => 0,
            Sender::Socket { .. } => FOR_SOME_USERS,
            Sender::Transit { .. } => NOT_FOR_TRANSIT,
        }
    }
}

impl Route {
    /// The restrictions of the route.
    pub(super) fn restrictions(&self) -> u32 {
        let users = if self.access.is_some() { FOR_SOME_USERS } else { 0 };
        users | if self.is_for_transit() { 0 } else { NOT_FOR_TRANSIT }
    }

    /// May forwarded packets use the route? Such a packet belongs to no group, so a list of groups
    /// to include excludes it.
    fn is_for_transit(&self) -> bool {
        !self.no_forward && !matches!(self.access.as_deref(), Some(Access::Include(_)))
    }

    /// May packets of this sender use the route?
    pub fn admits(&self, sender: Sender<'_>) -> bool {
        match sender {
            Sender::Program | Sender::Vrf(_) => true,
            Sender::Socket { owner, .. } => {
                owner.is_program() || self.access.as_ref().is_none_or(|list| list.admits(owner))
            }
            Sender::Transit { .. } => self.is_for_transit(),
        }
    }
}
