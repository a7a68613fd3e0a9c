//! The information in the router advertisements of one link: default routers, prefixes on the link,
//! routes, name servers, and settings of the link, each with its lifetime.
//!
//! Called by: `stack/autoconf/router.rs`, which makes routes and addresses from it. RFC 4861
//! section 6.3, RFC 4191 section 3 (a host of type C), RFC 8106 section 5.3. Limits: `routers`,
//! `prefixes`, `advertised_routes`, `name_servers`, `search_domains`.

use core::net::{IpAddr, Ipv6Addr};

use base::{Budget, Cidr, DropReason, Duration, Instant, Limit, Mtu};
use wire::nd::{NdOption, Preference, Prefix, RouterAdvertisement};

use crate::route::{Route, RouteOrigin};
use crate::slaac::until;

/// The least and the most time between solicitations, in ms, that an advertisement can set. With
/// less, a forged advertisement would make us flood the link; with more, neighbours would be found
/// too late.
const RETRANSMIT: (u32, u32) = (100, 10_000);
/// The least and the most time, in ms, that a neighbour is reachable after a confirmation:
/// MAX_REACHABLE_TIME of RFC 4861 section 6.2.1 is an hour.
const REACHABLE: (u32, u32) = (1_000, 3_600_000);

/// A router of the default router list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Router {
    /// Its link-local address.
    pub ip: Ipv6Addr,
    /// The preference that the router advertises, RFC 4191.
    pub preference: Preference,
    /// The router is no default router from this time on.
    pub expires: Instant,
    /// The router did not answer when it was last solicited for its link address.
    pub is_silent: bool,
}

#[derive(Clone, Debug)]
struct OnLink {
    prefix: Cidr,
    expires: Instant,
}

#[derive(Clone, Debug)]
struct Specific {
    dest: Cidr,
    via: Ipv6Addr,
    preference: Preference,
    expires: Instant,
}

/// The information from the routers of a link.
#[derive(Clone, Debug, Default)]
pub struct Routers {
    routers: Vec<Router>,
    on_link: Vec<OnLink>,
    specific: Vec<Specific>,
    servers: Vec<(Ipv6Addr, Instant)>,
    domains: Vec<(String, Instant)>,
    /// The hop limit that routers recommend, if any does.
    pub hop_limit: Option<u8>,
    /// The MTU that routers announced for the link.
    pub mtu: Option<Mtu>,
    /// How long a neighbour is reachable, if a router has announced it.
    pub reachable: Option<Duration>,
    /// The time between solicitations, if a router has announced it.
    pub retransmit: Option<Duration>,
    /// Routers announce that addresses (M), or other settings (O), are available by DHCPv6.
    pub managed_other: (bool, bool),
}

/// Check an advertisement: its source, and its hop limit, which shows that no router forwarded it.
///
/// # Errors
/// [`DropReason::IcmpMalformed`], [`DropReason::RaNotFromLink`].
/// RFC 4861 6.1.2-a, 6.1.2-b.
pub fn advertisement_input(
    message: &[u8],
    src: Ipv6Addr,
    hop_limit: u8,
) -> Result<RouterAdvertisement<'_>, DropReason> {
    if hop_limit != 255 || !src.is_unicast_link_local() {
        return Err(DropReason::RaNotFromLink);
    }
    RouterAdvertisement::parse(message)
}

impl Routers {
    /// Process an advertisement of the router `from` on a link whose device sends packets of up to
    /// `link` bytes. Returns the prefixes from which to make addresses.
    pub fn learn(
        &mut self,
        from: Ipv6Addr,
        ra: &RouterAdvertisement<'_>,
        link: Mtu,
        now: Instant,
        budget: &mut Budget,
    ) -> Vec<Prefix> {
        self.learn_settings(ra);
        let mut autonomous = Vec::new();
        let mut default = (ra.preference, u32::from(ra.lifetime_s));
        for option in ra.options.iter() {
            match option {
                NdOption::Prefix(prefix) => {
                    // RFC 4861 6.3.4-c, RFC 4862 5.5.3-a, 5.5.3-b, 5.5.3-c.
                    let useless = prefix.prefix.is_unicast_link_local()
                        || prefix.prefix.is_multicast()
                        || prefix.prefix_len == 0;
                    if useless {
                        continue;
                    }
                    if prefix.on_link {
                        self.learn_on_link(&prefix, now, budget);
                    }
                    if prefix.autonomous && prefix.preferred_s <= prefix.valid_s {
                        autonomous.push(prefix);
                    }
                }
                // RFC 4861 6.3.4-d.
                NdOption::Mtu(mtu) => {
                    let fits = |mtu: &Mtu| *mtu >= Mtu::MIN_V6 && *mtu <= link;
                    let mtu = usize::try_from(mtu).ok().and_then(Mtu::new).filter(fits);
                    self.mtu = mtu.or(self.mtu);
                }
                // RFC 4191 section 3.1: the option replaces the values of the header.
                NdOption::Route { prefix_len: 0, preference, lifetime_s, .. } => {
                    default = (preference, lifetime_s);
                }
                NdOption::Route { prefix, prefix_len, preference, lifetime_s } => {
                    if let Some(dest) = Cidr::new(IpAddr::V6(prefix), prefix_len)
                        && !prefix.is_multicast()
                        && !prefix.is_unicast_link_local()
                    {
                        let expires = until(now, lifetime_s);
                        let route =
                            Specific { dest: dest.network(), via: from, preference, expires };
                        self.learn_route(route, now, budget);
                    }
                }
                option => self.learn_names(option, now, budget),
            }
        }
        self.learn_router(from, default, now, budget);
        autonomous
    }

