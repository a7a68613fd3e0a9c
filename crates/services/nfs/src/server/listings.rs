//! Lists the names of a directory in a stable order: by a hash of each name. The hash is the name's
//! cookie.
//!
//! Called by: `dirs.rs`. On some file systems (overlayfs and others) the system's own position of
//! an entry is its index. A client that lists and removes names at the same time would then miss
//! names. The hash depends on the name only, and is the same in each run of the server. Names are
//! read in parts of `LISTING_NAMES`, lowest cookies first; a part is kept for the next call.
//! Limits: `LISTING_NAMES`, `LISTINGS_MAX`, `LISTING_AGE`. Decision: 0121.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use base::{Instant, KeyedHash};

use super::handles::FileId;
use super::tree::locked;
use crate::limits::{LISTING_AGE, LISTING_NAMES, LISTINGS_MAX, NAME_BYTES};

/// The cookies of `.` and `..`, which are listed first.
pub(super) const DOTS: [(u64, &[u8]); 2] = [(1, b"."), (2, b"..")];
/// All cookies are below this, because some clients read them as signed numbers.
pub(super) const COOKIES: u64 = 1 << 63;

/// A name and its cookie.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) cookie: u64,
    pub(super) name: Box<[u8]>,
    pub(super) inode: u64,
}

/// A part of a directory's names: all names with cookies in a range, in the order of their cookies.
#[derive(Debug)]
pub(super) struct Part {
    dir: FileId,
    /// The part contains only names with cookies greater than this.
    after: u64,
    /// The part contains no names with cookies greater than this.
    upto: u64,
    pub(super) names: Vec<Name>,
    read_at: Instant,
}

impl Part {
    /// Is this the last part of the directory?
    pub(super) fn is_end(&self) -> bool {
        self.upto == u64::MAX
    }

    /// The names with cookies greater than `cookie`.
    pub(super) fn behind(&self, cookie: u64) -> &[Name] {
        &self.names[self.names.partition_point(|name| name.cookie <= cookie)..]
    }
}

/// The parts that are kept.
#[derive(Debug)]
pub(super) struct Listings {
    secret: KeyedHash,
    names: usize,
    parts: Mutex<VecDeque<Arc<Part>>>,
}

impl Listings {
    /// `secret` has to be the same in each run.
    pub(super) fn new(secret: KeyedHash) -> Listings {
        Listings { secret, names: LISTING_NAMES, parts: Mutex::default() }
    }

    #[cfg(test)]
    pub(super) fn with_names(mut self, names: usize) -> Listings {
        self.names = names;
        self
    }

    /// The cookie of a name.
    fn cookie(&self, name: &[u8]) -> u64 {
        let mut words = [0_u64; NAME_BYTES / 8 + 2];
        for (word, bytes) in words.iter_mut().zip(name.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_le_bytes(whole);
        }
        words[NAME_BYTES / 8 + 1] = name.len() as u64;
        (self.secret.hash(words) % COOKIES).max(DOTS[1].0 + 1)
    }

    /// The part with the names that follow a cookie. It is a part that was kept, unless a listing
    /// begins here; otherwise it is made of the names that `entries` reads now.
    pub(super) fn part<E>(
        &self,
        dir: FileId,
        after: u64,
        now: Instant,
        entries: impl Iterator<Item = Result<(Box<[u8]>, u64), E>>,
    ) -> Result<Arc<Part>, E> {
        let kept = |part: &&Arc<Part>| {
            let is_young = now.since(part.read_at) < LISTING_AGE;
            part.dir == dir && (part.after..part.upto).contains(&after) && is_young
        };
        if after > DOTS[1].0
            && let Some(part) = locked(&self.parts).iter().find(kept)
        {
            return Ok(part.clone());
        }
        let part = Arc::new(self.read(dir, after, now, entries)?);
        let mut parts = locked(&self.parts);
        parts.retain(|part| part.dir != dir);
        if parts.len() >= LISTINGS_MAX {
            parts.pop_front();
        }
        parts.push_back(part.clone());
        Ok(part)
    }

