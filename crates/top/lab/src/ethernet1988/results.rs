//! The report of the experiment: a row for each combination of steps, the effects of the steps, and
//! where the model agrees with the report of 1988.
//!
//! Called by: `ethernet1988.rs`.

use std::ops::Range;

use serde_json::{Value, json};

use super::cable::{GAP_NS, frame_ns};
use super::costs::{Costs, HEADER_BYTES, KB, NAMES, PACKET_BYTES, STEPS, Steps};
use super::world::{Counts, RECEIVER, SENDER};
use super::{Hosts, Pair, Row, Table, interaction, main_effect, pairs};
use crate::plot::{Dots, Panel, Plot, Point};
use crate::report::{Column, Format, Report, Span, column, with_missing};

const COLUMNS: &[Column] = &[
    column("hosts", "", "", Format::Heading),
    column("steps", "steps", "", Format::Text),
    column("kb_per_s", "KB/s", "KB (1,024 bytes) of payload a second, median", Format::Number(0)),
    column("published_kb_per_s", "published", "KB (1,024 bytes) a second", Format::Number(0)),
    column("of_published", "of it", "of the published figure", Format::Number(2)),
    column("mbps", "Mb/s", "Mb/s of payload", Format::Number(2)),
    column("wire_percent", "wire %", "% of the time in which the wire carries", Format::Number(0)),
    column("packet_us", "us a packet", "us from one packet of data to the next", Format::Number(0)),
    column("sender_percent", "sender %", "% of the sender's processor", Format::Number(0)),
    column("receiver_percent", "receiver %", "% of the receiver's processor", Format::Number(0)),
    column("collisions", "collisions", "collisions for 1,000 packets of data", Format::Number(0)),
];

fn seconds(counts: &Counts) -> f64 {
    counts.now_ns as f64 / 1e9
}

fn kb_per_s(counts: &Counts) -> f64 {
    counts.bytes as f64 / KB as f64 / seconds(counts)
}

impl Row {
    /// The median over the seeds.
    fn of(&self, figure: impl Fn(&Counts) -> f64) -> Option<f64> {
        Some(Span::of(self.runs.iter().map(figure))?.mid)
    }

    fn kb(&self) -> Option<f64> {
        self.of(kb_per_s)
    }

    fn steps(&self) -> Option<Steps> {
        match self.hosts {
            Hosts::Of1988 { steps, .. } => Some(steps),
            Hosts::Ours { .. } => None,
        }
    }

    /// Bytes of socket buffers and of writes.
    fn sockets(&self) -> Option<(u64, u64)> {
        match self.hosts {
            Hosts::Of1988 { buffer, write, .. } => Some((buffer, write)),
            Hosts::Ours { .. } => None,
        }
    }

    fn heading(&self) -> String {
        match self.sockets() {
            Some((buffer, write)) => {
                format!("hosts of 1988, socket buffers of {buffer} bytes, writes of {write}")
            }
            None => "today's stack, processors that take no time".to_owned(),
        }
    }

    fn name(&self) -> String {
        match self.hosts {
            Hosts::Of1988 { steps, .. } => steps.name(),
            Hosts::Ours { buffer: Some(bytes) } => format!("ours, buffers of {bytes}"),
            Hosts::Ours { buffer: None } => "ours".to_owned(),
        }
    }

    /// The values of [`COLUMNS`], in their order.
    fn values(&self) -> Vec<Value> {
        let is_model = self.steps().is_some();
        let published = self.steps().and_then(super::figure);
        let of_published = published.and_then(|figure| Some(self.kb()? / figure));
        let percent = |of: fn(&Counts) -> u64| self.of(|c| of(c) as f64 * 100.0 / c.now_ns as f64);
        let busy = |of: fn(&Counts) -> u64| if is_model { percent(of) } else { None };
        let collisions = self.of(|c| c.collisions as f64 * 1e3 / c.packets as f64);
        vec![
            json!(self.heading()),
            json!(self.name()),
            json!(self.kb()),
            json!(published),
            json!(of_published),
            json!(self.of(|c| c.bytes as f64 * 8e-6 / seconds(c))),
            json!(percent(|c| c.wire_ns)),
            json!(self.of(|c| c.now_ns as f64 / 1e3 / c.packets as f64)),
            json!(busy(|c| c.busy_ns[SENDER])),
            json!(busy(|c| c.busy_ns[RECEIVER])),
            json!(if is_model { collisions } else { None }),
        ]
    }

