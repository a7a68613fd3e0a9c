//! Parts of both layouts: rows in the order of a view, and figures as text.
//!
//! Called by: `report.rs`, `small`.

use std::cmp::Reverse;

use crate::top::besides::{Connection, Dropped};
use crate::top::interval::Interval;
use crate::top::port::PortState;
use crate::top::traffic::{Amount, Pair, Traffic};
use crate::top::view::{Order, View};

/// A number with three significant digits: 12.3M.
pub(super) fn short(value: f64) -> String {
    let (scaled, unit) = match value {
        v if v >= 1e9 => (v / 1e9, "G"),
        v if v >= 1e6 => (v / 1e6, "M"),
        v if v >= 1e3 => (v / 1e3, "k"),
        v => return format!("{v:.0}"),
    };
    let places = if scaled < 10.0 { 2 } else { usize::from(scaled < 100.0) };
    format!("{scaled:.places$}{unit}")
}

/// Cut a text to `width`, with a mark, so that a cut address does not look like another one.
pub(super) fn fitted(text: String, width: u16) -> String {
    let width = usize::from(width);
    if text.chars().count() <= width {
        return text;
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Ports in the order of a view.
pub(super) fn ports<'a>(interval: &'a Interval, view: &View) -> Vec<&'a PortState> {
    let mut ports: Vec<&PortState> = interval.ports.iter().collect();
    let sum = |port: &PortState, of: fn(&Amount) -> u64| port.amounts.iter().map(of).sum::<u64>();
    match view.order {
        // The ports are in the order of their names already.
        Order::Name => {}
        Order::Frames => ports.sort_by_key(|port| Reverse(sum(port, |amount| amount.frames))),
        _ => ports.sort_by_key(|port| Reverse(sum(port, |amount| amount.bytes))),
    }
    ports
}

/// Drops in the order of a view; unless that is by name, those with the most now first.
pub(super) fn drops<'a>(interval: &'a Interval, view: &View) -> Vec<&'a Dropped> {
    let mut drops: Vec<&Dropped> = interval.drops.iter().collect();
    if view.order != Order::Name {
        drops.sort_by_key(|dropped| (Reverse(dropped.now), Reverse(dropped.total)));
    }
    drops
}

/// The talkers in the order of a view, as many as fit; the last row has the sum of the others.
pub(super) fn talker_rows(traffic: &Traffic, view: &View, room: usize) -> Vec<(String, Amount)> {
    let mut all = traffic.talkers();
    match view.order {
        Order::Name => all.sort_by_key(|(pair, _)| *pair),
        Order::Frames => all.sort_by_key(|(pair, amount)| (Reverse(amount.frames), *pair)),
        _ => {}
    }
    let is_enough = all.len() <= room && traffic.other_pairs.frames == 0;
    let named = if is_enough { all.len() } else { all.len().min(room.saturating_sub(1)) };
    let mut others = traffic.other_pairs;
    all.iter().skip(named).for_each(|(_, amount)| others.include(*amount));
    let row = |((a, b), amount): &(Pair, Amount)| (format!("{a} - {b}"), *amount);
    let mut rows: Vec<_> = all.iter().take(named).map(row).collect();
    if others.frames > 0 {
        rows.push(("others".to_owned(), others));
    }
    rows
}

/// The cells of the talkers: the pair, frames and bits a second.
pub(super) fn talker_cells(interval: &Interval, view: &View, room: usize) -> Vec<Vec<String>> {
    let row = |(name, amount): (String, Amount)| {
        vec![
            name,
            short(amount.frames as f64 / interval.seconds),
            short(amount.bytes as f64 * 8.0 / interval.seconds),
        ]
    };
    talker_rows(&interval.traffic, view, room).into_iter().map(row).collect()
}

/// Milliseconds of a round trip.
pub(super) fn rtt(connection: &Connection) -> String {
    connection.rtt_us().map_or("-".to_owned(), |us| format!("{:.2}", us as f64 / 1e3))
}
