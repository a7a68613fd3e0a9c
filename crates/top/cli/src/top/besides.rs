//! Figures other than packet counts: an interface's link; a running wirespeed's drops and
//! connections, and what limits these.
//!
//! Called by: `top.rs`, once per screen.

use std::collections::{BTreeMap, HashMap};

use super::limits::{Id, Limits};
use super::port::{Interface, Link};
use super::traffic::Amount;
use crate::running::{Contact, Refused, typed};
use explain::Words;
use wirespeed::control::ControlError;
use wirespeed::control::protocol::{Answer, Connection as Row, Port, Question, Section};

/// A connection of a running program.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    pub(super) id: Id,
    /// The name of its stack.
    pub(super) stack: String,
    pub(super) row: Row,
    /// Segments and stream bytes since the last look, both directions.
    pub(super) moved: Amount,
}

impl Connection {
    /// Segments and stream bytes so far, both directions.
    fn total(&self) -> Amount {
        Amount {
            frames: self.row.segments_in + self.row.segments_out,
            bytes: self.row.bytes_acked + self.row.bytes_received,
        }
    }

    /// The round-trip time, once it was measured.
    pub(super) fn rtt_us(&self) -> Option<u64> {
        Some(self.row.rtt_us).filter(|&us| us > 0)
    }
}

#[cfg(test)]
impl Connection {
    pub(super) fn for_test(local: &str, remote: &str, n: u64) -> Connection {
        let row = Row {
            number: n,
            local: local.to_owned(),
            remote: remote.to_owned(),
            state: "ESTABLISHED".to_owned(),
            cwnd_bytes: 14_480,
            rtt_us: n * 100,
            in_flight: n,
            retransmits: n,
            ..Row::default()
        };
        connection((0, "receiver"), row)
    }
}

/// A reason why packets were dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dropped {
    pub(super) name: String,
    pub(super) total: u64,
    /// Since the last look.
    pub(super) now: u64,
}

/// The values at the last look.
#[derive(Default)]
pub(super) struct Before {
    drops: BTreeMap<String, u64>,
    connections: HashMap<(String, String), Amount>,
    /// There was a last look.
    is_known: bool,
}

/// The source of the figures.
pub(super) enum Besides {
    Interface(Interface),
    Process(Box<OfProcess>),
}

/// A program.
pub(super) struct OfProcess {
    pub(super) contact: Contact,
    /// The names of its stacks, by number.
    pub(super) stacks: Vec<String>,
    pub(super) before: Before,
    pub(super) limits: Limits,
}

impl Besides {
    /// The link since the last call. A program does not report the links of its devices.
    pub(super) fn link(&mut self) -> Link {
        match self {
            Besides::Interface(interface) => interface.look(),
            Besides::Process(..) => Link::default(),
        }
    }

    /// Drops by name, of all stacks and their devices, and connections, as far as the program
    /// answers.
    pub(super) fn look(&mut self) -> (Vec<Dropped>, Vec<Connection>) {
        let Besides::Process(process) = self else { return Default::default() };
        let (mut drops, mut connections) = (BTreeMap::new(), Vec::new());
        for (stack, name) in process.stacks.iter().enumerate() {
            let of = (stack, name.as_str());
            if of_stack(&mut process.contact, of, &mut drops, &mut connections).is_none() {
                break;
            }
        }
        process.before.note(drops, connections)
    }

    /// The limits of the connections that were asked for last; from now on those of `wanted` are
    /// looked at.
    pub(super) fn limits(&mut self, wanted: Vec<Id>) -> HashMap<Id, Words> {
        match self {
            Besides::Interface(_) => HashMap::new(),
            Besides::Process(process) => process.limits.of(wanted),
        }
    }
}

impl Before {
    /// The differences since the last look; zero at the first.
    fn note(
        &mut self,
        drops: BTreeMap<String, u64>,
        mut connections: Vec<Connection>,
    ) -> (Vec<Dropped>, Vec<Connection>) {
        for connection in &mut connections {
            let ends = (connection.row.local.clone(), connection.row.remote.clone());
            // All traffic of a connection that is new since the last look counts.
            let unknown = if self.is_known { Amount::default() } else { connection.total() };
            let before = self.connections.get(&ends).copied().unwrap_or(unknown);
            connection.moved = connection.total().since(before);
        }
        let dropped = drops.iter().map(|(name, &total)| {
            let unknown = if self.is_known { 0 } else { total };
            let before = self.drops.get(name).copied().unwrap_or(unknown);
            Dropped { name: name.clone(), total, now: total.saturating_sub(before) }
        });
        let dropped = dropped.collect();
        let ends = |c: &Connection| ((c.row.local.clone(), c.row.remote.clone()), c.total());
        self.connections = connections.iter().map(ends).collect();
        (self.drops, self.is_known) = (drops, true);
        (dropped, connections)
    }
}

