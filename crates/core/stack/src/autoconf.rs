//! IPv6 autoconfiguration: the state of a port that makes itself addresses and finds its routers.
//!
//! Called by: the files of this folder. `dad.rs` checks addresses for duplicates, also those of
//! programs; `router.rs` solicits routers and reads their advertisements; `slaac.rs` makes
//! addresses of their prefixes; `nd_redirect.rs` follows redirects; `calls.rs` has the calls of
//! programs. RFC 4862, RFC 4861 sections 6.3 and 8.

mod calls;
pub(crate) mod dad;
pub(crate) mod nd_redirect;
pub(crate) mod router;
mod slaac;

use core::fmt;
use core::net::Ipv6Addr;
use std::collections::BTreeMap;

use base::{Duration, Instant, KeyedHash, Mtu, PerSecond};
use inet::dad::{DELAY_MAX, Dad};
use inet::neighbour::Key;
use inet::router::{Router, Routers};
use inet::slaac::{Identifiers, REGENERATE_BEFORE, TRIES_MAX};
use inet::solicit::Solicit;

pub(crate) use calls::expire;

use crate::handles::PortId;

/// How a port configures itself.
///
/// ```
/// # use wirespeed_stack as wirespeed;
/// use wirespeed::AutoConfig;
/// use wirespeed::pair::{PairConfig, pair};
///
/// let (mut end, _other) = pair(&PairConfig::new([1, 2])); // an Ethernet link without a router
/// end.stack.autoconfigure(end.port, AutoConfig { temporary: true, ..AutoConfig::default() })?;
/// assert!(end.stack.autoconf(end.port).is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutoConfig {
    /// How interface identifiers are made.
    pub identifiers: Identifiers,
    /// Make temporary addresses beside the stable ones, and prefer them (RFC 8981).
    pub temporary: bool,
    /// 128 secret bits that stable identifiers are made with (RFC 7217): the same bits give the
    /// same addresses after a restart. `None`: the stack's own secret.
    pub secret: Option<[u64; 2]>,
    /// Accept the routes to more specific prefixes that routers offer (RFC 4191), beside default
    /// routes. A router should not accept them, unless its operator trusts the routers of that
    /// link.
    pub learn_routes: bool,
}

impl Default for AutoConfig {
    /// Stable identifiers, temporary addresses beside them, and all routes.
    fn default() -> AutoConfig {
        AutoConfig {
            identifiers: Identifiers::default(),
            temporary: true,
            secret: None,
            learn_routes: true,
        }
    }
}

/// Why a port is not autoconfigured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoconfError {
    /// There is no such port.
    NoPort,
    /// The port's frames have no link header: there is no neighbour discovery.
    NoLinkLayer,
    /// The port has as many addresses as the limit `addresses` allows.
    LimitReached,
}

impl fmt::Display for AutoconfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AutoconfError::NoPort => "there is no such port: add one",
            AutoconfError::NoLinkLayer => {
                "a port of bare IP packets has no neighbour discovery: give it an address, as in \
                 2001:db8::2/64"
            }
            AutoconfError::LimitReached => {
                "the port has as many addresses as the limit `addresses` allows: remove one, or \
                 raise the limit"
            }
        })
    }
}

impl core::error::Error for AutoconfError {}

/// How far the autoconfiguration of a port has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The link-local address is being checked for duplicates.
    Checking,
    /// No router has answered yet. Soliciting goes on for ever, at growing intervals.
    Soliciting,
    /// A router answered.
    Routed,
    /// Other hosts have every link-local address that was tried: nothing more is done on this port.
    Duplicate,
}

/// The state of autoconfiguration on a port.
#[derive(Clone, Debug)]
pub struct AutoconfStatus {
    /// How far the configuration is.
    pub progress: Progress,
    /// The default routers.
    pub routers: Vec<Router>,
    /// The hop limit that routers recommend, if any does.
    pub hop_limit: Option<u8>,
    /// The MTU that routers announced for the link.
    pub mtu: Option<Mtu>,
    /// Routers announce that addresses are available by DHCPv6.
    pub managed: bool,
    /// Routers announce that other settings are available by DHCPv6.
    pub other: bool,
}

/// Autoconfiguration of all ports.
#[derive(Default)]
pub(crate) struct Autoconf {
    pub(crate) dad: Dad,
    ports: BTreeMap<u16, PortConf>,
    /// Random numbers drawn so far.
    draws: u64,
}

/// Autoconfiguration of one port.
struct PortConf {
    config: AutoConfig,
    secret: KeyedHash,
    progress: Progress,
    /// Number of link-local addresses that turned out to be another host's.
    duplicates: u8,
    /// `None` before there is a link-local address, and again once a router has answered.
    solicit: Option<Solicit>,
    routers: Routers,
    prefixes: Vec<Autonomous>,
    /// Rate limits of advertisements from unknown and from known routers: a flood of the former
    /// does not keep the latter from being renewed.
    heard: [PerSecond; 2],
}

