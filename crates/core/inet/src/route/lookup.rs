//! Looks up routes: by the rules, if there are any, then in the FIB, and in the RIB if a route is
//! restricted to some users.
//!
//! Called by: `stack`, for each packet or connection that needs a next hop. RFC 1122 section
//! 3.3.1.1, RFC 1812 section 5.2.4. docs/decisions/0080.

use core::cell::Cell;
use core::net::IpAddr;

use base::Cidr;

use super::ecmp::{self, BUCKETS};
use super::group::{Found, GroupIndex, flow_of};
use super::rib::Found as OfPrefix;
use super::rule::{NoRoute, Rule, RuleError};
use super::{NextHop, PATHS_MAX, Route, Routes, Sender};

impl Routes {
    /// The next hop for a packet of `sender` to `dst`. A route that the sender may not use is
    /// ignored. Source and destination choose among routes that share packets. RFC 1122 3.3.1.1-a.
    ///
    /// # Errors
    /// [`NoRoute`].
    #[inline]
    pub fn lookup(
        &self,
        dst: IpAddr,
        src: Option<IpAddr>,
        sender: Sender<'_>,
    ) -> Result<NextHop, NoRoute> {
        self.lookup_flow(dst, src, flow_of(src, dst), sender)
    }

    /// [`Routes::lookup`] for a packet whose flow has the hash `flow`: an ICMP error is sent like
    /// the flow that it is about.
    ///
    /// # Errors
    /// [`NoRoute`].
    #[inline]
    pub fn lookup_flow(
        &self,
        dst: IpAddr,
        src: Option<IpAddr>,
        flow: u32,
        sender: Sender<'_>,
    ) -> Result<NextHop, NoRoute> {
        if !self.rules.all().is_empty() {
            return self.lookup_by_rules(dst, src, flow, sender);
        }
        self.hop_in(sender.vrf().table(), dst, flow, sender).unwrap_or(Err(NoRoute::None))
    }

    #[cold]
    fn lookup_by_rules(
        &self,
        dst: IpAddr,
        src: Option<IpAddr>,
        flow: u32,
        sender: Sender<'_>,
    ) -> Result<NextHop, NoRoute> {
        let selects = |rule: &Rule| rule.selects(dst, src, sender);
        let look = |table| self.hop_in(table, dst, flow, sender);
        self.rules.find(sender.vrf(), selects, look).flatten()
    }

    /// Does this lookup need the RIB, which belongs to another stack? If no route is found here,
    /// the reason may be that this stack's copy of the RIB is slightly out of date.
    #[cold]
    pub fn needs_rib(&self, dst: IpAddr, src: Option<IpAddr>, sender: Sender<'_>) -> bool {
        if !self.follows() {
            return false;
        }
        let (view, flow, is_needed) = (self.view(), flow_of(src, dst), Cell::new(false));
        let look = |table| match view.find(view.lookup(dst, table), dst, flow, sender.restriction())
        {
            Found::Hop(_) | Found::Discard(_) => Some(()),
            Found::Nothing => None,
            Found::Restricted => {
                is_needed.set(true);
                Some(())
            }
        };
        // Only `is_needed` matters, not the result.
        let _ = self.rules.find(sender.vrf(), |rule| rule.selects(dst, src, sender), look);
        is_needed.get()
    }

    /// [`Routes::lookup`] in one table, without regard to the rules.
    #[inline]
    pub fn lookup_in(
        &self,
        table: u32,
        dst: IpAddr,
        src: Option<IpAddr>,
        sender: Sender<'_>,
    ) -> Option<NextHop> {
        self.hop_in(table, dst, flow_of(src, dst), sender)?.ok()
    }

    /// The next hop by one table, or why its route has none; `None` if the table has no route.
    #[inline]
    fn hop_in(
        &self,
        table: u32,
        dst: IpAddr,
        flow: u32,
        sender: Sender<'_>,
    ) -> Option<Result<NextHop, NoRoute>> {
        let view = self.view();
        match view.find(view.lookup(dst, table), dst, flow, sender.restriction()) {
            Found::Hop(hop) => Some(Ok(hop)),
            Found::Discard(how) => Some(Err(how.into())),
            Found::Nothing => None,
            Found::Restricted => self.walk(table, dst, flow, sender).map(|(_, r)| r.leads(dst)),
        }
    }

    /// Can a rule decide where forwarded packets go? If not, [`super::View::next_hop_of_transit`]
    /// returns the next hop of all forwarded packets that no restricted route concerns.
    #[inline]
    pub fn rules_for_transit(&self) -> bool {
        self.rules.divert_transit
    }

    /// The route whose next hop [`Routes::lookup`] returns, or which drops the packet.
    ///
    /// # Errors
    /// [`NoRoute`]; always, if the RIB belongs to another stack.
    pub fn route_for(
        &self,
        dst: IpAddr,
        src: Option<IpAddr>,
        sender: Sender<'_>,
    ) -> Result<Route, NoRoute> {
        self.route_and_rule_for(dst, src, sender).map(|(route, _)| route)
    }