    /// Keep the name servers and search domains in an option. RFC 8106 5.3.1-a.
    fn learn_names(&mut self, option: NdOption<'_>, now: Instant, budget: &mut Budget) {
        match option {
            NdOption::Rdnss { lifetime_s, servers } => {
                for server in servers.chunks_exact(16) {
                    let octets: [u8; 16] = core::array::from_fn(|i| server[i]);
                    let ip = Ipv6Addr::from(octets);
                    if !ip.is_multicast() && !ip.is_unspecified() && !ip.is_loopback() {
                        let until = until(now, lifetime_s);
                        keep(&mut self.servers, ip, until, now, Limit::NameServers, budget);
                    }
                }
            }
            NdOption::Dnssl { lifetime_s, domains } => {
                for name in domains.iter() {
                    let until = until(now, lifetime_s);
                    keep(&mut self.domains, name, until, now, Limit::SearchDomains, budget);
                }
            }
            _ => {}
        }
    }

    /// RFC 4861 6.3.4-b: settings that the sender does not give stay as they are.
    fn learn_settings(&mut self, ra: &RouterAdvertisement<'_>) {
        self.managed_other = (ra.managed, ra.other);
        if ra.hop_limit != 0 {
            self.hop_limit = Some(ra.hop_limit);
        }
        let bounded = |ms: u32, (least, most): (u32, u32)| {
            (ms != 0).then(|| Duration::from_millis(u64::from(ms.clamp(least, most))))
        };
        self.reachable = bounded(ra.reachable_ms, REACHABLE).or(self.reachable);
        self.retransmit = bounded(ra.retransmit_ms, RETRANSMIT).or(self.retransmit);
    }

    /// Add, renew or remove a default router. RFC 4861 6.3.4-a, 6.3.5-a.
    fn learn_router(
        &mut self,
        ip: Ipv6Addr,
        (preference, lifetime_s): (Preference, u32),
        now: Instant,
        budget: &mut Budget,
    ) {
        let expires = until(now, lifetime_s);
        let router = Router { ip, preference, expires, is_silent: false };
        match self.routers.iter().position(|r| r.ip == ip) {
            Some(at) if lifetime_s == 0 => {
                self.routers.remove(at);
            }
            Some(at) => self.routers[at] = router,
            None if lifetime_s == 0 => {}
            None if budget.admits(Limit::Routers, self.routers.len()) => self.routers.push(router),
            None => {}
        }
    }

    /// Add, renew or remove a prefix that is on the link. RFC 4861 6.3.4-c.
    fn learn_on_link(&mut self, prefix: &Prefix, now: Instant, budget: &mut Budget) {
        let Some(cidr) = Cidr::new(IpAddr::V6(prefix.prefix), prefix.prefix_len) else { return };
        let (cidr, expires) = (cidr.network(), until(now, prefix.valid_s));
        match self.on_link.iter().position(|p| p.prefix == cidr) {
            Some(at) if prefix.valid_s == 0 => {
                self.on_link.remove(at);
            }
            Some(at) => self.on_link[at].expires = expires,
            None if prefix.valid_s == 0 => {}
            None if budget.admits(Limit::Prefixes, self.on_link.len()) => {
                self.on_link.push(OnLink { prefix: cidr, expires });
            }
            None => {}
        }
    }

    /// Add, renew or remove a route. RFC 4191 3-a.
    fn learn_route(&mut self, route: Specific, now: Instant, budget: &mut Budget) {
        let like = |r: &Specific| (r.dest, r.via) == (route.dest, route.via);
        match self.specific.iter().position(like) {
            Some(at) if route.expires <= now => {
                self.specific.remove(at);
            }
            Some(at) => self.specific[at] = route,
            None if route.expires <= now => {}
            None if budget.admits(Limit::AdvertisedRoutes, self.specific.len()) => {
                self.specific.push(route);
            }
            None => {}
        }
    }