/// `None` if the program does not answer: each further question would wait for it again.
fn of_stack(
    contact: &mut Contact,
    (stack, name): (usize, &str),
    drops: &mut BTreeMap<String, u64>,
    connections: &mut Vec<Connection>,
) -> Option<()> {
    include(drops, typed(page(contact, stack, Section::Drops, 0)?.body).ok());
    let mut cursor = Some(0);
    while let Some(from) = cursor {
        let ports = page(contact, stack, Section::Ports, from)?;
        let rows: Vec<Port> = typed(ports.body).unwrap_or_default();
        rows.into_iter().for_each(|port| include(drops, port.drops));
        cursor = ports.next.filter(|&next| next > from);
    }
    let first = page(contact, stack, Section::Connections, 0)?;
    // Rows that are not understood are of another version, and are not shown.
    let rows: Vec<Row> = typed(first.body).unwrap_or_default();
    connections.extend(rows.into_iter().map(|row| connection((stack, name), row)));
    Some(())
}

/// A page of a section; an empty one if the stack has ended. The program may have closed the
/// connection since the last screen; then the question is asked again.
fn page(contact: &mut Contact, stack: usize, section: Section, cursor: u64) -> Option<Answer> {
    let question = Question::Section { stack, section, cursor };
    let closed = |error: &anyhow::Error| {
        matches!(error.downcast_ref(), Some(ControlError::Closed | ControlError::System { .. }))
    };
    let mut answer = contact.ask(&question);
    if answer.as_ref().is_err_and(closed) {
        answer = contact.ask(&question);
    }
    match answer {
        Ok(answer) => Some(answer),
        Err(error) if error.is::<Refused>() => Some(Answer::default()),
        Err(_) => None,
    }
}

/// Add the drops of a stack or of a device, which may count none.
fn include(drops: &mut BTreeMap<String, u64>, named: Option<BTreeMap<String, u64>>) {
    for (name, count) in named.into_iter().flatten() {
        *drops.entry(name).or_default() += count;
    }
}

fn connection((stack, name): (usize, &str), row: Row) -> Connection {
    let id = Id { stack, number: row.number };
    Connection { id, stack: name.to_owned(), row, moved: Amount::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_of_a_name_are_one_row_whoever_counts_them() {
        let mut drops = BTreeMap::new();
        let counted = |all: &[(&str, u64)]| {
            Some(all.iter().map(|&(name, count)| (name.to_owned(), count)).collect())
        };
        include(&mut drops, counted(&[("tcp_no_listener", 3), ("device_ring_full", 1)]));
        include(&mut drops, counted(&[("device_ring_full", 4)]));
        include(&mut drops, None);
        let drops: Vec<_> = drops.into_iter().collect();
        let expected = [("device_ring_full".to_owned(), 5), ("tcp_no_listener".to_owned(), 3)];
        assert_eq!(drops, expected);
    }

    #[test]
    fn what_came_since_the_last_look_is_counted() {
        let row = |acked: u64| {
            let row = Row {
                local: "a".to_owned(),
                remote: "b".to_owned(),
                bytes_acked: acked,
                bytes_received: 5,
                segments_in: acked / 10,
                ..Row::default()
            };
            connection((0, "one"), row)
        };
        let drops = |n: u64| BTreeMap::from([("tcp_no_socket".to_owned(), n)]);
        let mut before = Before::default();
        let (dropped, connections) = before.note(drops(7), vec![row(100)]);
        assert_eq!((dropped[0].total, dropped[0].now), (7, 0), "nobody knows since when");
        assert_eq!((connections[0].moved, connections[0].rtt_us()), (Amount::default(), None));
        let (dropped, connections) = before.note(drops(9), vec![row(300)]);
        assert_eq!((dropped[0].total, dropped[0].now), (9, 2));
        assert_eq!(connections[0].moved, Amount { frames: 20, bytes: 200 });
    }
}
