//! Forwarding: the settings of a router, and the state that it keeps for forwarding. Off by
//! default.
//!
//! Called by: the files of this folder. `ingress.rs` takes a router's bursts in. `plain.rs` and
//! its folder forward packets one by one, `burst.rs` and its folder plain ones together, and both
//! ask `firewall.rs` if there are rules. RFC 1812, RFC 8200.

mod burst;
mod firewall;
mod ingress;
pub(crate) mod links;
mod locals;
mod plain;

use base::Instant;
use burst::Adjacencies;
pub(crate) use firewall::{Held, leaves};
pub(crate) use ingress::{Received, receive};
use locals::Locals;
use mbuf::Mbuf;
pub(crate) use plain::unreachable;

/// Settings and state of forwarding.
#[derive(Default)]
pub(crate) struct Forwarding {
    pub(crate) on: bool,
    directed_broadcasts: bool,
    no_redirects: bool,
    /// Allocated when forwarding is first switched on.
    bursts: Option<Box<Bursts>>,
    links: Links,
    /// Frames of the current burst to an address of ours on another port. Each frame's port is set
    /// to that other port, and the host's path processes it.
    pub(crate) to_host: Vec<Mbuf>,
    /// Fragments that wait for the first one of their datagram.
    pub(crate) held: Held,
}

impl Forwarding {
    /// Whether forwarding, directed broadcasts and redirects are on.
    pub(crate) fn settings(&self) -> (bool, bool, bool) {
        (self.on, self.directed_broadcasts, !self.no_redirects)
    }

    /// When the ports are next asked whether their links are up.
    pub(crate) fn next_look(&self) -> Instant {
        self.links.next_deadline()
    }

    #[inline(always)]
    fn sends_redirects(&self) -> bool {
        !self.no_redirects
    }
}

/// State that the burst path keeps from one burst to the next.
struct Bursts {
    /// The stack's generation when `locals` was built.
    generation: u64,
    locals: Locals,
    adjacencies: Adjacencies,
}

impl Bursts {
    fn new() -> Bursts {
        // No stack is in this generation: it counts from zero.
        Bursts { generation: u64::MAX, locals: Locals::new(), adjacencies: Adjacencies::new() }
    }
}

/// When the ports are next asked whether their links are up.
struct Links {
    due: Instant,
    /// The program reports link changes ([`crate::Stack::set_link_news`]).
    has_news: bool,
}

impl Default for Links {
    fn default() -> Links {
        Links { due: Instant::NEVER, has_news: false }
    }
}

impl Links {
    fn next_deadline(&self) -> Instant {
        self.due
    }
}