impl Autoconf {
    /// When `calls::expire` has something to do.
    pub(crate) fn next_deadline(&self) -> Instant {
        let ports = self.ports.values().map(PortConf::next_deadline);
        ports.fold(self.dad.next_deadline(), Instant::min)
    }

    /// A random number.
    fn draw(&mut self, secret: &KeyedHash) -> u64 {
        const TAG: u64 = u64::from_be_bytes(*b"autoconf");
        self.draws += 1;
        secret.hash([TAG, self.draws])
    }

    /// Begin to check an address that was added as tentative. The caller must then call
    /// `Stack::look_ahead`.
    /// RFC 4862 5.4-a, 5.4.2-b.
    pub(crate) fn begin_dad(&mut self, key: Key, now: Instant, secret: &KeyedHash) {
        let delay = self.draw(secret) % DELAY_MAX.as_nanos();
        let [_, _, nonce @ ..] = self.draw(secret).to_be_bytes();
        self.dad.begin(key, now + Duration::from_nanos(delay), nonce);
    }

    fn port(&mut self, id: PortId) -> Option<&mut PortConf> {
        self.ports.get_mut(&id.0)
    }

    /// Forget the state of a port that was removed.
    pub(crate) fn forget_port(&mut self, id: PortId) {
        self.ports.remove(&id.0);
        self.dad.forget_port(id.0);
    }
}

impl PortConf {
    /// The port has a link-local address: solicit routers from `at` on.
    fn solicit_from(&mut self, at: Instant) {
        if self.progress == Progress::Checking {
            self.progress = Progress::Soliciting;
            self.solicit = Some(Solicit::starting(at));
        }
    }

    fn next_deadline(&self) -> Instant {
        let solicit = self.solicit.map_or(Instant::NEVER, |solicit| solicit.due());
        let prefixes = self.prefixes.iter().map(Autonomous::next_deadline);
        prefixes.fold(solicit.min(self.routers.next_deadline()), Instant::min)
    }
}

/// A prefix in which a port has addresses.
struct Autonomous {
    /// The prefix; all but the first 64 bits are zero.
    prefix: Ipv6Addr,
    /// Until when the addresses in the prefix are preferred. `valid_until`: until when they are
    /// valid.
    preferred_until: Instant,
    valid_until: Instant,
    /// Number of identifiers that turned out to be another host's.
    duplicates: u8,
    temporaries: Temporaries,
}

impl Autonomous {
    fn next_deadline(&self) -> Instant {
        self.valid_until.min(self.temporaries.regenerate_at())
    }
}

/// The temporary addresses of a prefix.
struct Temporaries {
    /// Each address, with the latest times until which it may be preferred and valid.
    made: Vec<(Ipv6Addr, (Instant, Instant))>,
    /// When the next address is to be made.
    regenerate_at: Instant,
    /// Number of consecutive identifiers that turned out to be another host's.
    duplicates: u8,
}

impl Default for Temporaries {
    fn default() -> Temporaries {
        Temporaries { made: Vec::new(), regenerate_at: Instant::NEVER, duplicates: 0 }
    }
}

impl Temporaries {
    fn regenerate_at(&self) -> Instant {
        self.regenerate_at
    }

    /// The latest times until which an address may be preferred and valid.
    fn most(&self, ip: Ipv6Addr) -> (Instant, Instant) {
        let found = self.made.iter().find(|(made, _)| *made == ip);
        found.map_or((Instant::ZERO, Instant::ZERO), |(_, most)| *most)
    }

    /// Compute anew when the next address is made: lifetimes have changed, and `preferred_until`
    /// returns the new ones.
    fn reschedule(&mut self, preferred_until: impl Fn(Ipv6Addr) -> Option<Instant>) {
        self.made.retain(|(ip, _)| preferred_until(*ip).is_some());
        let last = self.made.last().and_then(|(ip, _)| preferred_until(*ip));
        if let Some(until) = last {
            self.regenerate_at = before(until);
        }
    }

    /// Note that an address passed its check for duplicates.
    fn passed(&mut self) {
        self.duplicates = 0;
    }

    /// Note that an address is another host's. `true` if another address may be tried.
    /// RFC 8981 3.4-d.
    fn duplicate(&mut self, ip: Ipv6Addr) -> bool {
        self.made.retain(|(made, _)| *made != ip);
        self.duplicates += 1;
        self.regenerate_at = Instant::NEVER;
        self.duplicates < TRIES_MAX
    }
}

/// When the next address is made: some seconds before the last one is deprecated at `until`.
fn before(until: Instant) -> Instant {
    match until {
        Instant::NEVER => Instant::NEVER,
        until => Instant::ZERO + until.since(Instant::ZERO).saturating_sub(REGENERATE_BEFORE),
    }
}
