//! Which sources of a group are wanted: what a socket says, and what its port makes of all of them.
//!
//! Called by: `stack/groups` for sockets, `host.rs` for the port. RFC 3376 sections 2, 3.1 and 3.2,
//! RFC 3678.

use core::net::IpAddr;
use std::collections::BTreeSet;

/// How a list of sources is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// These sources alone.
    Include,
    /// All sources but these.
    Exclude,
}

/// The sources of a group that are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// How [`Filter::sources`] is meant.
    pub mode: Mode,
    /// The sources that are named.
    pub sources: BTreeSet<IpAddr>,
}

impl Filter {
    /// No source at all, as if the group had not been joined.
    pub const NOTHING: Filter = Filter { mode: Mode::Include, sources: BTreeSet::new() };
    /// Any source: an ordinary join.
    pub const ANYTHING: Filter = Filter { mode: Mode::Exclude, sources: BTreeSet::new() };

    /// These sources alone.
    pub fn include(sources: impl IntoIterator<Item = IpAddr>) -> Filter {
        Filter { mode: Mode::Include, sources: sources.into_iter().collect() }
    }

    /// All sources but these.
    pub fn exclude(sources: impl IntoIterator<Item = IpAddr>) -> Filter {
        Filter { mode: Mode::Exclude, sources: sources.into_iter().collect() }
    }

    /// Is this source wanted?
    #[inline]
    pub fn takes(&self, source: IpAddr) -> bool {
        let is_named = !self.sources.is_empty() && self.sources.contains(&source);
        is_named == (self.mode == Mode::Include)
    }

    /// Is no source wanted?
    pub fn is_nothing(&self) -> bool {
        self.mode == Mode::Include && self.sources.is_empty()
    }

    /// The filter of a port whose sockets have these: it takes what any of them takes.
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
