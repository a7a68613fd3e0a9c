//! Rows with one scripted event on one connection, and the one row that a clock measures. Called by
//! `mod.rs`. `sim::scripted` says where each time begins and ends.

use std::time::Instant as Clock;

use anyhow::{Result, anyhow, ensure};
use base::Duration;
use sim::goodput::measure;
use sim::scripted::{self, RTT};

use super::paths::path;
use crate::harness::{Bench, Figure};
use crate::measure::median;

/// Seeds of a row; they differ in little more than sequence numbers.
fn seeds(b: &Bench) -> u64 {
    if b.is_quick { 3 } else { 10 }
}

fn over(b: &Bench, note: &str, of: impl Fn(u64) -> Result<f64>) -> Result<Figure> {
    let samples = (1..=seeds(b)).map(of).collect::<Result<Vec<f64>>>()?;
    Ok(Figure { value: median(&samples), samples, note: note.to_owned() })
}

fn rtts(time: Duration) -> f64 {
    time.as_secs_f64() / RTT.as_secs_f64()
}

/// From the request's write to the reply's last byte read, less the reader's longest ACK delay.
pub(super) fn lost_tail(b: &Bench) -> Result<Figure> {
    let first = scripted::tail_loss(1).map_err(|violation| anyhow!("{violation}"))?;
    let note = format!(
        "100 Mb/s, 40 ms there and back, eight exchanges before; from the request's write to the \
         last byte read {:.1} ms, of which {} ms, the reader's longest ACK delay, are left out",
        first.completion.as_secs_f64() * 1e3,
        first.ack_delay.as_millis(),
    );
    over(b, &note, |seed| {
        let tail = scripted::tail_loss(seed).map_err(|violation| anyhow!("{violation}"))?;
        Ok(rtts(tail.completion.saturating_sub(tail.ack_delay)))
    })
}

/// From the read that opens the window to the first byte read that was not buffered then.
pub(super) fn window_opened(b: &Bench) -> Result<Figure> {
    let note = "100 Mb/s, 40 ms there and back; from the read that opens the window until a byte \
                is read that came after it";
    over(b, note, |seed| {
        let resumed = scripted::window_opened(seed).map_err(|violation| anyhow!("{violation}"))?;
        Ok(rtts(resumed.took))
    })
}

/// The same with the update lost, at the worst moment, over the time from one probe to the next.
pub(super) fn update_lost(b: &Bench) -> Result<Figure> {
    let first = scripted::update_lost(1).map_err(|violation| anyhow!("{violation}"))?;
    let note = format!(
        "100 Mb/s, 40 ms there and back; the window opens a millisecond after a probe was \
         answered, nothing tells of it but the answer to the next; {:.1} ms until a byte is \
         read that came after it, {:.1} ms from probe to probe",
        first.took.as_secs_f64() * 1e3,
        first.probe_interval.as_secs_f64() * 1e3,
    );
    over(b, &note, |seed| {
        let resumed = scripted::update_lost(seed).map_err(|violation| anyhow!("{violation}"))?;
        ensure!(resumed.probe_interval > Duration::ZERO, "seed {seed}: there was no other probe");
        Ok(resumed.took.as_secs_f64() / resumed.probe_interval.as_secs_f64())
    })
}

/// Wall time of 60 s of one flow, with nothing else of ours running: one thread on one core.
pub(super) fn simulated_minute(b: &Bench) -> Result<Figure> {
    let runs = if b.is_quick { 3 } else { 5 };
    let path = path(200, 100, 1.0, "cubic").into_inner();
    let mut share = 0.0;
    let mut samples = Vec::with_capacity(runs);
    for _ in 0..runs {
        let start = Clock::now();
        share = measure(&path).map_err(|violation| anyhow!("{violation}"))?.share;
        samples.push(start.elapsed().as_secs_f64());
    }
    let note = format!("one flow of CUBIC that carried {share:.3} of the path, one thread");
    Ok(Figure { value: median(&samples), samples, note })
}