    /// [`Routes::route_for`], and the rule that selected the route's table; `None` if no rule did,
    /// and the route is in the table of the sender's VRF, or in the main table.
    ///
    /// # Errors
    /// [`NoRoute`].
    pub fn route_and_rule_for(
        &self,
        dst: IpAddr,
        src: Option<IpAddr>,
        sender: Sender<'_>,
    ) -> Result<(Route, Option<Rule>), NoRoute> {
        let selects = |rule: &Rule| rule.selects(dst, src, sender);
        self.rules.find_by(sender.vrf(), selects, |rule, table| {
            if self.follows() {
                return None;
            }
            let (found, route) = self.walk(table, dst, flow_of(src, dst), sender)?;
            Some((found.whole(route), rule.copied()))
        })
    }

    /// The best route in a table to `dst` for a sender, by the RIB. A stack that uses another's FIB
    /// comes here only for a restricted prefix, and has a copy of that prefix and of all that
    /// contain it.
    #[cold]
    fn walk(
        &self,
        table: u32,
        dst: IpAddr,
        flow: u32,
        sender: Sender<'_>,
    ) -> Option<(OfPrefix<'_>, &Route)> {
        self.prefixes_of(table, dst)
            .find_map(|found| Some((found, self.choose(found, dst, flow, sender)?)))
    }

    /// The prefixes of a table that contain `dst`, longest first.
    pub(super) fn prefixes_of(
        &self,
        table: u32,
        dst: IpAddr,
    ) -> impl Iterator<Item = OfPrefix<'_>> {
        let lengths = (0..=if dst.is_ipv6() { 128 } else { 32 }).rev();
        lengths.filter_map(move |len| self.walked(Cidr::new(dst, len)?.network(), table))
    }

    /// The route of one prefix for a sender.
    fn choose<'a>(
        &self,
        found: OfPrefix<'a>,
        dst: IpAddr,
        flow: u32,
        sender: Sender<'_>,
    ) -> Option<&'a Route> {
        let usable = |route: &&Route| route.admits(sender) && !self.is_down(route.port);
        let admitted = found.routes.iter().filter(usable);
        let best = admitted.clone().next()?;
        if best.weight.is_none() {
            return Some(best);
        }
        let equal = admitted.take_while(|route| route.rank() == best.rank());
        let shared = equal.filter(|route| route.weight.is_some()).take(PATHS_MAX);
        // The next hop that this flow has without restrictions is used, if this sender may use it.
        let usual = self.view().next_hop(found.group, dst, flow);
        if let Some(route) = shared.clone().find(|route| Some(route.next_hop(dst)) == usual) {
            return Some(route);
        }
        let weight = |route: &Route| route.weight.map_or(0, |weight| usize::from(weight.get()));
        let total: usize = shared.clone().map(weight).sum();
        // Another hash is used, so that the flows of one bucket are spread over the other routes.
        let mut place = ecmp::bucket(flow.rotate_left(16)) * total / BUCKETS;
        shared.into_iter().find(|route| {
            let is_it = place < weight(route);
            place = place.saturating_sub(weight(route));
            is_it
        })
    }

    /// The least MTU of all routes to `dst` by this next hop, which any sender may use.
    pub fn mtu_over(&self, dst: IpAddr, port: u16, neighbour: IpAddr) -> Option<base::Mtu> {
        let tables = self.tables().into_iter();
        let found = tables.flat_map(|table| self.prefixes_of(table, dst));
        let hops = found.flat_map(|found| found.routes.iter().map(|r| r.next_hop(dst)));
        hops.filter(|hop| (hop.port, hop.neighbour) == (port, neighbour))
            .filter_map(|hop| hop.mtu)
            .min()
    }

    /// Does the sender of a packet matter: are there rules, or routes that not everybody may use?
    #[inline]
    pub fn has_policy(&self) -> bool {
        self.restricted > 0 || !self.rules.all().is_empty()
    }

    /// The rules, in the order in which they apply, without the rule of the main table.
    pub fn rules(&self) -> &[Rule] {
        self.rules.all()
    }

    /// Set the rules to those of the stack that owns the routes; `rules` is in order.
    pub fn set_rules(&mut self, rules: &[Rule]) {
        self.rules.set(rules);
    }

    /// Add a rule.
    ///
    /// # Errors
    /// [`RuleError`].
    pub fn add_rule(&mut self, rule: Rule) -> Result<(), RuleError> {
        let network = |net: Cidr| net.network();
        self.rules.add(Rule { from: rule.from.map(network), to: rule.to.map(network), ..rule })
    }

    /// Remove a rule; `false` if it is not there.
    pub fn remove_rule(&mut self, rule: &Rule) -> bool {
        let network = |net: Cidr| net.network();
        self.rules.remove(&Rule { from: rule.from.map(network), to: rule.to.map(network), ..*rule })
    }

    /// The next-hop group of exactly this prefix. Counters of the group count the prefix's packets.
    pub fn group(&self, dest: Cidr, table: u32) -> GroupIndex {
        self.known(dest, table).map_or(GroupIndex::NONE, |known| known.group())
    }
}
