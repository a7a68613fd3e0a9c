//! The figures of one interval, which a screen shows.
//!
//! Called by: `run.rs` collects them, `report.rs` shows them. Plain data.

use std::cmp::Reverse;
use std::collections::HashMap;

use explain::Words;

use super::besides::{Connection, Dropped};
use super::limits::Id;
use super::port::PortState;
use super::switches::Counts;
use super::traffic::Traffic;
use super::view::{Order, View};

/// The figures of a screen.
#[derive(Clone, Debug)]
pub(super) struct Interval {
    pub(super) what: String,
    pub(super) seconds: f64,
    /// Frames that passed, and frames that were looked at; the others were lost before they reached
    /// `top`. All figures are scaled to the frames that passed.
    pub(super) passed: u64,
    pub(super) looked_at: u64,
    /// Context switches in the interval, and the name of what [`Counts::woken`] counts.
    pub(super) switches: Option<(&'static str, Counts)>,
    pub(super) ports: Vec<PortState>,
    pub(super) traffic: Traffic,
    pub(super) drops: Vec<Dropped>,
    pub(super) connections: Vec<Connection>,
    /// The limits of the first connections.
    pub(super) limits: HashMap<Id, Words>,
}

impl Interval {
    /// Connections in the order of a view.
    pub(super) fn connections(&self, view: &View) -> Vec<&Connection> {
        fn ends(c: &Connection) -> (&str, &str) {
            (&c.row.local, &c.row.remote)
        }
        let mut all: Vec<&Connection> = self.connections.iter().collect();
        match view.order {
            Order::Bits => all.sort_by_key(|c| Reverse(c.moved.bytes)),
            Order::Frames => all.sort_by_key(|c| Reverse(c.moved.frames)),
            Order::Rtt => all.sort_by_key(|c| Reverse(c.rtt_us())),
            Order::Retransmits => all.sort_by_key(|c| Reverse(c.row.retransmits)),
            Order::Name => all.sort_by(|a, b| ends(a).cmp(&ends(b))),
        }
        all
    }

    /// The identities of the connections, in this order.
    pub(super) fn in_order(&self, view: &View) -> Vec<Id> {
        self.connections(view).into_iter().map(|connection| connection.id).collect()
    }
}
