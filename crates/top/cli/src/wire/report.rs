//! Output of `wire`: the counters since the last line, and at the end the totals and the lateness
//! of packets.
//!
//! Called by: `run.rs`.

use std::fmt::Write as _;

use anyhow::Result;
use link::real::Runner;
use link::{Carried, Lateness};
use serde_json::{Value, json};
use wirespeed::{Duration, Instant};

use super::args::End;
use crate::output;

/// Pauses of this program longer than this affect a measurement.
const PAUSE: Duration = Duration::from_millis(5);

/// The state of the report at the last line.
pub(super) struct Report {
    names: [String; 2],
    json: bool,
    /// The time of the last line.
    since: Option<Instant>,
    before: [Carried; 2],
}

impl Report {
    pub(super) fn new(ends: [&End; 2], json: bool) -> Report {
        let [a, b] = ends.map(ToString::to_string);
        let names = [format!("{a} > {b}"), format!("{b} > {a}")];
        Report { names, json, since: None, before: [Carried::default(); 2] }
    }

    /// Print the counters since the last line.
    pub(super) fn line(&mut self, runner: &Runner) -> Result<()> {
        let now = runner.now();
        let seconds = now.since(self.since.unwrap_or(Instant::ZERO)).as_secs_f64();
        let directions = [0, 1].map(|direction| runner.bridge().directions()[direction].carried());
        let text = match self.json {
            true => {
                let of = |direction: usize| json_of(&self.names[direction], &directions[direction]);
                let at = now.as_nanos() as f64 / 1e9;
                json!({ "time_s": at, "directions": [of(0), of(1)] }).to_string()
            }
            false => {
                let of = |direction: usize| {
                    let (is, was) = (&directions[direction], &self.before[direction]);
                    let mbps = (is.bytes_out - was.bytes_out) as f64 * 8e-6 / seconds.max(1e-9);
                    let gone = lost(is) - lost(was);
                    let waiting = runner.bridge().directions()[direction].in_flight();
                    format!(
                        "{} {mbps:9.2} Mb/s {gone:6} lost {waiting:6} on the way",
                        self.names[direction]
                    )
                };
                format!("{:8.1} s   {}   {}", now.as_nanos() as f64 / 1e9, of(0), of(1))
            }
        };
        (self.since, self.before) = (Some(now), directions);
        output::out(&(text + "\n"))
    }

    /// Print the totals.
    pub(super) fn end(&self, runner: &Runner) -> Result<()> {
        let directions = runner.bridge().directions();
        let late = pauses(runner);
        if self.json {
            let of = |direction: usize| {
                let mut value = json_of(&self.names[direction], &directions[direction].carried());
                value["late_us"] = late_json(directions[direction].lateness());
                value
            };
            let document = json!({
                "total": true,
                "time_s": runner.now().as_nanos() as f64 / 1e9,
                "directions": [of(0), of(1)],
                "pauses": late,
                "pause_max_ms": runner.pauses().max().as_nanos() as f64 / 1e6,
            });
            output::out(&(document.to_string() + "\n"))?;
        } else {
            let mut text = String::new();
            for (name, direction) in self.names.iter().zip(directions) {
                text += &summary(name, &direction.carried(), direction.lateness());
            }
            output::out(&text)?;
        }
        if late > 0 {
            output::err(&format!(
                "warning: this program was away for more than {} ms {late} times, {:.1} ms at \
                 most: queues were emptied and overfilled by that alone. Give it a core to \
                 itself, or do not count this run",
                PAUSE.as_nanos() / 1_000_000,
                runner.pauses().max().as_nanos() as f64 / 1e6
            ));
        }
        Ok(())
    }
}

/// Number of pauses longer than [`PAUSE`].
fn pauses(runner: &Runner) -> u64 {
    runner.pauses().later_than(PAUSE)
}

/// Packets that did not arrive, for any reason.
fn lost(carried: &Carried) -> u64 {
    let link = &carried.link;
    link.queue_full + link.codel + link.too_long + link.cut + link.lost + link.overfull
}

fn micros(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e3
}

fn summary(name: &str, carried: &Carried, late: &Lateness) -> String {
    let link = &carried.link;
    let mut text = format!(
        "{name}\n  {} packets came and {} arrived, {} bytes\n  lost: ",
        link.sent, link.arrived, carried.bytes_out
    );
    let reasons = [
        ("queue full", link.queue_full),
        ("CoDel", link.codel),
        ("by chance", link.lost),
        ("too long", link.too_long),
        ("too many on the way", link.overfull),
        ("super-segments not cut", carried.uncut),
    ];
    let seen: Vec<String> =
        reasons.iter().filter(|(_, n)| *n > 0).map(|(why, n)| format!("{why} {n}")).collect();
    text += &if seen.is_empty() { "none".to_owned() } else { seen.join(", ") };
    let _ = write!(
        text,
        "\n  late {}, twice {}, a bit flipped {}, marked {}; longest queue {} bytes\n",
        link.late, link.duplicated, link.corrupted, link.marked, link.queue_bytes_max
    );
    if late.count() > 0 {
        let _ = writeln!(
            text,
            "  handed out later than they should: median {:.0} us, 99 % {:.0} us, most {:.0} us",
            micros(late.quantile(0.5)),
            micros(late.quantile(0.99)),
            micros(late.max())
        );
    }
    text
}

fn late_json(late: &Lateness) -> Value {
    json!({
        "median": micros(late.quantile(0.5)),
        "p99": micros(late.quantile(0.99)),
        "max": micros(late.max()),
    })
}

fn json_of(name: &str, carried: &Carried) -> Value {
    let link = &carried.link;
    json!({
        "direction": name,
        "sent": link.sent,
        "arrived": link.arrived,
        "bytes": carried.bytes_out,
        "queue_full": link.queue_full,
        "codel": link.codel,
        "marked": link.marked,
        "lost": link.lost,
        "too_long": link.too_long,
        "overfull": link.overfull,
        "late": link.late,
        "duplicated": link.duplicated,
        "corrupted": link.corrupted,
        "uncut": carried.uncut,
        "queue_bytes_max": link.queue_bytes_max,
    })
}
