//! Handles the messages about groups that a host receives: queries of routers, reports of other
//! hosts.
//!
//! Called by: `stack/groups`. RFC 3376 sections 5.2 and 7.2, RFC 3810 sections 6.2 and 8.2, RFC
//! 2236 section 3. The answers are made when they are due (`host.rs`).

use core::net::IpAddr;

use base::{Duration, Instant};
use wire::group::{Query, Version};

use super::Host;
use crate::group::is_reported;

/// Query response interval of the older versions (RFC 3376 section 8.3).
const RESPONSE_INTERVAL: Duration = Duration::from_secs(10);
/// The most sources of a query that are kept. A query that names more is answered for all sources.
pub(super) const ASKED_MAX: usize = 512;

impl Host {
    /// Process a query of a router.
    /// RFC 3376 5.2-a, RFC 3810 6.2-b.
    pub fn query(&mut self, query: &Query<'_>, now: Instant) {
        if query.robustness > 0 {
            self.robustness = query.robustness;
        }
        if query.interval > Duration::ZERO {
            self.query_interval = query.interval;
        }
        self.note_older(query, now);
        self.choose_version(now);
        // An IGMPv1 router allows ten seconds for the answer.
        let older = self.speaks == Version::V1;
        let most = if older { RESPONSE_INTERVAL } else { query.max_response };
        if self.speaks != Version::V3 {
            self.query_older(query.group, most, now);
        } else {
            self.query_current(query, most, now);
        }
        self.look_ahead();
    }

    /// Note that the querier uses an older version. RFC 3376 7.2.1-a, RFC 3810 8.2.1-a.
    fn note_older(&mut self, query: &Query<'_>, now: Instant) {
        let timeout = self.query_interval.saturating_mul(self.robustness.into());
        let until = now + timeout + RESPONSE_INTERVAL;
        match (query.version, query.group) {
            (Version::V1, _) => self.v1_until = until,
            (Version::V2, None) => self.v2_until = until,
            _ => {}
        }
    }

    fn query_older(&mut self, group: Option<IpAddr>, most: Duration, now: Instant) {
        let Host { groups, random, .. } = self;
        let asked = |of: &IpAddr| group.is_none_or(|group| group == *of) && is_reported(*of);
        for (_, state) in groups.iter_mut().filter(|(of, _)| asked(of)) {
            // An answer that is due within that time is not delayed (RFC 2236 section 3).
            if !state.filter.is_nothing() && state.answer_at > now + most {
                state.answer_at = now + random.below(most);
            }
        }
    }

    fn query_current(&mut self, query: &Query<'_>, most: Duration, now: Instant) {
        let at = now + self.random.below(most);
        // Rule 1: an answer that is due sooner answers this query as well.
        if self.answer_at < at {
            return;
        }
        // Rule 2.
        let Some(group) = query.group else {
            self.answer_at = at;
            return;
        };
        let Some(state) = self.groups.get_mut(&group).filter(|_| is_reported(group)) else {
            return;
        };
        let is_pending = state.answer_at != Instant::NEVER;
        let asks_all = query.sources.is_empty() || (is_pending && state.asked.is_empty());
        if asks_all || state.asked.len() + query.sources.len() > ASKED_MAX {
            // Rule 4, and rule 3 without sources.
            state.asked.clear();
        } else {
            // Rule 5, and rule 3 with sources.
            state.asked.extend(query.sources.iter());
        }
        state.answer_at = state.answer_at.min(at);
    }

    /// Another host has reported that it is a member. In older versions one report for each group
    /// is enough.
    /// RFC 3376 7.2.2-a.
    pub fn heard_report(&mut self, group: IpAddr, now: Instant) {
        self.choose_version(now);
        if self.speaks == Version::V3 {
            return;
        }
        if let Some(state) = self.groups.get_mut(&group).filter(|s| !s.filter.is_nothing()) {
            (state.answer_at, state.changes_at) = (Instant::NEVER, Instant::NEVER);
            state.repeats = 0;
            state.was_last = false;
        }
        self.look_ahead();
    }
}
