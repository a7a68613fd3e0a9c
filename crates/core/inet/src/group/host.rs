//! The host's side of IGMP or MLD on one port: what the port receives, what the host reports to
//! routers, and when. `heard.rs` handles messages from others.
//!
//! Called by: `stack/groups`, which passes the time and sends the messages. Both protocols have the
//! same state machine (RFC 3810 section 1). RFC 3376 sections 5 and 7.2, RFC 3810 sections 6 and
//! 8.2, RFC 2236 sections 3 and 6, RFC 2710 sections 4 and 5. Deadlines are exact: nothing is due
//! before [`Host::next_deadline`].

mod heard;

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use base::{Duration, Instant, IpVersion, KeyedHash};
use wire::group::{RecordKind, Version};

use super::output::{self, Message, Out, Record};
use super::{Changes, Filter, Mode, is_reported};

/// Robustness variable and query interval until a querier announces others (RFC 3376 sections 8.1
/// and 8.2).
const ROBUSTNESS: u8 = 2;
const QUERY_INTERVAL: Duration = Duration::from_secs(125);
/// The longest time between the reports of a change (RFC 3376 section 8.11, RFC 3810 section 9.11).
const UNSOLICITED_INTERVAL: Duration = Duration::from_secs(1);
/// The same time in the older versions (RFC 2236 section 8.10).
const UNSOLICITED_INTERVAL_OLDER: Duration = Duration::from_secs(10);

/// The groups of one port and IP version.
#[derive(Debug)]
pub struct Host {
    version: IpVersion,
    random: Random,
    groups: BTreeMap<IpAddr, Group>,
    robustness: u8,
    query_interval: Duration,
    /// Until when a querier of IGMPv1 is assumed to be on the link; `v2_until`: one of IGMPv2 or
    /// MLDv1.
    v1_until: Instant,
    v2_until: Instant,
    speaks: Version,
    /// When the answer to a general query is due.
    answer_at: Instant,
    out: VecDeque<Out>,
    deadline: Instant,
}

#[derive(Debug)]
struct Group {
    filter: Filter,
    changes: Changes,
    /// When the next report of changes is due. In older versions: when the next unsolicited report
    /// or leave message is due.
    changes_at: Instant,
    /// Unsolicited reports still to be sent, in older versions.
    repeats: u8,
    /// This host was the last member on the link to report, so it sends a leave message (RFC 2236
    /// section 3).
    was_last: bool,
    /// When the answer to a query about this group is due.
    answer_at: Instant,
    /// The sources that the query names; empty: all sources.
    asked: BTreeSet<IpAddr>,
}

impl Group {
    fn new() -> Group {
        Group {
            filter: Filter::NOTHING,
            changes: Changes::default(),
            changes_at: Instant::NEVER,
            repeats: 0,
            was_last: false,
            answer_at: Instant::NEVER,
            asked: BTreeSet::new(),
        }
    }

    /// Stop the timers. Timers of one version have no meaning in another version.
    fn cancel(&mut self) {
        self.changes = Changes::default();
        (self.changes_at, self.answer_at) = (Instant::NEVER, Instant::NEVER);
        self.repeats = 0;
        self.asked.clear();
    }

    fn is_over(&self) -> bool {
        self.filter.is_nothing() && self.changes_at == Instant::NEVER
    }

    /// The answer to the query whose answer is due; `None` if there is nothing to report.
    /// RFC 3376 5.2-b, RFC 3810 6.3-b.
    fn answer(&mut self, group: IpAddr) -> Option<Record> {
        let (filter, asked) = (&self.filter, core::mem::take(&mut self.asked));
        if filter.is_nothing() {
            return None;
        }
        if asked.is_empty() {
            return Some(current_state(group, filter));
        }
        let wanted = asked.into_iter().filter(|&source| filter.takes(source));
        let record = Record::new(RecordKind::IsInclude, group, wanted);
        (!record.sources.is_empty()).then_some(record)
    }
}

