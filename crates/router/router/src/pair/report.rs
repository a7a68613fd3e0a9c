//! What `show pair`, metrics and the log have of the partner.
//!
//! Called by: `pair.rs`, a few times a second.

use base::{Duration, Instant};
use filter::firewall::{NotImported, Paired};
use stack::UdpError;
use statesync::{Refused, Session};

use crate::config::Pair;

/// How often it is made.
const EVERY: Duration = Duration::from_millis(250);

/// A partner that was never there may come within this time.
const PATIENCE: Duration = Duration::from_secs(1);

/// What was counted here.
pub(super) struct Report {
    pub(super) imported: u64,
    pub(super) updated: u64,
    refused: [u64; NotImported::ALL.len()],
    due: Instant,
    /// Datagrams refused for their key or version when the report was made last, and what that
    /// means.
    strange: [u64; 2],
    failure: Option<String>,
}

impl Report {
    pub(super) fn new(now: Instant) -> Report {
        let refused = [0; NotImported::ALL.len()];
        Report { imported: 0, updated: 0, refused, due: now, strange: [0; 2], failure: None }
    }

    pub(super) fn refuse(&mut self, why: NotImported) {
        if let Some(count) = self.refused.get_mut(why as usize) {
            *count += 1;
        }
    }

    /// The report, if it is due.
    pub(super) fn due(
        &mut self,
        settings: &Pair,
        session: &Session,
        no_socket: Option<UdpError>,
        now: Instant,
    ) -> Option<Paired> {
        if now < self.due {
            return None;
        }
        self.due = now + EVERY;
        self.look(settings, session, no_socket, now);
        let counts = session.counts();
        let copies = NotImported::ALL.iter().zip(self.refused).map(|(why, n)| (why.name(), n));
        let datagrams = Refused::ALL.iter().map(|why| (why.name(), counts.refused(*why)));
        let refused = copies.chain(datagrams).filter(|(_, count)| *count > 0).collect();
        Some(Paired {
            peer: settings.far(),
            is_up: session.is_up(),
            since: session.since(),
            sent: counts.sent,
            received: counts.received,
            imported: self.imported,
            updated: self.updated,
            datagrams_sent: counts.datagrams_sent,
            datagrams_received: counts.datagrams_received,
            repeated: counts.repeated,
            gaps: counts.gaps,
            lost: counts.lost,
            bulks: [counts.bulks_sent, counts.bulks_received],
            refused,
            failure: self.failure.clone(),
        })
    }

    /// Why is the partner not there?
    fn look(
        &mut self,
        settings: &Pair,
        session: &Session,
        no_socket: Option<UdpError>,
        now: Instant,
    ) {
        let counts = session.counts();
        let strange = [Refused::Key, Refused::Version].map(|why| counts.refused(why));
        let [keys, versions] = [0, 1].map(|at| strange[at] > self.strange[at]);
        self.strange = strange;
        let peer = settings.far();
        self.failure = match no_socket {
            _ if session.is_up() => None,
            Some(why) => Some(format!("no socket at {}: {why}", settings.near())),
            None if keys => {
                Some(format!("{peer} has another key: copy the file of one to the other"))
            }
            None if versions => Some(format!("{peer} has another version: update one of both")),
            // A hello comes each 250 ms, and the next report may have none.
            None if self.failure.as_ref().is_some_and(|why| why.contains("another")) => {
                return;
            }
            // A partner that begins at the same time needs a moment.
            None if !session.was_up() && now.since(session.since()) < PATIENCE => None,
            None => Some(format!("{peer} does not answer")),
        };
    }
}
