//! A sender of router advertisements, by which the guests of a gateway get IPv6 prefixes, the
//! router, its MTU and name servers.
//!
//! Called by: the owner of a port: it passes router solicitations to [`Router::receive`], sends
//! what [`Router::poll`] returns with hop limit 255, and calls that again at [`Router::deadline`].
//! RFC 4861 section 6.2, RFC 4191 (preference), RFC 8106 (DNS). Drop: `rs_invalid`; limit:
//! `router_solicitors`.
//!
//! With [`Interval::Never`] nothing is sent after the first advertisements unless a host asks, so
//! that an idle gateway does not wake up. What is advertised then has to be valid for long: a host
//! that wants to know more asks again.

mod config;
mod schedule;
#[cfg(test)]
mod tests;

use core::net::Ipv6Addr;

use base::{Budget, DropReason, Drops, Duration, Instant, KeyedHash, Limit};
use wire::nd::{AdvertisementWriter, is_router_solicitation};

pub use config::{Config, ConfigError, Interval, Prefix};
use schedule::Schedule;
pub use wire::nd::Preference;

/// All nodes of the link (RFC 4291 section 2.7.1).
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// All routers of the link: the port of a router receives this group.
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
/// The hop limit of every message of neighbour discovery.
pub const HOP_LIMIT: u8 = 255;
/// MAX_FINAL_RTR_ADVERTISEMENTS (RFC 4861 section 10).
const FINAL: u32 = 3;

/// An ICMPv6 message to send, with hop limit [`HOP_LIMIT`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advertisement {
    /// The router's link-local address.
    pub source: Ipv6Addr,
    /// [`ALL_NODES`], or the host that asked.
    pub destination: Ipv6Addr,
    /// From the ICMPv6 type on, with its checksum.
    pub message: Vec<u8>,
}

/// What a router is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Advertising,
    /// This many final advertisements are still to be sent.
    Ending(u32),
    Ended,
}

/// A router of one link.
#[derive(Clone, Debug)]
pub struct Router {
    config: Config,
    search: Vec<u8>,
    schedule: Schedule,
    phase: Phase,
    sent: u64,
    drops: Drops,
    budget: Budget,
}