fn current_state(group: IpAddr, filter: &Filter) -> Record {
    let kind = match filter.mode {
        Mode::Include => RecordKind::IsInclude,
        Mode::Exclude => RecordKind::IsExclude,
    };
    Record::new(kind, group, filter.sources.iter().copied())
}

/// A group, for output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRow {
    /// The group.
    pub group: IpAddr,
    /// The sources from which the port receives the group.
    pub filter: Filter,
    /// When the next message about the group is due, if nothing else happens; [`Instant::NEVER`] if
    /// none is.
    pub report_at: Instant,
}

impl Host {
    /// A host without groups. Delays are drawn with `secret`; each `salt` (the port) gives another
    /// series of delays.
    pub fn new(version: IpVersion, secret: KeyedHash, salt: u64) -> Host {
        Host {
            version,
            random: Random { secret, salt, drawn: 0 },
            groups: BTreeMap::new(),
            robustness: ROBUSTNESS,
            query_interval: QUERY_INTERVAL,
            v1_until: Instant::ZERO,
            v2_until: Instant::ZERO,
            speaks: Version::V3,
            answer_at: Instant::NEVER,
            out: VecDeque::new(),
            deadline: Instant::NEVER,
        }
    }

    /// When [`Host::expire`] or [`Host::next_message`] has something to do.
    #[inline]
    pub fn next_deadline(&self) -> Instant {
        if self.out.is_empty() { self.deadline } else { Instant::ZERO }
    }

    /// The filter of a group; `None` if it is not joined.
    pub fn filter(&self, group: IpAddr) -> Option<&Filter> {
        let filter = &self.groups.get(&group)?.filter;
        (!filter.is_nothing()).then_some(filter)
    }

    /// The number of groups, including those that were left and whose end is still being reported.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Are there no groups?
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The version in use, by the numbers of IGMP.
    pub fn speaks(&self, now: Instant) -> Version {
        match self.version {
            IpVersion::V4 if now < self.v1_until => Version::V1,
            _ if now < self.v2_until => Version::V2,
            _ => Version::V3,
        }
    }

    /// All groups that are joined.
    pub fn rows(&self) -> impl Iterator<Item = GroupRow> {
        let joined = self.groups.iter().filter(|(_, state)| !state.filter.is_nothing());
        joined.map(|(&group, state)| {
            let report_at = state.changes_at.min(state.answer_at).min(self.answer_at);
            GroupRow { group, filter: state.filter.clone(), report_at }
        })
    }

    /// From now on the port receives `group` from the sources that `filter` admits. RFC 3376 5.1-a,
    /// RFC 3810 6.1-a.
    pub fn set(&mut self, group: IpAddr, filter: Filter, now: Instant) {
        self.choose_version(now);
        let (speaks, robustness) = (self.speaks, self.robustness);
        let state = self.groups.entry(group).or_insert_with(Group::new);
        let old = core::mem::replace(&mut state.filter, filter);
        if old != state.filter && is_reported(group) {
            if speaks == Version::V3 {
                state.changes.note(&old, &state.filter, robustness);
                state.changes_at = now;
            } else if old.is_nothing() {
                // RFC 2236 section 3, RFC 2710 section 4.
                (state.repeats, state.changes_at) = (robustness, now);
            } else if state.filter.is_nothing() {
                let says_so = state.was_last && speaks == Version::V2;
                state.repeats = 0;
                state.changes_at = if says_so { now } else { Instant::NEVER };
            }
        }
        if state.is_over() {
            self.groups.remove(&group);
        }
        self.look_ahead();
    }

    /// The port is on another link, whose routers have no reports of its groups: report all groups
    /// as if they were joined at `now`.
    /// RFC 3376 5.1-a, RFC 3810 6.1-a.
    pub fn rejoin(&mut self, now: Instant) {
        self.choose_version(now);
        let (speaks, robustness) = (self.speaks, self.robustness);
        let joined = |(group, state): &(&IpAddr, &mut Group)| {
            is_reported(**group) && !state.filter.is_nothing()
        };
        for (_, state) in self.groups.iter_mut().filter(joined) {
            state.changes_at = now;
            match speaks {
                Version::V3 => state.changes.note(&Filter::NOTHING, &state.filter, robustness),
                _ => state.repeats = robustness,
            }
        }
        self.look_ahead();
    }