    fn samples(&self, seeds: &Range<u64>) -> Vec<Value> {
        let sample = |(counts, seed): (&Counts, u64)| {
            let flags = self.steps().map(Steps::flags);
            let steps: Option<Vec<&str>> = flags.map(|flags| {
                NAMES.into_iter().zip(flags).filter(|(_, on)| *on).map(|(name, _)| name).collect()
            });
            json!({
                "steps": steps,
                "socket_buffer_bytes": self.sockets().map(|(buffer, _)| buffer),
                "write_bytes": self.sockets().map(|(_, write)| write),
                "one_pass": self.steps().map(|steps| steps.fold),
                "seed": seed,
                "kb_per_s": kb_per_s(counts),
                "packets": counts.packets,
                "seconds": seconds(counts),
            })
        };
        self.runs.iter().zip(seeds.clone()).map(sample).collect()
    }
}

/// The whole report.
pub(super) fn report(rows: &[Row], costs: &Costs, bytes: u64, seeds: Range<u64>) -> Report {
    let table = table(rows, costs);
    let unmeasured = rows.iter().filter(|row| row.runs.is_empty()).count();
    let mut notes = vec![model(costs)];
    notes.extend(table.as_ref().and_then(|table| fit(rows, table, costs)));
    notes.push(
        "Ours: two stacks over interfaces that keep the gap and collide, MTU 1,460 for 1,408 bytes \
         with timestamps. Collisions are not counted for ours; wire % is computed from the \
         packets. The larger the window, the longer a sender that has frames queued keeps the \
         cable for itself while ACKs back off (the capture effect)."
            .to_owned(),
    );
    let notes = with_missing(notes, unmeasured, rows.len(), "rows");
    Report {
        settings: json!({
            "costs": costs.as_json(),
            "packet_bytes": PACKET_BYTES,
            "rate_bps": 10_000_000,
            "gap_us": GAP_NS as f64 / 1e3,
            "bytes": bytes,
            "seeds": seeds.end - seeds.start,
            "first_seed": seeds.start,
            "published": {
                "in_place_kb_per_s": super::IN_PLACE,
                "barrier_kb_per_s": super::BARRIER,
                "interaction_kb_per_s": super::INTERACTION,
                "packet_us": [super::PACKET_US.0, super::PACKET_US.1],
            },
        }),
        columns: COLUMNS.to_vec(),
        rows: rows.iter().map(Row::values).collect(),
        fits: table.as_ref().map(fits).unwrap_or_default(),
        samples: rows.iter().flat_map(|row| row.samples(&seeds)).collect(),
        shows: table.as_ref().map(|table| shows(rows, table, costs)).unwrap_or_default(),
        notes,
        plot: Some(Plot::Dots(dots(rows, costs))),
    }
}

/// Throughput by combination; `None` if one was not measured.
fn table(rows: &[Row], costs: &Costs) -> Option<Table> {
    let mut table = [0.0; 1 << STEPS];
    for (bits, kb) in table.iter_mut().enumerate() {
        *kb = of(rows, Steps::of(bits), (costs.buffer, costs.write))?.kb()?;
    }
    Some(table)
}

fn of(rows: &[Row], steps: Steps, (buffer, write): (u64, u64)) -> Option<&Row> {
    rows.iter().find(|row| row.hosts == Hosts::Of1988 { steps, buffer, write })
}

fn fits(table: &Table) -> Vec<Value> {
    let main = (0..STEPS)
        .map(|step| json!({ "steps": [NAMES[step]], "effect_kb_per_s": main_effect(table, step) }));
    let pairs = (0..STEPS).flat_map(|a| (a + 1..STEPS).map(move |b| (a, b))).map(|(a, b)| {
        let effect = interaction(table, (a, b));
        json!({ "steps": [NAMES[a], NAMES[b]], "effect_kb_per_s": effect })
    });
    main.chain(pairs).collect()
}

/// The pair of steps about which testing one at a time is most wrong.
fn strongest(table: &Table) -> Option<Pair> {
    let by_surplus = |a: &Pair, b: &Pair| a.surplus().abs().total_cmp(&b.surplus().abs());
    pairs(table).into_iter().max_by(by_surplus)
}

fn shows(rows: &[Row], table: &Table, costs: &Costs) -> Vec<String> {
    let all = table.len() - 1;
    let mbps = |buffer: Option<u64>| {
        let row = rows.iter().find(|row| row.hosts == Hosts::Ours { buffer })?;
        row.of(|c| c.bytes as f64 * 8e-6 / seconds(c))
    };
    let ours = mbps(None).zip(mbps(Some(costs.buffer)));
    let mut shows = vec![format!(
        "The four steps take TCP on a ten-megabit Ethernet from {:.0} to {:.0} KB/s, which is \
         {:.1} times as much (published: 380 to 890, 2.3 times){}.",
        table[0],
        table[all],
        table[all] / table[0],
        ours.map_or_else(String::new, |(today, then)| {
            format!(
                "; today's stack carries {then:.1} Mb/s on the same wire with their buffers, and \
                 {today:.1} with its own"
            )
        })
    )];
    shows.extend(strongest(table).map(|pair| {
        let ((a, b), [basic, with_a, with_b, both]) = (pair.names(), pair.kb);
        format!(
            "Steps interact: with {}, '{a}' alone makes {basic:.0} to {with_a:.0} KB/s, '{b}' \
             alone to {with_b:.0}, both to {both:.0} (published, of two steps without a name: 600, \
             520, 530, 700).",
            match Steps::of(pair.background).name() {
                none if none == "none" => "none of the others".to_owned(),
                others => format!("the step '{others}'"),
            }
        )
    }));
    shows
}

