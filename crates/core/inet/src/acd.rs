//! IPv4 address conflict detection: decides when to probe for an address, when the address is ours,
//! and when to announce and defend it.
//!
//! Called by: `stack/addresses/acd.rs`, which keeps the addresses and writes the packets. The
//! caller passes time and random numbers. RFC 5227 sections 1.1 (the constants), 2.1, 2.3 and 2.4;
//! RFC 3927 sections 2.1, 2.2 and 9, whose constants are the same.

use core::net::Ipv4Addr;

use base::{Duration, Instant};

/// The first probe is sent within this time, so that hosts that start together do not collide.
pub const PROBE_WAIT: Duration = Duration::from_secs(1);
/// Number of probes.
pub const PROBE_NUM: u8 = 3;
/// Least time between two probes.
pub const PROBE_MIN: Duration = Duration::from_secs(1);
/// Most time between two probes.
pub const PROBE_MAX: Duration = Duration::from_secs(2);
/// Time from the last probe to the first announcement.
pub const ANNOUNCE_WAIT: Duration = Duration::from_secs(2);
/// Number of announcements.
pub const ANNOUNCE_NUM: u8 = 2;
/// Time between two announcements.
pub const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(2);
/// After this many conflicts, candidates are tried at a lower rate.
pub const MAX_CONFLICTS: u32 = 10;
/// The lower rate: one candidate in this time.
pub const RATE_LIMIT_INTERVAL: Duration = Duration::from_secs(60);
/// An address is defended at most once in this time.
pub const DEFEND_INTERVAL: Duration = Duration::from_secs(10);

/// What is to be done for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send a probe.
    Probe,
    /// Nobody objected: the address is ours. Announce it.
    Use,
    /// Announce the address once more.
    Announce,
}

/// An address that is being claimed: probes, a wait, announcements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    due: Instant,
    probes: u8,
    announcements: u8,
}

impl Check {
    /// Begin to check an address; `random` is any random number.
    /// RFC 5227 2.1.1-a.
    pub fn new(now: Instant, random: u64) -> Check {
        Check { due: now + within(PROBE_WAIT, random), probes: 0, announcements: 0 }
    }

    /// When [`Check::step`] is due.
    pub fn due(&self) -> Instant {
        self.due
    }

    /// Is the address still being probed, and not ours yet?
    pub fn is_probing(&self) -> bool {
        self.announcements == 0
    }

    /// Was the last announcement sent?
    pub fn is_done(&self) -> bool {
        self.announcements >= ANNOUNCE_NUM
    }

    /// What to do now, if something is due; `random` is any random number.
    /// RFC 5227 2.1.1-a, 2.1.1-c, 2.3-a.
    pub fn step(&mut self, now: Instant, random: u64) -> Option<Step> {
        if now < self.due || self.is_done() {
            return None;
        }
        if self.probes < PROBE_NUM {
            self.probes += 1;
            let spread = PROBE_MIN + within(PROBE_MAX.saturating_sub(PROBE_MIN), random);
            self.due = now + if self.probes < PROBE_NUM { spread } else { ANNOUNCE_WAIT };
            return Some(Step::Probe);
        }
        self.announcements += 1;
        self.due = if self.is_done() { Instant::NEVER } else { now + ANNOUNCE_INTERVAL };
        Some(if self.announcements == 1 { Step::Use } else { Step::Announce })
    }
}

/// A random part of `most`; `random` is any random number.
fn within(most: Duration, random: u64) -> Duration {
    Duration::from_nanos(random % most.as_nanos().max(1))
}

/// When another host was last found to use an address of ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Defence {
    last: Option<Instant>,
}

impl Defence {
    /// Note that another host uses the address. `true`: this is the first conflict in
    /// [`DEFEND_INTERVAL`], and one announcement defends the address. `false`: no announcement may
    /// be sent, and the address is given up, unless it has to be kept in any case.
    /// RFC 5227 2.4-b, 2.4-c.
    pub fn conflict(&mut self, now: Instant) -> bool {
        if self.last.is_some_and(|last| now.since(last) < DEFEND_INTERVAL) {
            return false;
        }
        self.last = Some(now);
        true
    }
}

/// A link-local address to try, drawn from 169.254.1.0 to 169.254.254.255; `random` is any random
/// number.
/// RFC 3927 2.1-a.
pub fn link_local_candidate(random: u64) -> Ipv4Addr {
    const FIRST: u32 = 0xa9fe_0100;
    const COUNT: u64 = 254 * 256;
    Ipv4Addr::from_bits(FIRST + (random % COUNT) as u32)
}

#[cfg(test)]
mod tests;
