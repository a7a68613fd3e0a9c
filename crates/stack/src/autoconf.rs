//! A port that makes itself IPv6 addresses and finds its routers.
//!
//! Called by: programs, with [`Stack::autoconfigure`]; `nd.rs` with what routers and others say;
//! `addresses::expire` when something is due. RFC 4862, RFC 4861 sections 6.3 and 8. The parts:
//! `dad.rs` checks addresses for duplicates, also those of programs; `router.rs` solicits routers
//! and hears them; `slaac.rs` makes addresses of their prefixes, `temporary.rs` those that change;
//! `redirect.rs` follows redirects.

pub(crate) mod dad;
pub(crate) mod redirect;
pub(crate) mod router;
mod slaac;
mod temporary;

use core::fmt;
use core::net::{IpAddr, Ipv6Addr};
use std::collections::BTreeMap;

use base::{Instant, KeyedHash, LinkKind, Mtu, PerSecond};
use inet::dad::Dad;
use inet::router::{Router, Routers};
use inet::slaac::Identifiers;
use inet::solicit::Solicit;
use inet::{Origin, RouteOrigin};

use crate::{AddressError, PortId, Stack};

/// How a port configures itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutoConfig {
    /// How interface identifiers are made.
    pub identifiers: Identifiers,
    /// Make temporary addresses beside the stable ones, and prefer them (RFC 8981).
    pub temporary: bool,
    /// 128 secret bits that stable identifiers are made with (RFC 7217): the same bits give the
    /// same addresses after a restart. `None`: those of the stack.
    pub secret: Option<[u64; 2]>,
    /// Take the routes to more specific prefixes that routers offer (RFC 4191), beside default
    /// ones. A router should not, unless whoever runs it trusts that link's routers.
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
    /// Its frames have no link header: there is no neighbour discovery.
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

/// How far the configuration of a port is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The link-local address is being checked for duplicates.
    Checking,
    /// No router has answered yet. It goes on for ever, ever more rarely.
    Soliciting,
    /// A router answered.
    Routed,
    /// Others have every link-local address that was tried: nothing more is done on this port.
    Duplicate,
}

/// What autoconfiguration knows of a port.
#[derive(Clone, Debug)]
pub struct AutoconfStatus {
    /// How far it is.
    pub progress: Progress,
    /// The default routers.
    pub routers: Vec<Router>,
    /// The hop limit that routers recommend, if one did.
    pub hop_limit: Option<u8>,
    /// The MTU that routers announced for the link.
    pub mtu: Option<Mtu>,
    /// Routers say that addresses are to be had by DHCPv6.
    pub managed: bool,
    /// Routers say that other settings are to be had by DHCPv6.
    pub other: bool,
}

/// Of all ports.
#[derive(Default)]
pub(crate) struct Autoconf {
    pub(crate) dad: Dad,
    ports: BTreeMap<u16, PortConf>,
    /// Random numbers drawn.
    draws: u64,
}

/// Of one port.
struct PortConf {
    config: AutoConfig,
    secret: KeyedHash,
    progress: Progress,
    /// Link-local addresses that turned out to be another host's.
    duplicates: u8,
    /// `None` before there is a link-local address, and once a router answered.
    solicit: Option<Solicit>,
    routers: Routers,
    prefixes: Vec<slaac::Autonomous>,
    /// Advertisements of strangers and of routers that are known: a flood of the former does not
    /// keep the latter from being renewed.
    heard: [PerSecond; 2],
}

impl Autoconf {
    /// When [`expire`] has something to do.
    pub(crate) fn next_deadline(&self) -> Instant {
        let ports = self.ports.values().map(PortConf::next_deadline);
        ports.fold(self.dad.next_deadline(), Instant::min)
    }

    fn port(&mut self, id: PortId) -> Option<&mut PortConf> {
        self.ports.get_mut(&id.0)
    }

    /// A port is gone.
    pub(crate) fn forget_port(&mut self, id: PortId) {
        self.ports.remove(&id.0);
        self.dad.forget_port(id.0);
    }
}

impl PortConf {
    fn next_deadline(&self) -> Instant {
        let solicit = self.solicit.map_or(Instant::NEVER, |solicit| solicit.due());
        let prefixes = self.prefixes.iter().map(slaac::Autonomous::next_deadline);
        prefixes.fold(solicit.min(self.routers.next_deadline()), Instant::min)
    }
}

/// A random number.
fn draw(stack: &mut Stack) -> u64 {
    const TAG: u64 = u64::from_be_bytes(*b"autoconf");
    stack.autoconf.draws += 1;
    stack.core.secret.hash([TAG, stack.autoconf.draws])
}

