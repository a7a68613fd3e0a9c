//! Multicast groups of a host: the sources from which a port receives each group, and their reports
//! by IGMP and MLD.
//!
//! Called by: `stack/groups`. [`Filter`] has the sources that sockets want, and merges them;
//! [`Changes`] has the pending reports of a change. `host.rs` is the state machine of one port and
//! IP version, `check.rs` decides which messages are believed, `output.rs` packs messages. RFC
//! 1112, RFC 3376, RFC 3810. Limits: `groups_per_port`, `sources_per_group`,
//! `group_reports_per_second`.

pub mod check;
mod host;
mod output;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::{BTreeMap, BTreeSet};

pub use host::{GroupRow, Host};
use output::Record;
pub use output::{Message, PACKET_HEADERS_MAX, packet};
use wire::group::RecordKind;

/// All hosts. Each host is always a member, and never reports it (RFC 1112 section 4).
pub const ALL_SYSTEMS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
/// All IPv4 routers: the destination of leave messages.
pub const ALL_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 2);
/// Routers that receive IGMPv3 reports.
pub const IGMPV3_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 22);
/// All routers of IPv6 on the link.
pub const ALL_ROUTERS_V6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
/// Routers that receive MLDv2 reports.
pub const MLDV2_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);

/// Is every host a member of this group, without joining it? `224.0.0.1`, `ff01::1` and `ff02::1`.
/// RFC 1112 7.2-a.
pub fn is_all_nodes(group: IpAddr) -> bool {
    match group {
        IpAddr::V4(a) => a == ALL_SYSTEMS,
        IpAddr::V6(a) => matches!(a.segments(), [0xff01 | 0xff02, 0, 0, 0, 0, 0, 0, 1]),
    }
}

/// Is membership of this group reported to routers and switches? Not if it is the all-nodes group,
/// if it is limited to a host (scope 1), or if it has no scope (0).
/// RFC 3376 5-a, RFC 3810 6-a.
pub fn is_reported(group: IpAddr) -> bool {
    match group {
        IpAddr::V4(a) => a != ALL_SYSTEMS,
        IpAddr::V6(a) => a.segments()[0] & 0xf > 1 && !is_all_nodes(group),
    }
}

/// Is this group limited to its link? Then packets to it are not routed: the sender has to name the
/// link (RFC 4291 section 2.7; RFC 5771 section 4).
pub fn is_link_scoped(group: IpAddr) -> bool {
    match group {
        IpAddr::V4(a) => a.octets()[..3] == [224, 0, 0],
        IpAddr::V6(a) => a.is_multicast() && a.segments()[0] & 0xf <= 2,
    }
}

// The pending reports of a group's changes. Each change is reported as often as the robustness
// variable requires, so that one report may be lost.
//
// RFC 3376 section 5.1, RFC 3810 section 6.1. A change that comes before all reports of an earlier
// change were sent is merged with the earlier one.

/// The most sources with a pending change; if there are more, the whole filter is reported instead.
const SOURCES_MAX: usize = 512;

/// The pending reports of a group.
#[derive(Debug, Default)]
struct Changes {
    /// How many more reports of the whole filter are to be sent.
    whole: u8,
    /// How many more reports of each of these sources are to be sent.
    sources: BTreeMap<IpAddr, u8>,
}

impl Changes {
    /// Note a change of the filter, which is then reported `times` times.
    /// RFC 3376 5.1-a, RFC 3810 6.1-a.
    fn note(&mut self, old: &Filter, new: &Filter, times: u8) {
        if old.mode != new.mode {
            *self = Changes { whole: times, sources: BTreeMap::new() };
            return;
        }
        let differing = old.sources.symmetric_difference(&new.sources);
        self.sources.extend(differing.map(|&source| (source, times)));
        if self.sources.len() > SOURCES_MAX {
            *self = Changes { whole: times, sources: BTreeMap::new() };
        }
    }

    fn are_none(&self) -> bool {
        self.whole == 0 && self.sources.is_empty()
    }

    /// The records of the next report, which then counts as sent.
    /// RFC 3376 5.1-b, RFC 3810 6.1-b.
    fn report(&mut self, group: IpAddr, filter: &Filter) -> Vec<Record> {
        let mut records = Vec::new();
        if self.whole > 0 {
            self.whole -= 1;
            let kind = match filter.mode {
                Mode::Include => RecordKind::ToInclude,
                Mode::Exclude => RecordKind::ToExclude,
            };
            records.push(Record::new(kind, group, filter.sources.iter().copied()));
        } else {
            let takes =
                |wanted| self.sources.keys().copied().filter(move |&s| filter.takes(s) == wanted);
            records.push(Record::new(RecordKind::Allow, group, takes(true)));
            records.push(Record::new(RecordKind::Block, group, takes(false)));
            records.retain(|record| !record.sources.is_empty());
        }
        // The whole filter reports each source as well.
        self.sources.retain(|_, left| {
            *left = left.saturating_sub(1);
            *left > 0
        });
        records
    }
}

// The filter of a socket, and the merged filter of its port: which sources of a group are received.
//
// RFC 3376 sections 2, 3.1 and 3.2, RFC 3678.

/// How a list of sources is to be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Only these sources are received.
    Include,
    /// All sources but these are received.
    Exclude,
}

/// The sources from which a group is received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// How `sources` is to be understood.
    pub mode: Mode,
    /// The sources that are named.
    pub sources: BTreeSet<IpAddr>,
}

impl Filter {
    /// No source, as if the group had not been joined.
    pub const NOTHING: Filter = Filter { mode: Mode::Include, sources: BTreeSet::new() };
    /// Every source: an ordinary join.
    pub const ANYTHING: Filter = Filter { mode: Mode::Exclude, sources: BTreeSet::new() };

    /// Only these sources.
    pub fn include(sources: impl IntoIterator<Item = IpAddr>) -> Filter {
        Filter { mode: Mode::Include, sources: sources.into_iter().collect() }
    }

    /// All sources but these.
    pub fn exclude(sources: impl IntoIterator<Item = IpAddr>) -> Filter {
        Filter { mode: Mode::Exclude, sources: sources.into_iter().collect() }
    }

    /// Does the filter admit this source?
    #[inline]
    pub fn takes(&self, source: IpAddr) -> bool {
        let is_named = !self.sources.is_empty() && self.sources.contains(&source);
        is_named == (self.mode == Mode::Include)
    }

    /// Does the filter admit no source?
    pub fn is_nothing(&self) -> bool {
        self.mode == Mode::Include && self.sources.is_empty()
    }

    /// The filter of a port whose sockets have these filters: it admits a source if any of them
    /// does.
    /// RFC 3376 3.2-a, 3.2-b, RFC 3810 4.2-a.
    pub fn merged<'a>(filters: impl Iterator<Item = &'a Filter>) -> Filter {
        let mut included = BTreeSet::new();
        let mut excluded: Option<BTreeSet<IpAddr>> = None;
        for filter in filters {
            match (filter.mode, &mut excluded) {
                (Mode::Include, _) => included.extend(filter.sources.iter().copied()),
                (Mode::Exclude, None) => excluded = Some(filter.sources.clone()),
                (Mode::Exclude, Some(all)) => all.retain(|s| filter.sources.contains(s)),
            }
        }
        match excluded {
            None => Filter { mode: Mode::Include, sources: included },
            Some(mut all) => {
                all.retain(|source| !included.contains(source));
                Filter { mode: Mode::Exclude, sources: all }
            }
        }
    }
}