impl Router {
    /// A router whose first advertisement is sent by the first [`Router::poll`]. `secret` decides
    /// the random delays.
    ///
    /// # Errors
    /// What is wrong with the settings.
    pub fn new(config: Config, secret: KeyedHash, now: Instant) -> Result<Router, ConfigError> {
        let search = config.check()?;
        let schedule = Schedule::new(secret, now);
        let (drops, budget) = (Drops::default(), Budget::default());
        let phase = Phase::Advertising;
        Ok(Router { config, search, schedule, phase, sent: 0, drops, budget })
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Advertisements sent so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Messages that were dropped, by reason.
    pub fn drops(&self) -> &Drops {
        &self.drops
    }

    /// The limits, to read and to set.
    pub fn budget_mut(&mut self) -> &mut Budget {
        &mut self.budget
    }

    /// Change the settings: hosts learn it at once, those that have asked by advertisements to
    /// each, if one to all was sent a moment ago (RFC 4861 6.2.4-b). A prefix that is left out
    /// stays valid for its lifetime; to end it, advertise it with lifetimes of zero first.
    ///
    /// # Errors
    /// What is wrong with the settings; nothing is changed then.
    pub fn set_config(&mut self, config: Config, now: Instant) -> Result<(), ConfigError> {
        self.search = config.check()?;
        if self.config != config && self.phase == Phase::Advertising {
            self.schedule.announce(now);
        }
        self.config = config;
        Ok(())
    }

    /// Is the router a default router, and for how long after each advertisement? Zero, which
    /// hosts learn at once, says that it has no route to elsewhere.
    ///
    /// # Errors
    /// More than 65,535 s.
    pub fn set_lifetime(&mut self, lifetime: Duration, now: Instant) -> Result<(), ConfigError> {
        self.set_config(Config { router_lifetime: lifetime, ..self.config.clone() }, now)
    }

    /// The port is about to go away, or the router ends: up to three final advertisements say that
    /// it is no default router. The first is due at once; a caller that cannot wait does not wait
    /// for the others.
    pub fn stop(&mut self, now: Instant) {
        if self.phase == Phase::Advertising {
            self.phase = Phase::Ending(FINAL);
            self.schedule.announce(now);
        }
    }

    /// An ICMPv6 message of type 133 from the link, whose checksum the caller has verified.
    ///
    /// # Errors
    /// The reason for which it is dropped, which is also counted.
    pub fn receive(
        &mut self,
        now: Instant,
        source: Ipv6Addr,
        hop_limit: u8,
        message: &[u8],
    ) -> Result<(), DropReason> {
        // RFC 4861 6.1.1-a.
        if hop_limit != HOP_LIMIT
            || source.is_multicast()
            || !is_router_solicitation(message, source)
        {
            self.drops.count(DropReason::RsInvalid);
            return Err(DropReason::RsInvalid);
        }
        if self.phase == Phase::Advertising {
            let most = self.budget.of(Limit::RouterSolicitors);
            if !self.schedule.solicited(now, source, most) {
                self.budget.admits(Limit::RouterSolicitors, most);
            }
        }
        Ok(())
    }

    /// When to call [`Router::poll`] next.
    pub fn deadline(&self) -> Instant {
        match self.phase {
            Phase::Ended => Instant::NEVER,
            _ => self.schedule.deadline(),
        }
    }

    /// The next advertisement that is due, or `None`.
    pub fn poll(&mut self, now: Instant) -> Option<Advertisement> {
        if self.phase == Phase::Ended {
            return None;
        }
        let destination = self.schedule.next(now)?;
        if destination == ALL_NODES {
            self.after_multicast(now);
        }
        self.sent += 1;
        let message = self.message(destination);
        Some(Advertisement { source: self.config.source, destination, message })
    }

    /// One to all nodes is sent: when is the next?
    fn after_multicast(&mut self, now: Instant) {
        match self.phase {
            Phase::Advertising => self.schedule.after_multicast(now, self.config.interval),
            // RFC 4861 6.2.5-a: at most three final ones. This one is counted below.
            Phase::Ending(left) if left > 1 => {
                self.phase = Phase::Ending(left - 1);
                self.schedule.again(now);
            }
            Phase::Ending(_) => {
                // The message of this call is still one of a router that ends.
                self.phase = Phase::Ending(0);
                self.schedule.end(now);
            }
            Phase::Ended => {}
        }
    }

    fn message(&mut self, destination: Ipv6Addr) -> Vec<u8> {
        let config = &self.config;
        let seconds = |span: Duration| span.as_millis() / 1_000;
        let long = |span: Option<Duration>| {
            span.map_or(u32::MAX, |span| u32::try_from(seconds(span)).unwrap_or(u32::MAX))
        };
        // RFC 4861 6.2.5-a: a final advertisement has a router lifetime of zero.
        let is_final = self.phase != Phase::Advertising;
        let lifetime = if is_final { Duration::ZERO } else { config.router_lifetime };
        let lifetime = u16::try_from(seconds(lifetime)).unwrap_or(u16::MAX);
        let (managed, other) = (config.managed, config.other);
        // RFC 4191 section 2.2: a router without a lifetime has no preference.
        let preference = if lifetime == 0 { Preference::Medium } else { config.preference };
        let mut writer =
            AdvertisementWriter::new(config.hop_limit, managed, other, preference, lifetime);
        // RFC 4861 6.2.3-a: the fields and options are as configured.
        if let Some(hardware) = config.hardware {
            writer.source_link_addr(hardware);
        }
        if let Some(mtu) = config.mtu {
            writer.mtu(mtu);
        }
        for prefix in &config.prefixes {
            writer.prefix(&wire::nd::Prefix {
                prefix: prefix.network,
                prefix_len: prefix.prefix_len,
                on_link: prefix.on_link,
                autonomous: prefix.autonomous,
                valid_s: long(prefix.valid),
                preferred_s: long(prefix.preferred),
            });
        }
        // RFC 8106 5.1-a: servers that are no longer to be used have a lifetime of zero.
        let names_s = if is_final { 0 } else { long(config.dns_lifetime) };
        writer.name_servers(&config.dns_servers, names_s);
        writer.search_domains(&self.search, names_s);
        if self.phase == Phase::Ending(0) {
            self.phase = Phase::Ended;
        }
        writer.finish(config.source, destination)
    }
}
