//! Router advertisements at each link: the address of the gateway as a router of IPv6, for as long
//! as the host has a way out, and what else guests learn by them.
//!
//! Called by: `machine.rs`, which makes it; `turns.rs`, once a turn. The router is crate `host`'s;
//! here it gets its messages from the stack. RFC 4861, RFC 8106. An idle gateway wakes up a few
//! times a day, to advertise itself before its lifetime as a router ends.

use std::net::{IpAddr, Ipv6Addr};

use anyhow::Result;
use base::{Duration, Instant, KeyedHash};
use host::ra;
use stack::{PortId, Stack};

use super::networks::{LINK_LOCAL, MAC, Network};
use super::settings::Learn;

/// Advertisements that nobody asked for come this far apart, at least and at most: well within the
/// router's lifetime of 65,535 s.
const AGAIN: (Duration, Duration) = (Duration::from_secs(15_000), Duration::from_secs(30_000));

/// The routers of all links.
pub(super) struct Routers {
    links: Vec<(PortId, ra::Router)>,
    /// A router's lifetime while there is a way out.
    lifetime: Duration,
}

impl Routers {
    /// Advertise the networks of IPv6 of these ports; the first [`Routers::turn`] sends.
    ///
    /// # Errors
    /// A network is none that can be advertised.
    pub(super) fn new(
        links: &[(PortId, Vec<Network>)],
        (learn, is_routed): (Learn, bool),
        secret: KeyedHash,
        now: Instant,
    ) -> Result<Routers> {
        let mut routers = Routers { links: Vec::new(), lifetime: Duration::ZERO };
        for (port, networks) in links.iter().filter(|_| learn.ra) {
            for network in networks {
                let IpAddr::V6(names) = network.names else { continue };
                let mut config = config(network, names, learn);
                routers.lifetime = config.router_lifetime;
                if !is_routed {
                    config.router_lifetime = Duration::ZERO;
                }
                routers.links.push((*port, ra::Router::new(config, secret, now)?));
            }
        }
        Ok(routers)
    }

    /// The host has a way out by IPv6 now, or has none any more: guests learn it at once.
    pub(super) fn set_routed(&mut self, is_routed: bool, now: Instant) {
        let lifetime = if is_routed { self.lifetime } else { Duration::ZERO };
        for (_, router) in &mut self.links {
            // It is the default, or zero.
            let _ = router.set_lifetime(lifetime, now);
        }
    }

    /// When to come back although nothing came.
    pub(super) fn next_deadline(&self) -> Instant {
        let deadlines = self.links.iter().map(|(_, router)| router.deadline());
        deadlines.min().unwrap_or(Instant::NEVER)
    }

    /// Answer what came, and advertise what is due. What cannot be sent is asked for again.
    pub(super) fn turn(&mut self, stack: &mut Stack, now: Instant) {
        while let Some(asked) = stack.take_router_solicitation() {
            let found = self.links.iter_mut().find(|(port, _)| *port == asked.port);
            if let Some((_, router)) = found {
                // The router counts what it drops.
                let _ = router.receive(now, asked.from, asked.hop_limit, &asked.message);
            }
        }
        for (port, router) in &mut self.links {
            while let Some(due) = router.poll(now) {
                let ends = (due.source, due.destination);
                let _ = stack.send_router_advertisement(*port, ends, &due.message, now);
            }
        }
    }
}

fn config(network: &Network, names: Ipv6Addr, learn: Learn) -> ra::Config {
    let prefix = match network.network().addr {
        IpAddr::V6(prefix) => prefix,
        IpAddr::V4(_) => Ipv6Addr::UNSPECIFIED,
    };
    let config = ra::Config::new(LINK_LOCAL, MAC, ra::Prefix::new(prefix, network.prefix_len));
    ra::Config {
        other: learn.has_names,
        // Kernels do not ask again when the router's lifetime ends.
        interval: ra::Interval::Between { min: AGAIN.0, max: AGAIN.1 },
        mtu: Some(u32::from(learn.mtu)),
        dns_servers: if learn.has_names { vec![names] } else { Vec::new() },
        ..config
    }
}
