//! The daemons beside the router, for the control socket: their routes, and their mirrors.
//!
//! Called by: `engine.rs`, when the control socket is polled.

use base::Cidr;
use control::protocol::{DaemonRoute, Mirror, RouteSource};
use observe::Beyond;

use crate::fpm::Feed;
use crate::mirror::Mirrors;
use crate::mirror::counts::{Counts, Loss};

/// What the worker knows of them.
pub(super) struct Daemons<'a> {
    pub(super) feed: &'a Feed,
    pub(super) mirrors: &'a Mirrors,
    /// The configuration has `[frr]`.
    pub(super) has_feed: bool,
}

impl Beyond for Daemons<'_> {
    fn daemon_route(&self, dest: Cidr, table: u32) -> Option<DaemonRoute> {
        self.feed.daemon_route(dest, table)
    }

    fn route_sources(&self) -> Vec<RouteSource> {
        if self.has_feed { self.feed.sources() } else { Vec::new() }
    }

    fn mirrors(&self) -> Vec<Mirror> {
        let row = |(name, counts): (&str, &Counts)| {
            let lost = Loss::ALL.map(|why| (why.name(), counts.lost(why)));
            let dropped = lost.into_iter().filter(|(_, count)| *count > 0);
            Mirror {
                name: name.to_owned(),
                up: self.mirrors.is_up(name),
                punted: counts.punted.frames,
                punted_bytes: counts.punted.bytes,
                sent: counts.sent.frames,
                sent_bytes: counts.sent.bytes,
                dropped: dropped.map(|(why, count)| format!("{why} {count}")).collect(),
            }
        };
        self.mirrors.counts().map(row).collect()
    }
}
