//! Reverse paths: do packets to an address leave by a port? If a packet came by a port that does
//! not lead to its source, the source is forged, or the port should not check sources.
//!
//! Called by: `stack/forward/plain/source.rs` for single packets, `stack/forward/burst.rs` for the
//! flows of a burst. RFC 2827, RFC 3704 section 2, RFC 8704. docs/decisions/0109.

use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;
use core::sync::atomic::Ordering;

use super::access::FOR_SOME_USERS;
use super::access::NOT_FOR_TRANSIT;
use super::group::{GroupIndex, Leads};
use super::rib::Found;
use super::rule::{Action, Rule, VRF_PRIORITY};
use super::{PATHS_MAX, Route, Routes, Sender, View};
use crate::vrf::Vrf;

/// How the source of a packet is checked. Each port has its check (RFC 3704).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SourceCheck {
    /// Any source passes.
    #[default]
    Off,
    /// There must be a route to the source, by any port. For ports of networks whose packets come
    /// in by several ports.
    Loose,
    /// Packets to the source must leave by that port.
    Strict,
}

impl SourceCheck {
    /// All checks, by their names in configuration files.
    pub const ALL: [(&'static str, SourceCheck); 3] =
        [("strict", SourceCheck::Strict), ("loose", SourceCheck::Loose), ("off", SourceCheck::Off)];

    /// Does a source to which there is a route pass? `leads_back`: the route leaves by the port.
    #[inline(always)]
    fn takes(self, leads_back: bool) -> bool {
        leads_back || self != SourceCheck::Strict
    }
}

impl fmt::Display for SourceCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = SourceCheck::ALL.iter().find(|(_, check)| check == self);
        f.write_str(named.map_or("", |(name, _)| name))
    }
}

impl FromStr for SourceCheck {
    type Err = ();

    fn from_str(text: &str) -> Result<SourceCheck, ()> {
        SourceCheck::ALL.iter().find(|(name, _)| *name == text).map(|(_, check)| *check).ok_or(())
    }
}

impl View<'_> {
    /// Does a forwarded packet pass the check if it came by `port` and its source has this group in
    /// the table of that port's VRF? Rules are ignored. Also `false` if only the RIB can decide:
    /// [`Routes::passes`] uses it.
    #[inline]
    pub fn passes(&self, check: SourceCheck, port: u16, group: GroupIndex) -> bool {
        let leads = self.shared.groups.leads_by(group, port, NOT_FOR_TRANSIT);
        check == SourceCheck::Off || matches!(leads, Leads::Known(back) if check.takes(back))
    }

    /// Was there ever a prefix with several next hops that share its packets?
    #[inline]
    pub fn has_shared_prefixes(&self) -> bool {
        self.shared.groups.had_several.load(Ordering::Relaxed)
    }
}

impl Routes {
    /// Does a packet from `src` to `dst`, which came by `port` of a VRF and leaves by `to_port`,
    /// pass the check? Answers come by `to_port`, so the table is the one that the rules select for
    /// these answers; without rules it is that of the VRF by which the packet came, even if it
    /// leaves for another one.
    pub fn passes(
        &self,
        check: SourceCheck,
        (port, vrf): (u16, Vrf),
        (src, dst): (IpAddr, IpAddr),
        to_port: u16,
    ) -> bool {
        let answers = Sender::Transit { in_port: to_port, vrf };
        let selects = |rule: &Rule| rule.selects(src, Some(dst), answers);
        let leads_back = |table| self.leads_back(table, src, port, answers);
        check == SourceCheck::Off
            || self.rules.find(vrf, selects, leads_back).is_ok_and(|back| {
                // A route that drops packets is none to the source: RFC 5635 section 4.
                back.is_some_and(|back| check.takes(back))
            })
    }

    /// Does a packet from `src` to `dst`, an address of ours, pass the check? The program or any
    /// user may send the answers: the packet passes if the answers of one of them would leave by
    /// the port.
    pub fn passes_to_host(
        &self,
        check: SourceCheck,
        (port, vrf): (u16, Vrf),
        (src, dst): (IpAddr, IpAddr),
    ) -> bool {
        let passes =
            |table| self.may_lead_back(table, src, port).is_some_and(|back| check.takes(back));
        let of_rule = |rule: &Rule| match rule.action {
            Action::Table(table) if rule.may_select_ours(src, dst) => Some(table),
            _ => None,
        };
        // No rule from the VRF's own table on applies to packets of a VRF.
        let rules =
            if vrf.is_none() { self.rules.all() } else { self.rules.around(VRF_PRIORITY).0 };
        check == SourceCheck::Off
            || passes(vrf.table())
            || rules.iter().filter_map(of_rule).any(passes)
    }

    /// Does a packet of this sender to `addr` leave by `port`? `None` if there is no route,
    /// `Some(None)` if the route drops the packet.
    #[allow(clippy::option_option, reason = "without a route another table is asked")]
    fn leads_back(
        &self,
        table: u32,
        addr: IpAddr,
        port: u16,
        sender: Sender<'_>,
    ) -> Option<Option<bool>> {
        match self.leads_by(table, addr, port, sender.restriction()) {
            Leads::Known(leads) => Some(Some(leads)),
            Leads::Discard => Some(None),
            Leads::Nothing => None,
            Leads::Restricted => self.prefixes_of(table, addr).find_map(|found| {
                let admitted = self.usable(found).filter(|route| route.admits(sender));
                let mut best = best_of(admitted.clone())?;
                let is_discard = admitted.clone().next()?.discard.is_some();
                Some((!is_discard).then(|| best.any(|route| route.port == port)))
            }),
        }
    }

    /// May a packet to `addr` leave by `port`, for at least one sender? `None` if there is no
    /// route.
    fn may_lead_back(&self, table: u32, addr: IpAddr, port: u16) -> Option<bool> {
        match self.leads_by(table, addr, port, FOR_SOME_USERS) {
            Leads::Known(leads) => return Some(leads),
            Leads::Discard | Leads::Nothing => return None,
            Leads::Restricted => {}
        }
        let mut found = None;
        for of_prefix in self.prefixes_of(table, addr) {
            if self.usable(of_prefix).any(|route| route.port == port) {
                return Some(true);
            }
            let mut usable = self.usable(of_prefix).peekable();
            if usable.peek().is_some_and(|route| route.discard.is_none()) {
                found = Some(false);
            }
            // No sender's lookup goes past a prefix with a route for all.
            if usable.any(|route| route.access.is_none()) {
                break;
            }
        }
        found
    }

    #[inline]
    fn leads_by(&self, table: u32, addr: IpAddr, port: u16, restrictions: u32) -> Leads {
        let view = self.view();
        view.shared.groups.leads_by(view.lookup(addr, table), port, restrictions)
    }

    fn usable<'a>(&'a self, found: Found<'a>) -> impl Iterator<Item = &'a Route> + Clone {
        found.routes.iter().filter(|route| !self.is_down(route.port))
    }
}

/// The first of the routes of one prefix, and the routes that share packets with it. `None` if
/// there is no route.
fn best_of<'a>(
    routes: impl Iterator<Item = &'a Route> + Clone,
) -> Option<impl Iterator<Item = &'a Route>> {
    let best = routes.clone().next()?;
    let is_equal = move |route: &&Route| match best.weight {
        Some(_) => route.weight.is_some() && route.rank() == best.rank(),
        None => core::ptr::eq(*route, best),
    };
    Some(routes.filter(is_equal).take(PATHS_MAX))
}

#[cfg(test)]
mod tests;
