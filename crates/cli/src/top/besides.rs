//! What is known of a source besides its packets: of an interface its link, of a running wirespeed
//! its drops and connections.
//!
//! Called by: `top.rs`, once a screen. Must not know: packets, screens.

use std::collections::BTreeMap;

use super::port::{Interface, Link};
use crate::running::{Answer, Contact, Question, Refused, Section};
use serde_json::Value;
use wirespeed::control::ControlError;

/// Where figures come from besides packets.
pub(super) enum Besides {
    Interface(Interface),
    /// And its stacks, by their numbers.
    Process(Box<Contact>, Vec<usize>),
}

impl Besides {
    /// The ports' link, since it was asked for last. A program does not say what its devices can.
    pub(super) fn link(&mut self) -> Link {
        match self {
            Besides::Interface(interface) => interface.look(),
            Besides::Process(..) => Link::default(),
        }
    }

    /// Drops by name, of all stacks and their devices, and connections; as far as the program
    /// answers.
    pub(super) fn look(&mut self) -> (Vec<(String, u64)>, Vec<Vec<String>>) {
        let Besides::Process(contact, stacks) = self else { return Default::default() };
        let (mut drops, mut connections) = (BTreeMap::new(), Vec::new());
        for &stack in stacks.iter() {
            if of_stack(contact, stack, &mut drops, &mut connections).is_none() {
                break;
            }
        }
        (drops.into_iter().collect(), connections)
    }
}

/// `None` if the program does not answer: each further question would wait for it again.
fn of_stack(
    contact: &mut Contact,
    stack: usize,
    drops: &mut BTreeMap<String, u64>,
    connections: &mut Vec<Vec<String>>,
) -> Option<()> {
    include(drops, &page(contact, stack, Section::Drops, 0)?.body);
    let mut cursor = Some(0);
    while let Some(from) = cursor {
        let ports = page(contact, stack, Section::Ports, from)?;
        rows(&ports.body).for_each(|port| include(drops, &port["drops"]));
        cursor = ports.next.filter(|&next| next > from);
    }
    let first = page(contact, stack, Section::Connections, 0)?;
    connections.extend(rows(&first.body).map(connection));
    Some(())
}

/// A page of a section, an empty one of a stack that has ended. Over a connection that was closed,
/// because the last screen is long ago, it is asked again.
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

fn rows(body: &Value) -> impl Iterator<Item = &Value> {
    body.as_array().into_iter().flatten()
}

/// Those of a stack or of a device, which may count none.
fn include(drops: &mut BTreeMap<String, u64>, named: &Value) {
    for (name, count) in named.as_object().into_iter().flatten() {
        *drops.entry(name.clone()).or_default() += count.as_u64().unwrap_or(0);
    }
}

fn connection(row: &Value) -> Vec<String> {
    let text = |key: &str| row[key].as_str().unwrap_or("-").to_owned();
    let number = |key: &str| row[key].as_u64().map_or("-".to_owned(), |n| n.to_string());
    let rtt = row["rtt_us"].as_u64().map_or("-".to_owned(), |us| format!("{:.2}", us as f64 / 1e3));
    vec![
        text("local"),
        text("remote"),
        text("state"),
        number("cwnd_bytes"),
        rtt,
        number("in_flight"),
        number("retransmits"),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn drops_of_a_name_are_one_row_whoever_counts_them() {
        let mut drops = BTreeMap::new();
        include(&mut drops, &json!({ "tcp_no_listener": 3, "device_ring_full": 1 }));
        include(&mut drops, &json!({ "device_ring_full": 4 }));
        include(&mut drops, &Value::Null);
        let drops: Vec<_> = drops.into_iter().collect();
        let expected = [("device_ring_full".to_owned(), 5), ("tcp_no_listener".to_owned(), 3)];
        assert_eq!(drops, expected);
    }
}
