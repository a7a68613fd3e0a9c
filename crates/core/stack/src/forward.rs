//! Forwarding: what a stack forwards, and what it remembers for that. Off by default.
//!
//! Called by: the files of this folder. `ingress.rs` takes a router's bursts in, `plain.rs`
//! forwards packets one by one, and `burst.rs` plain ones together. RFC 1812, RFC 8200.

mod adjacency;
mod burst;
mod ingress;
mod leave;
pub(crate) mod links;
mod locals;
mod look;
mod plain;
mod redirect;
mod source;

use base::Instant;
use mbuf::Mbuf;

pub(crate) use ingress::{Received, receive};
pub(crate) use plain::unreachable;

use adjacency::Adjacencies;
use locals::Locals;

/// What a stack forwards.
#[derive(Default)]
pub(crate) struct Forwarding {
    pub(crate) on: bool,
    directed_broadcasts: bool,
    no_redirects: bool,
    /// Made when forwarding is first switched on.
    bursts: Option<Box<Bursts>>,
    links: Links,
    /// Of the burst that is being received, frames to an address of ours on another port, which
    /// they have as theirs: the host's path is to have them.
    pub(crate) to_host: Vec<Mbuf>,
}

impl Forwarding {
    /// Forwarding, directed broadcasts, redirects.
    pub(crate) fn settings(&self) -> (bool, bool, bool) {
        (self.on, self.directed_broadcasts, !self.no_redirects)
    }

    /// When the ports' links are looked at next.
    pub(crate) fn next_look(&self) -> Instant {
        self.links.next_deadline()
    }

    #[inline(always)]
    fn sends_redirects(&self) -> bool {
        !self.no_redirects
    }
}

/// What the burst path remembers from one burst to the next.
struct Bursts {
    /// The stack's, as of `locals`.
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

/// When ports are asked next.
struct Links {
    due: Instant,
    /// Somebody has news.
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
