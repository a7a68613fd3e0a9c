//! What is still to be reported of a group's changes. Each is reported as often as the robustness
//! variable says, so that one report may be lost.
//!
//! Called by: `host.rs`. RFC 3376 section 5.1, RFC 3810 section 6.1. What comes before the reports
//! of an earlier change are over is merged with it.

use core::net::IpAddr;
use std::collections::BTreeMap;

use wire::group::RecordKind;

use super::filter::{Filter, Mode};
use super::output::Record;

/// Sources whose change is pending, beyond which the whole filter is reported in their place.
const SOURCES_MAX: usize = 512;

/// The pending reports of a group.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Reports that the whole filter is in.
    whole: u8,
    /// Reports that these sources are in.
    sources: BTreeMap<IpAddr, u8>,
}

impl Changes {
    /// The filter has changed, which is to be reported `times` times.
    /// RFC 3376 5.1-a, RFC 3810 6.1-a.
    pub(super) fn note(&mut self, old: &Filter, new: &Filter, times: u8) {
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

    pub(super) fn are_none(&self) -> bool {
        self.whole == 0 && self.sources.is_empty()
    }

    /// The records of the next report, which is thereby made.
    /// RFC 3376 5.1-b, RFC 3810 6.1-b.
    pub(super) fn report(&mut self, group: IpAddr, filter: &Filter) -> Vec<Record> {
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
        // The whole filter says of each source what is to be said.
        self.sources.retain(|_, left| {
            *left = left.saturating_sub(1);
            *left > 0
        });
        records
    }
}
