//! The calls by which programs autoconfigure a port, and the work that is due.
//!
//! Called by: programs, with [`Stack::autoconfigure`]; `poll.rs` when something is due.
//! RFC 4862, RFC 4861 section 6.3, RFC 4291 section 2.1, RFC 8106.

use core::net::{IpAddr, Ipv6Addr};

use base::{KeyedHash, LinkKind, PerSecond};
use inet::router::Routers;
use inet::{Origin, RouteOrigin};

use super::{AutoConfig, AutoconfError, AutoconfStatus, PortConf, Progress, dad, router, slaac};
use crate::addresses::AddressError;
use crate::handles::PortId;
use crate::stack::Stack;

/// Do what is due for addresses that are being checked and for ports that configure themselves.
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
    /// Autoconfigure a port: it makes itself a link-local address, finds its routers, and makes
    /// itself addresses in their prefixes. Each address is checked for duplicates before it is used
    /// (RFC 4862). [`Stack::addresses`] and [`Stack::autoconf`] show the result. If
    /// autoconfiguration was running already, it starts anew.
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

    /// Give a port on which the user has set an IPv6 address a link-local address too (RFC 4291
    /// section 2.1), made from its link address. Remove the link-local address when the port has no
    /// address of the user's any more. Call this after each change of the user's addresses. Nothing
    /// happens on a port that is autoconfigured and makes its own, that has a link-local address of
    /// the user's, or whose frames have no link header.
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

    /// Stop autoconfiguring a port, and remove the addresses and routes that it got in this way.
    /// `false` if the port was not autoconfigured.
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

    /// The state of autoconfiguration on a port; `None` if it is not autoconfigured.
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

    /// The name servers that routers of a port advertise (RFC 8106). A server with a link-local
    /// address is on the port's link.
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
