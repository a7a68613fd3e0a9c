//! The tables of a screen, each with all its rows, and all of them as text.
//!
//! Called by: `report.rs`, which draws them; `top.rs`, for `--batch`.

use super::cells::{drops, ports, rtt, short, talker_cells};
use crate::table;
use crate::top::besides::{Connection, Dropped};
use crate::top::interval::Interval;
use crate::top::port::PortState;
use crate::top::traffic::{Amount, SIZES};
use crate::top::view::View;

/// The most talkers that are printed; the last row has the sum of the others.
const TALKERS: usize = 20;

/// A table.
pub(super) struct Listing {
    pub(super) title: &'static str,
    pub(super) head: &'static [&'static str],
    pub(super) rows: Vec<Vec<String>>,
}

/// A screen as text, with an empty line at the end.
pub(in crate::top) fn text(interval: &Interval, view: &View) -> String {
    let mut text = format!("{}   {:.1} s\n{}\n", interval.what, interval.seconds, said(interval));
    for listing in [
        Listing::ports(interval, view),
        Listing::sizes(interval),
        Listing::protocols(interval),
        Listing::drops(interval, view),
        Listing::talkers(interval, view, TALKERS),
        Listing::connections(interval, view),
    ] {
        text += &format!("{}\n", listing.title);
        text += &match listing.rows.is_empty() {
            true => "  none\n".to_owned(),
            false => table::text(listing.head, &listing.rows),
        };
    }
    for one in interval.connections(view) {
        if let Some(words) = interval.limits.get(&one.id) {
            text += &format!("{} - {}: {}\n", one.row.local, one.row.remote, words.answer);
        }
    }
    text + "\n"
}

/// The line of single figures.
pub(super) fn said(interval: &Interval) -> String {
    let mut frames = format!("{} frames/s", short(interval.passed as f64 / interval.seconds));
    if interval.looked_at < interval.passed {
        let share = interval.looked_at as f64 * 100.0 / interval.passed as f64;
        frames += &format!(", {share:.3} % of them looked at");
    }
    let Some((woken_by, counts)) = interval.switches else { return frames };
    let [woken, switches] =
        [counts.woken, counts.switches].map(|n| short(n as f64 / interval.seconds));
    format!("{frames}   {woken_by} {woken}/s   context switches {switches}/s")
}

impl Listing {
    pub(super) fn ports(interval: &Interval, view: &View) -> Listing {
        let row = |port: &PortState| {
            let [received, sent] = port.amounts;
            let per_s = |n: u64| short(n as f64 / interval.seconds);
            let bits = |amount: Amount| short(amount.bytes as f64 * 8.0 / interval.seconds);
            let share = match port.share(interval.seconds) {
                _ if port.link.is_down => "down".to_owned(),
                Some(share) => format!("{share:.1} %"),
                None => "-".to_owned(),
            };
            vec![
                port.name.clone(),
                per_s(received.frames),
                bits(received),
                per_s(sent.frames),
                bits(sent),
                share,
                port.link.collisions.map_or("-".to_owned(), |n| n.to_string()),
                port.link.errors.map_or("-".to_owned(), |n| n.to_string()),
            ]
        };
        Listing {
            title: "Ports",
            head: &[
                "port",
                "in frames/s",
                "in b/s",
                "out frames/s",
                "out b/s",
                "of link",
                "collisions",
                "errors",
            ],
            rows: ports(interval, view).into_iter().map(row).collect(),
        }
    }

    pub(super) fn sizes(interval: &Interval) -> Listing {
        let all = interval.traffic.sizes.iter().map(|amount| amount.frames).sum::<u64>().max(1);
        let row = |((_, name), amount): (&(u32, &str), &Amount)| {
            let share = amount.frames as f64 / all as f64;
            let bar = "#".repeat((share * 12.0).round() as usize);
            vec![(*name).to_owned(), format!("{:.0} %", share * 100.0), bar]
        };
        let rows = SIZES.iter().zip(&interval.traffic.sizes).map(row).collect();
        Listing { title: "Sizes", head: &["bytes", "frames", ""], rows }
    }

    pub(super) fn protocols(interval: &Interval) -> Listing {
        let row = |(name, amount): (&'static str, Amount)| {
            vec![
                name.to_owned(),
                short(amount.frames as f64 / interval.seconds),
                short(amount.bytes as f64 * 8.0 / interval.seconds),
            ]
        };
        let rows = interval.traffic.by_protocol().into_iter().map(row).collect();
        Listing { title: "Protocols", head: &["name", "frames/s", "b/s"], rows }
    }

    pub(super) fn drops(interval: &Interval, view: &View) -> Listing {
        let row = |dropped: &Dropped| {
            let per_s = short(dropped.now as f64 / interval.seconds);
            vec![dropped.name.clone(), per_s, short(dropped.total as f64)]
        };
        let rows = drops(interval, view).into_iter().map(row).collect();
        Listing { title: "Drops", head: &["name", "a second", "so far"], rows }
    }

    pub(super) fn talkers(interval: &Interval, view: &View, room: usize) -> Listing {
        let rows = talker_cells(interval, view, room);
        Listing { title: "Who talks", head: &["between", "frames/s", "b/s"], rows }
    }

    pub(super) fn connections(interval: &Interval, view: &View) -> Listing {
        let row = |c: &Connection| {
            vec![
                c.row.local.clone(),
                c.row.remote.clone(),
                c.row.state.clone(),
                short(c.moved.bytes as f64 * 8.0 / interval.seconds),
                short(c.row.cwnd_bytes as f64),
                rtt(c),
                short(c.row.in_flight as f64),
                c.row.retransmits.to_string(),
            ]
        };
        Listing {
            title: "Connections",
            head: &["local", "remote", "state", "b/s", "cwnd", "RTT ms", "in flight", "retrans"],
            rows: interval.connections(view).into_iter().map(row).collect(),
        }
    }
}
