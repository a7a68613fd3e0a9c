//! `wirespeed show budget`: where a running program's processor time goes, stage by stage. Its
//! threads are sampled from outside (`profile::look`); the packets are from its counters,
//! before and after.
//!
//! Called by: `run.rs`, and `show.rs` for the text.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Result;
use profile::{Event, Part, Seen, look};
use serde_json::{Map, Value, json};
use wirespeed::control::Client;

use super::report::plain;
use crate::clock::Interrupt;
use crate::running::section;
use wirespeed::control::protocol::{About, Section};

/// Look at the program for this long, or until Ctrl-C.
pub(super) fn ask(client: &mut Client, program: &About, seconds: f64) -> Result<Value> {
    let interrupt = Interrupt::install()?;
    let length = Duration::from_secs_f64(seconds);
    let before = packets(client, program)?;
    let looked = look(program.pid, None, || {}, &|passed| passed >= length || interrupt.noted())?;
    // The program may have ended meanwhile; then the packets are not known.
    let after = packets(client, program).ok();
    Ok(budget(&looked.seen()?, after.map(|after| after.saturating_sub(before))))
}

/// Frames received or sent so far, whichever are more: in a program with both ends, or in a router,
/// each packet is received and sent.
fn packets(client: &mut Client, program: &About) -> Result<u64> {
    let (mut received, mut sent) = (0, 0);
    for stack in 0..program.stacks.len() {
        let counters: BTreeMap<String, u64> = section(client, stack, Section::Counters)?;
        let of = |name: &str| counters.get(name).copied().unwrap_or(0);
        received += of("rx_frames");
        sent += of("tx_frames");
    }
    Ok(received.max(sent))
}

fn budget(seen: &Seen, packets: Option<u64>) -> Value {
    let per_packet = |cost: f64| packets.filter(|n| *n > 0).map(|n| cost / n as f64);
    let ns = Event::Time as usize;
    let stage = |part: &Part| {
        let (share, off) = seen.share(part);
        let mut row = Map::new();
        let mut put = |key: &str, value: Value| row.insert(key.to_owned(), value);
        put("stage", json!(part.stage.name()));
        put("percent", json!(share * 100.0));
        put("percent_off", json!(off * 100.0));
        put("cores", json!(part.costs[ns] * 1e-9 / seen.seconds));
        put("ns", json!(per_packet(part.costs[ns])));
        put("kernel_ns", json!(per_packet(part.kernel_ns).filter(|_| seen.has_kernel)));
        for event in Event::ALL.into_iter().skip(1) {
            let has = seen.events.contains(&event);
            let cost = per_packet(part.costs[event as usize]).filter(|_| has);
            put(event.name(), json!(cost));
        }
        put("samples", json!(part.samples));
        put("bar", json!(seen.bar(part)));
        Value::Object(row)
    };
    json!({
        "seconds": seen.seconds,
        "threads": seen.threads,
        "samples": seen.samples,
        "samples_lost": seen.lost,
        "packets": packets,
        "ns": per_packet(seen.all_ns()),
        "cores": seen.all_ns() * 1e-9 / seen.seconds,
        "stages": seen.stages.iter().map(stage).collect::<Vec<Value>>(),
        "shows": [whole_cost(seen, packets), seen.next()],
        "notes": notes(seen, packets),
    })
}

fn whole_cost(seen: &Seen, packets: Option<u64>) -> String {
    let cores = seen.all_ns() * 1e-9 / seen.seconds;
    match packets {
        Some(0) => format!("No packet passed; the program used {cores:.2} cores."),
        Some(n) => format!(
            "A packet cost {:.0} ns of processor time, and {:.0} a second passed, with {cores:.2} \
             cores in use.",
            seen.all_ns() / n as f64,
            n as f64 / seen.seconds
        ),
        None => format!("The program ended meanwhile; it used {cores:.2} cores."),
    }
}

fn notes(seen: &Seen, packets: Option<u64>) -> Vec<String> {
    let mut notes = Vec::new();
    if !seen.has_kernel {
        notes.push(
            "The kernel's part is left out: it is shown to root, and to others with `sudo sysctl \
             kernel.perf_event_paranoid=1`."
                .to_owned(),
        );
    }
    if !seen.events.contains(&Event::Cycles) {
        notes.push(
            "No cycles, instructions or stalls: the processor does not count them for us; a \
             virtual machine needs a virtual PMU. `wirespeed lab budget` counts instructions \
             without one."
                .to_owned(),
        );
    }
    if seen.is_part {
        notes.push(format!("Only the first {} threads were sampled.", seen.threads));
    }
    if seen.lost > 0 {
        notes.push(format!("{} samples had no room.", seen.lost));
    }
    if packets.is_some() {
        notes.push("A packet is a frame received, or one sent if those are more.".to_owned());
    }
    notes
}

/// For people.
pub(super) fn text(document: &Value) -> String {
    let (program, budget) = (&document["program"], &document["budget"]);
    let mut t = format!("wirespeed {} (pid {})\n\n", plain(&program["command"]), program["pid"]);
    let number = |value: &Value, places: usize| {
        value.as_f64().map_or_else(|| "-".to_owned(), |value| format!("{value:.places$}"))
    };
    // Writing into a string cannot fail.
    let _ = writeln!(
        t,
        "  {:<9}{:>7}{:>6}{:>11}{:>11}{:>9}",
        "stage", "%", "+-", "ns/packet", "in kernel", "cores"
    );
    for row in budget["stages"].as_array().into_iter().flatten() {
        let line = format!(
            "  {:<9}{:>7}{:>6}{:>11}{:>11}{:>9}  {}",
            plain(&row["stage"]),
            number(&row["percent"], 1),
            number(&row["percent_off"], 1),
            number(&row["ns"], 1),
            number(&row["kernel_ns"], 1),
            number(&row["cores"], 3),
            plain(&row["bar"])
        );
        let _ = writeln!(t, "{}", line.trim_end());
    }
    let _ = writeln!(
        t,
        "  {:<9}{:>7}{:>6}{:>11}{:>11}{:>9}",
        "all",
        "",
        "",
        number(&budget["ns"], 1),
        "",
        number(&budget["cores"], 3)
    );
    t.push('\n');
    for key in ["shows", "notes"] {
        for line in budget[key].as_array().into_iter().flatten() {
            let _ = writeln!(t, "{}", plain(line));
        }
    }
    let (samples, seconds) = (&budget["samples"], number(&budget["seconds"], 1));
    let _ = writeln!(t, "{} samples in {seconds} s", plain(samples));
    t
}