    /// Use the oldest version that a querier on the link needs. RFC 3376 7.2.1-c, RFC 3810 8.2.1-c.
    fn choose_version(&mut self, now: Instant) {
        let speaks = self.speaks(now);
        if speaks == self.speaks {
            return;
        }
        self.speaks = speaks;
        self.answer_at = Instant::NEVER;
        self.groups.values_mut().for_each(Group::cancel);
        self.groups.retain(|_, state| !state.filter.is_nothing());
        self.out.clear();
        self.look_ahead();
    }

    /// Make the messages that are due. The caller has to take earlier ones first: no messages are
    /// made before.
    pub fn expire(&mut self, now: Instant) {
        self.choose_version(now);
        if self.deadline > now || !self.out.is_empty() {
            return;
        }
        let general = self.answer_at <= now;
        if general {
            self.answer_at = Instant::NEVER;
        }
        let Host { groups, random, out, speaks, .. } = self;
        for (&group, state) in groups.iter_mut() {
            match *speaks {
                Version::V3 => state.expire(group, general, now, random, out),
                older => state.expire_older(older, group, now, random, out),
            }
        }
        self.groups.retain(|_, state| !state.is_over());
        self.look_ahead();
    }

    /// The next message to be sent from `src`, of at most `room` bytes.
    pub fn next_message(&mut self, src: IpAddr, room: usize) -> Option<Message> {
        output::next(&mut self.out, src, room)
    }

    fn look_ahead(&mut self) {
        let groups = self.groups.values().map(|state| state.changes_at.min(state.answer_at));
        self.deadline = groups.min().unwrap_or(Instant::NEVER).min(self.answer_at);
    }
}

impl Group {
    /// Make the messages that are due in the current version. RFC 3376 5.2-c, RFC 3810 6.3-a.
    fn expire(
        &mut self,
        group: IpAddr,
        general: bool,
        now: Instant,
        random: &mut Random,
        out: &mut VecDeque<Out>,
    ) {
        if self.changes_at <= now {
            let records = self.changes.report(group, &self.filter);
            out.extend(records.into_iter().map(Out::Record));
            self.changes_at = match self.changes.are_none() {
                true => Instant::NEVER,
                false => now + random.below(UNSOLICITED_INTERVAL),
            };
        }
        if general && is_reported(group) && !self.filter.is_nothing() {
            out.push_back(Out::Record(current_state(group, &self.filter)));
        }
        if self.answer_at <= now {
            self.answer_at = Instant::NEVER;
            out.extend(self.answer(group).map(Out::Record));
        }
    }

    fn expire_older(
        &mut self,
        version: Version,
        group: IpAddr,
        now: Instant,
        random: &mut Random,
        out: &mut VecDeque<Out>,
    ) {
        let is_due = self.answer_at <= now || self.changes_at <= now;
        if !is_due {
            return;
        }
        if self.answer_at <= now {
            self.answer_at = Instant::NEVER;
        }
        if self.filter.is_nothing() {
            self.changes_at = Instant::NEVER;
            out.push_back(Out::Leave(group));
            return;
        }
        if self.changes_at <= now {
            self.repeats = self.repeats.saturating_sub(1);
            self.changes_at = match self.repeats {
                0 => Instant::NEVER,
                _ => now + random.below(UNSOLICITED_INTERVAL_OLDER),
            };
        }
        self.was_last = true;
        out.push_back(Out::Report(version, group));
    }
}

/// Random delays that other hosts cannot predict.
#[derive(Debug)]
struct Random {
    secret: KeyedHash,
    salt: u64,
    drawn: u64,
}

impl Random {
    /// A random delay of at most `most`; more than zero unless `most` is zero.
    fn below(&mut self, most: Duration) -> Duration {
        self.drawn += 1;
        let drawn = self.secret.hash([self.salt, self.drawn]);
        Duration::from_nanos(drawn.checked_rem(most.as_nanos()).map_or(0, |n| n + 1))
    }
}

#[cfg(test)]
mod tests;
