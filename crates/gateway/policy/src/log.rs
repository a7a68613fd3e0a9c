//! The log: a JSON object a line for each refusal, and for each flow at its end.
//!
//! Called by: `fence`; `learn` reads what is written here. The owner writes the lines and rotates
//! files. Limit: [`LINES_MAX`] lines wait, others are counted as lost.

use core::net::{IpAddr, SocketAddr};
use std::collections::{HashMap, VecDeque};

use base::{Duration, Instant};
use gateway::{End, Ends, Failure, Protocol};
use serde::{Deserialize, Serialize};

use crate::compiled::Destination;
use crate::fence::Hello;

/// Lines that wait for the owner.
pub const LINES_MAX: usize = 4_096;
/// Flows that are remembered until their end.
const FLOWS_MAX: usize = 65_536;
/// How long nothing more is said about datagrams of a guest to a destination that were refused.
const SAID: Duration = Duration::from_secs(60);
/// Such destinations that are remembered.
const SAID_MAX: usize = 4_096;

/// A line of the log. What does not apply is left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// When it was written: UTC, RFC 3339, with milliseconds.
    pub time: String,
    /// `tcp`, `udp`, `echo`, or `dns` for a question.
    pub protocol: String,
    /// The guest's address and port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SocketAddr>,
    /// The address and port beyond the gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<SocketAddr>,
    /// The names that the resolver has given the destination, the last one first; or the name that
    /// was asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// The name in the flow's TLS hello.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sni: Option<String>,
    /// `allow` or `deny`.
    pub verdict: String,
    /// The rule: `FILE:LINE`, `--allow:NUMBER`, or what decided in its place, as `default`.
    pub rule: String,
    /// Bytes from the guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_out: Option<u64>,
    /// Bytes to the guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_in: Option<u64>,
    /// Seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<f64>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What is known of a flow that is not over.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    pub(crate) to: Destination,
    pub(crate) names: Vec<String>,
    pub(crate) sni: Option<String>,
    pub(crate) rule: String,
    pub(crate) hello: Hello,
    /// It holds the pin of its address.
    pub(crate) holds: bool,
    /// Why it was refused after its beginning.
    pub(crate) refusal: Option<String>,
}

/// The lines that wait, and the flows that are not over.
#[derive(Debug, Default)]
pub(crate) struct Log {
    queue: VecDeque<Line>,
    /// Nobody reads the lines.
    is_unread: bool,
    lost: u64,
    flows: HashMap<(Protocol, Ends), Note>,
    /// Refused datagrams by guest and destination, and when a line said so.
    said: HashMap<(IpAddr, Destination), Instant>,
    lost_reports: u64,
}

impl Log {
    pub(crate) fn set_read(&mut self, is_read: bool) {
        self.is_unread = !is_read;
    }

    /// Is it worth making a line?
    pub(crate) fn is_read(&self) -> bool {
        !self.is_unread
    }

    pub(crate) fn push(&mut self, line: Line) {
        if self.queue.len() < LINES_MAX {
            self.queue.push_back(line);
        } else {
            self.lost += 1;
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Line> {
        self.queue.pop_front()
    }

    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// Remember a flow; returns the one that had the same ends.
    pub(crate) fn begin(&mut self, ends: Ends, note: Note) -> Option<Note> {
        let key = (note.to.protocol, ends);
        if self.flows.len() >= FLOWS_MAX && !self.flows.contains_key(&key) {
            return Some(note);
        }
        self.flows.insert(key, note)
    }

    /// A flow.
    pub(crate) fn flow(&mut self, protocol: Protocol, ends: &Ends) -> Option<&mut Note> {
        self.flows.get_mut(&(protocol, *ends))
    }

    pub(crate) fn end(&mut self, protocol: Protocol, ends: &Ends) -> Option<Note> {
        self.flows.remove(&(protocol, *ends))
    }

    /// The flows for which `is_there` does not hold.
    pub(crate) fn others(
        &self,
        is_there: impl Fn(Protocol, &Ends) -> bool,
    ) -> Vec<(Protocol, Ends)> {
        let others = self.flows.keys().filter(|(protocol, ends)| !is_there(*protocol, ends));
        others.copied().collect()
    }

    /// Is a refusal worth a line? Of datagrams and echoes the first one to a destination is, and
    /// the next one after a minute.
    pub(crate) fn says(&mut self, guest: IpAddr, to: Destination, now: Instant) -> bool {
        if to.protocol == Protocol::Tcp {
            return true;
        }
        if self.said.get(&(guest, to)).is_some_and(|&at| now < at + SAID) {
            return false;
        }
        if self.said.len() >= SAID_MAX {
            self.said.retain(|_, at| now < *at + SAID);
        }
        if self.said.len() >= SAID_MAX {
            self.said.clear();
        }
        self.said.insert((guest, to), now);
        true
    }

    /// Have more reports been lost by now?
    pub(crate) fn has_lost(&mut self, reports: u64) -> bool {
        core::mem::replace(&mut self.lost_reports, reports) != reports
    }
}

/// What an end means, in words; `None`: nothing went wrong.
pub(crate) fn error(end: End) -> Option<String> {
    let failure = |why: Failure| match why {
        Failure::Refused => "connection refused".to_owned(),
        Failure::Reset => "connection reset".to_owned(),
        Failure::Unreachable(why) => format!("unreachable: {why:?}").to_lowercase(),
        Failure::TimedOut => "no answer in time".to_owned(),
        Failure::Full => "the gateway has no descriptor, port or memory left".to_owned(),
    };
    match end {
        End::Finished => None,
        End::ResetByGuest => Some("reset by the guest".to_owned()),
        End::ResetByOutside(why) => Some(format!("ended by the other side: {}", failure(why))),
        End::NotConnected(why) => Some(failure(why)),
        End::NotTaken => Some("the guest did not take it".to_owned()),
        End::Refused => Some("refused".to_owned()),
        End::Unanswered => Some("a limit of the gateway is reached".to_owned()),
        End::Evicted => Some("it was idle and made room for another".to_owned()),
        End::ShutDown => Some("the gateway has ended".to_owned()),
    }
}

/// Seconds of a span, in milliseconds.
pub(crate) fn seconds(since: Instant, now: Instant) -> f64 {
    now.since(since).as_millis() as f64 / 1_000.0
}

/// A time since 1970 in the form of RFC 3339: `2026-11-28T20:23:03.120Z`.
pub fn rfc3339(unix: Duration) -> String {
    let millis = unix.as_millis();
    let (seconds, days) = (millis / 1_000 % 86_400, millis / 86_400_000);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z",
        millis % 1_000
    )
}

/// The date of a day since 1970, in the Gregorian calendar: eras of 400 years that begin in March.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_dates() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_795_897_383, "2026-11-28T20:23:03.000Z"),
            (4_107_542_399, "2100-02-28T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(Duration::from_secs(seconds)), expected);
        }
    }

    #[test]
    fn lines_that_nobody_takes_are_counted() {
        let mut log = Log::default();
        (0..LINES_MAX + 3).for_each(|_| log.push(Line::default()));
        assert_eq!((log.queue.len(), log.lost()), (LINES_MAX, 3));
    }
}