    /// Forget expired entries.
    /// RFC 4861 6.3.5-a.
    pub fn expire(&mut self, now: Instant) {
        self.routers.retain(|r| r.expires > now);
        self.on_link.retain(|p| p.expires > now);
        self.specific.retain(|r| r.expires > now);
        self.servers.retain(|(_, expires)| *expires > now);
        self.domains.retain(|(_, expires)| *expires > now);
    }

    /// When [`Routers::expire`] has something to do.
    pub fn next_deadline(&self) -> Instant {
        let lists = self.routers.iter().map(|r| r.expires);
        let lists = lists.chain(self.on_link.iter().map(|p| p.expires));
        let lists = lists.chain(self.specific.iter().map(|r| r.expires));
        let lists = lists.chain(self.servers.iter().map(|s| s.1));
        lists.chain(self.domains.iter().map(|d| d.1)).min().unwrap_or(Instant::NEVER)
    }

    /// Note that a router does not answer, or answers again. `true` if that changes anything.
    /// RFC 4861 6.3.6-a.
    pub fn set_silent(&mut self, ip: Ipv6Addr, is_silent: bool) -> bool {
        match self.routers.iter_mut().find(|r| r.ip == ip && r.is_silent != is_silent) {
            Some(router) => {
                router.is_silent = is_silent;
                true
            }
            None => false,
        }
    }

    /// Forget a router that announces that it is none (RFC 4861 section 7.2.5). `true` if it was
    /// one.
    /// RFC 4861 7.2.5-b.
    pub fn forget_router(&mut self, ip: Ipv6Addr) -> bool {
        let before = self.routers.len() + self.specific.len();
        self.routers.retain(|r| r.ip != ip);
        self.specific.retain(|r| r.via != ip);
        self.routers.len() + self.specific.len() != before
    }

    /// The default router list.
    pub fn list(&self) -> &[Router] {
        &self.routers
    }

    /// Name servers, in the order in which they became known.
    pub fn servers(&self) -> impl Iterator<Item = Ipv6Addr> {
        self.servers.iter().map(|(ip, _)| *ip)
    }

    /// Search domains, in the order in which they became known.
    pub fn domains(&self) -> impl Iterator<Item = &str> {
        self.domains.iter().map(|(name, _)| name.as_str())
    }

    fn is_silent(&self, ip: Ipv6Addr) -> bool {
        self.routers.iter().any(|r| r.ip == ip && r.is_silent)
    }

    /// The resulting routes over `port`: networks on the link, and for each other destination the
    /// route of the best router. A router that answers is preferred to one that does not; then the
    /// preference decides, then the order in which the routers became known.
    /// RFC 4861 6.3.6-a, RFC 4191 3-a.
    pub fn routes(&self, port: u16) -> Vec<Route> {
        let route = |dest: Cidr, via: Option<Ipv6Addr>, expires| Route {
            mtu: self.mtu,
            expires,
            ..Route::new(dest, via.map(IpAddr::V6), port).with_origin(RouteOrigin::Advertised)
        };
        let mut routes: Vec<Route> =
            self.on_link.iter().map(|p| route(p.prefix, None, p.expires)).collect();
        let everywhere = Cidr { addr: IpAddr::V6(Ipv6Addr::UNSPECIFIED), prefix_len: 0 };
        let defaults = self.routers.iter().map(|r| Specific {
            dest: everywhere,
            via: r.ip,
            preference: r.preference,
            expires: r.expires,
        });
        let mut best: Vec<(Specific, (bool, Preference))> = Vec::new();
        for one in self.specific.iter().cloned().chain(defaults) {
            let rank = (!self.is_silent(one.via), one.preference);
            match best.iter_mut().find(|(other, _)| other.dest == one.dest) {
                Some(other) if rank > other.1 => *other = (one, rank),
                Some(_) => {}
                None => best.push((one, rank)),
            }
        }
        // A prefix that is on the link needs no router (RFC 4861 section 5.2).
        best.retain(|(one, _)| !self.on_link.iter().any(|p| p.prefix == one.dest));
        routes.extend(best.into_iter().map(|(r, _)| route(r.dest, Some(r.via), r.expires)));
        routes
    }
}

/// Keep `item` until `expires`. At the limit it replaces the item that expires first, if that
/// expires before the new one.
/// RFC 8106 5.3.1-a.
fn keep<T: PartialEq>(
    list: &mut Vec<(T, Instant)>,
    item: T,
    expires: Instant,
    now: Instant,
    limit: Limit,
    budget: &mut Budget,
) {
    if expires <= now {
        list.retain(|(other, _)| *other != item);
    } else if let Some(known) = list.iter_mut().find(|(other, _)| *other == item) {
        known.1 = expires;
    } else if budget.admits(limit, list.len()) {
        list.push((item, expires));
    } else if let Some(first) = list.iter_mut().min_by_key(|(_, expires)| *expires)
        && first.1 < expires
    {
        *first = (item, expires);
    }
}

#[cfg(test)]
mod tests;