fn model(costs: &Costs) -> String {
    let packet = frame_ns(PACKET_BYTES + HEADER_BYTES) + GAP_NS;
    format!(
        "Virtual time, 10 Mb/s, one cable with collisions, packets of {PACKET_BYTES} bytes: {:.0} \
         us each at most (published: {:.0}). Microseconds of processor, from the report or from \
         two of its figures (crates/top/lab/src/ethernet1988/costs.rs says which): protocol {}, \
         device set-up {}, interrupt {}, wake-up {}, hidden copies {}, bus of the LANCE {} a \
         packet; copy 200 or 140 a KB, checksum 490 or 130, both in one pass 200. Socket buffers \
         of {} bytes, writes of {}.",
        packet as f64 / 1e3,
        super::PACKET_US.0,
        costs.protocol,
        costs.setup,
        costs.interrupt,
        costs.wake,
        costs.pullup,
        costs.bus,
        costs.buffer,
        costs.write
    )
}

/// Where the model agrees with what was published, and where it does not.
fn fit(rows: &[Row], table: &Table, costs: &Costs) -> Option<String> {
    let bits = |names: &[&str]| {
        names.iter().filter_map(|name| NAMES.iter().position(|n| n == name)).map(|at| 1 << at).sum()
    };
    let (queue, in_place): (usize, usize) = (bits(&["queue"]), bits(&["in place"]));
    let most = |has: bool| {
        let those = table.iter().enumerate().filter(|(at, _)| (at & queue != 0) == has);
        those.map(|(_, kb)| *kb).fold(0.0, f64::max)
    };
    let all = table.len() - 1;
    let last = of(rows, Steps::of(all), (costs.buffer, costs.write))?;
    let percent = |host: usize| last.of(|c| c.busy_ns[host] as f64 * 100.0 / c.now_ns as f64);
    let eight = |names: &[&str]| of(rows, Steps::of(bits(names)), (8_192, 8_192))?.kb();
    let alone = eight(&["unit", "in place"])? / eight(&["in place"])?;
    let lies = pairs(table).iter().filter(|pair| pair.is_a_lie()).count();
    Some(format!(
        "Compared with the report: the step 'unit' alone changes throughput by {:+.0} % \
         (published: +20), as the receiver is the limit; where the sender is the limit, with \
         buffers and writes of 8 KB, by {:+.0} %. With all other steps made, removing the hidden \
         copies takes throughput from {:.0} to {:.0} KB/s (published: 600 to 750, with fewer steps \
         made). Without the step 'queue' nothing exceeds {:.0} KB/s, with it {:.0}: the barrier of \
         {:.0} is not in the model, in which the step lets ACKs collide. At the end the sender's \
         processor is {:.0} % busy, the receiver's {:.0} (100, and {:.0} to {:.0}): the model's \
         receiver costs more than theirs. Of {} pairs of steps, testing one at a time chooses the \
         wrong ones for {lies}.",
        (table[bits(&["unit"])] / table[0] - 1.0) * 100.0,
        (alone - 1.0) * 100.0,
        table[all & !in_place],
        table[all],
        most(false),
        most(true),
        super::BARRIER,
        percent(SENDER)?,
        percent(RECEIVER)?,
        super::RECEIVER_PERCENT.0,
        super::RECEIVER_PERCENT.1,
        pairs(table).len(),
    ))
}

fn dots(rows: &[Row], costs: &Costs) -> Dots {
    let rows = rows
        .iter()
        .filter(|row| row.sockets().is_none_or(|sockets| sockets == (costs.buffer, costs.write)));
    let rows: Vec<&Row> = rows.collect();
    let point = |(row, of): (usize, &&Row)| Point {
        row,
        series: usize::from(of.steps().is_none()),
        span: Span::of(of.runs.iter().map(kb_per_s)),
        quoted: of.steps().and_then(super::figure),
    };
    Dots {
        title: "TCP on a ten-megabit Ethernet, by what was made fast".to_owned(),
        subtitle: "Model of two workstations of 1988, and our stack; virtual time".to_owned(),
        axis: "KB/s".to_owned(),
        row_title: "steps:".to_owned(),
        rows: rows.iter().map(|row| row.name()).collect(),
        series: vec!["workstations of 1988".to_owned(), "ours".to_owned()],
        panels: vec![Panel {
            title: String::new(),
            rows: Vec::new(),
            points: rows.iter().enumerate().map(point).collect(),
        }],
        quoted: "published".to_owned(),
    }
}