    /// Read the next part of a directory.
    fn read<E>(
        &self,
        dir: FileId,
        after: u64,
        now: Instant,
        entries: impl Iterator<Item = Result<(Box<[u8]>, u64), E>>,
    ) -> Result<Part, E> {
        let (mut names, mut upto) = (Vec::new(), u64::MAX);
        for entry in entries {
            let (name, inode) = entry?;
            let cookie = self.cookie(&name);
            if cookie <= after || cookie > upto || matches!(&name[..], b"." | b"..") {
                continue;
            }
            names.push(Name { cookie, name, inode });
            if names.len() >= 2 * self.names {
                // Drop the names with the greatest cookies; they belong to the next part.
                names.select_nth_unstable(self.names);
                names.truncate(self.names);
                upto = names.iter().map(|name| name.cookie).max().unwrap_or(upto);
            }
        }
        names.sort_unstable();
        if names.len() > self.names {
            names.truncate(self.names);
            upto = names.last().map_or(upto, |name| name.cookie);
        }
        Ok(Part { dir, after, upto, names, read_at: now })
    }

    /// Drop parts that are too old.
    pub(super) fn forget_unused(&self, now: Instant) {
        locked(&self.parts).retain(|part| now.since(part.read_at) < LISTING_AGE);
    }
}

#[cfg(test)]
mod tests {
    use core::convert::Infallible;

    use super::*;

    const DIR: FileId = FileId { device: 1, inode: 2, born: 3 };

    fn entries(
        names: &[String],
    ) -> impl Iterator<Item = Result<(Box<[u8]>, u64), Infallible>> + use<'_> {
        names.iter().map(|name| Ok((name.as_bytes().into(), 7)))
    }

    /// List all names, `step` at a time.
    fn listed(listings: &Listings, names: &[String], step: usize) -> Vec<String> {
        let (mut after, mut all, now) = (2, Vec::new(), Instant::from_nanos(1));
        loop {
            let Ok(part) = listings.part(DIR, after, now, entries(names));
            let next: Vec<_> = part.behind(after).iter().take(step).collect();
            let Some(last) = next.last() else {
                assert!(part.is_end());
                return all;
            };
            after = last.cookie;
            all.extend(next.iter().map(|name| String::from_utf8_lossy(&name.name).into_owned()));
        }
    }

    #[test]
    fn every_name_is_listed_once_in_parts_of_any_size() {
        let names: Vec<String> = (0..1_000).map(|n| format!("name {n}")).collect();
        for (part, step) in [(1, 1), (7, 3), (100, 1_000), (999, 10), (5_000, 64)] {
            let listings = Listings::new(KeyedHash::new(1, 2)).with_names(part);
            let mut all = listed(&listings, &names, step);
            all.sort_by_key(|name| name[5..].parse::<u32>().expect("a number"));
            assert_eq!(all, names, "{step} names at a time, parts of {part}");
        }
    }

    #[test]
    fn parts_are_bounded_and_forgotten() {
        let listings = Listings::new(KeyedHash::new(1, 2)).with_names(10);
        let names: Vec<String> = (0..1_000).map(|n| n.to_string()).collect();
        let now = Instant::from_nanos(1);
        for inode in 0..100 {
            let dir = FileId { inode, ..DIR };
            let Ok(part) = listings.part(dir, 0, now, entries(&names));
            assert!(part.names.len() == 10 && !part.is_end());
        }
        assert_eq!(locked(&listings.parts).len(), LISTINGS_MAX);
        listings.forget_unused(now + LISTING_AGE);
        assert_eq!(locked(&listings.parts).len(), 0);
    }

    #[test]
    fn a_listing_that_begins_is_read_anew() {
        let listings = Listings::new(KeyedHash::new(1, 2));
        let now = Instant::from_nanos(1);
        let names = ["a".to_owned(), "b".to_owned()];
        let Ok(one) = listings.part(DIR, 0, now, entries(&names[..1]));
        let Ok(both) = listings.part(DIR, 0, now, entries(&names));
        assert_eq!((one.names.len(), both.names.len()), (1, 2));
    }
}