/// Act on what is due, of addresses that are being checked and of ports that configure themselves.
pub(crate) fn expire(stack: &mut Stack) {
    dad::expire(stack);
    let now = stack.core.cx.now;
    let due = |(&id, conf): (&u16, &PortConf)| (conf.next_deadline() <= now).then_some(PortId(id));
    let ports: Vec<PortId> = stack.autoconf.ports.iter().filter_map(due).collect();
    for id in ports {
        router::expire(stack, id);
        slaac::expire(stack, id);
    }
}

impl Stack {
    /// Have a port make itself a link-local address, find its routers, and make itself addresses of
    /// their prefixes, each checked for duplicates before it is used (RFC 4862). What there is can
    /// be seen by [`Stack::addresses`] and [`Stack::autoconf`]. Anew if it was running.
    ///
    /// # Errors
    /// [`AutoconfError`].
    pub fn autoconfigure(&mut self, id: PortId, config: AutoConfig) -> Result<(), AutoconfError> {
        let port = self.ports.get(id.0).ok_or(AutoconfError::NoPort)?;
        if port.limits.link != LinkKind::Ethernet {
            return Err(AutoconfError::NoLinkLayer);
        }
        self.stop_autoconf(id);
        let secret = config.secret.map_or(self.core.secret, |[k0, k1]| KeyedHash::new(k0, k1));
        let conf = PortConf {
            config,
            secret,
            progress: Progress::Checking,
            duplicates: 0,
            solicit: None,
            routers: Routers::default(),
            prefixes: Vec::new(),
            heard: [PerSecond::default(); 2],
        };
        self.autoconf.ports.insert(id.0, conf);
        let made = slaac::make_link_local(self, id);
        if made.is_err() {
            self.autoconf.forget_port(id);
        }
        self.addresses_changed();
        made
    }

    /// A port with an IPv6 address that the user set has a link-local one too (RFC 4291 section
    /// 2.1), made of its link address, and one without loses it. To be called after each such
    /// change. Nothing happens on a port that is autoconfigured, which sees to that itself, that
    /// has a link-local address of the user's, or whose frames have no link header.
    ///
    /// # Errors
    /// [`AddressError`].
    pub fn follow_link_local(&mut self, id: PortId) -> Result<(), AddressError> {
        let port = self.ports.get(id.0).ok_or(AddressError::NoPort)?;
        if port.limits.link != LinkKind::Ethernet || self.autoconf.ports.contains_key(&id.0) {
            return Ok(());
        }
        let all = port.addresses.iter().filter(|a| a.ip().is_ipv6());
        let made = all.clone().find(|a| a.origin == Origin::LinkLocal).map(inet::Address::ip);
        let is_local = |ip| matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
        let mut users = all.filter(|a| a.origin != Origin::LinkLocal);
        let is_needed = users.clone().count() > 0 && !users.any(|a| is_local(a.ip()));
        match (is_needed, made) {
            (true, None) => self.add_address(id, slaac::link_local(port.mac)),
            (false, Some(ip)) => {
                self.remove_address(id, ip);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Stop configuring a port; the addresses and routes that it got so are removed. `false` if it
    /// was not autoconfigured.
    pub fn stop_autoconf(&mut self, id: PortId) -> bool {
        if self.autoconf.ports.remove(&id.0).is_none() {
            return false;
        }
        let own = |origin| matches!(origin, Origin::LinkLocal | Origin::Stable | Origin::Temporary);
        let own = |a: &&inet::Address| own(a.origin) && a.ip().is_ipv6();
        let addresses: Vec<IpAddr> =
            self.addresses(id).iter().filter(own).map(|a| a.ip()).collect();
        for ip in addresses {
            self.remove_address(id, ip);
        }
        self.routes.remove(|r| r.origin == RouteOrigin::Advertised && r.port == id.0);
        self.neighbours.forget_times(id.0);
        self.addresses_changed();
        true
    }

    /// What autoconfiguration knows of a port; `None` if it is not autoconfigured.
    pub fn autoconf(&self, id: PortId) -> Option<AutoconfStatus> {
        let conf = self.autoconf.ports.get(&id.0)?;
        let (managed, other) = conf.routers.managed_other;
        Some(AutoconfStatus {
            progress: conf.progress,
            routers: conf.routers.list().to_vec(),
            hop_limit: conf.routers.hop_limit,
            mtu: conf.routers.mtu,
            managed,
            other,
        })
    }

    /// The name servers that routers of a port advertise (RFC 8106); a link-local one is on the
    /// port's link.
    pub fn dns_servers(&self, id: PortId) -> Vec<Ipv6Addr> {
        let conf = self.autoconf.ports.get(&id.0);
        conf.map(|conf| conf.routers.servers().collect()).unwrap_or_default()
    }

    /// The search domains that routers of a port advertise (RFC 8106).
    pub fn dns_search(&self, id: PortId) -> Vec<String> {
        let conf = self.autoconf.ports.get(&id.0);
        conf.map(|conf| conf.routers.domains().map(str::to_owned).collect()).unwrap_or_default()
    }
}
