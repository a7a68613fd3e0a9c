//! Calls of programs about the firewall: rules are set, states are shown and ended.
//!
//! Called by: programs; the router's worker when its configuration changes.

use std::sync::Arc;

use base::Instant;
use filter::firewall::{Copied, Imported, NotImported};
use filter::nat::{Shards, Sockets};
use filter::packet::Tuple;
use filter::{Firewall, Published};

use super::sockets;
use crate::stack::Stack;

/// Separates the firewall's secret from the other values that the stack's secret determines.
const PURPOSE: u64 = 134;

impl Stack {
    /// Filter and translate packets by these rules from now on; `None` passes everything as it is
    /// and forgets all states. States that other rules have passed are judged again. Packets are
    /// asked about while forwarding is on ([`Stack::set_forwarding`]). The other shards follow the
    /// first one, each with its own states; another generation tells them that rules are new.
    pub fn set_filter(&mut self, rules: Option<Arc<Published>>) {
        let now = self.core.cx.now;
        let (index, count) = (self.shard_index(), self.steering().count());
        let shards = Shards::of_count(index, count).unwrap_or(Shards::ALONE);
        match (rules, &mut self.firewall) {
            (None, firewall) => {
                *firewall = None;
                let (drops, pool) = (&mut self.core.drops, &mut self.core.cx.pool);
                self.forwarding.held.clear(drops, pool);
            }
            (Some(rules), Some(firewall)) => firewall.publish(rules),
            (Some(rules), firewall @ None) => {
                let [a, b, c, d] = [0, 1, 2, 3].map(|n| self.core.secret.hash([PURPOSE, n]));
                let budget = &self.core.cx.budget;
                let made = Firewall::new(rules, shards, [a, b, c, d], budget, now);
                *firewall = Some(Box::new(made));
            }
        }
    }

    /// The firewall, if rules are set: its rules, counters, states and mappings.
    pub fn filter(&self) -> Option<&Firewall> {
        self.firewall.as_deref()
    }

    /// The firewall, to take lines of its log or to end states.
    pub fn filter_mut(&mut self) -> Option<&mut Firewall> {
        self.firewall.as_deref_mut()
    }

    /// Take a copy of a state of the partner's, as [`Firewall::import`] does, which has `version`
    /// and the errors. Outside ports of this router's sockets are not given to it.
    ///
    /// # Errors
    /// [`NotImported`]; without rules it is [`NotImported::Rule`].
    pub fn import_state(&mut self, copied: &Copied, version: u64) -> Result<Imported, NotImported> {
        let Stack { core, ports, connections, listeners, udp, pings, firewall, .. } = self;
        let secret = &core.secret;
        let own = sockets::Own { ports, connections, listeners, udp, pings, secret };
        let is_bound = |tuple: &Tuple| own.has(tuple);
        let (sockets, cx) = (Sockets(&is_bound), &mut core.cx);
        let firewall = firewall.as_mut().ok_or(NotImported::Rule)?;
        firewall.import(copied, version, sockets, &mut cx.budget, cx.now)
    }

    /// Do the work of the firewall that is due, once a turn.
    #[cold]
    #[inline(never)]
    pub(crate) fn advance_filter(&mut self) {
        let (cx, drops) = (&mut self.core.cx, &mut self.core.drops);
        if let Some(firewall) = &mut self.firewall {
            firewall.advance(&mut cx.budget, cx.now);
            self.forwarding.held.expire(cx.now, drops, &mut cx.pool);
        }
    }

    /// When [`Stack::advance_filter`] has something to do.
    pub(crate) fn filter_deadline(&self) -> Instant {
        let Some(firewall) = &self.firewall else { return Instant::NEVER };
        let cx = &self.core.cx;
        firewall.next_deadline(&cx.budget, cx.now).min(self.forwarding.held.next_deadline())
    }
}
