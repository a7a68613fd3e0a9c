//! The rows of bench `tcp`, about bad networks. Called by `main.rs`. They run in virtual time in
//! the simulator (`sim`), with the stack's default settings; only the last row depends on the
//! machine. `paths` measures goodput. This file contains the table, the rows with one scripted
//! event, and the rate that RFC 9438 expects.

pub(crate) mod paths;

use std::time::Instant as Clock;

use anyhow::{Result, anyhow, ensure};
use base::Duration;
use paths::path;
use sim::goodput::measure;
use sim::scripted;
use sim::scripted::RTT;

use crate::harness::{Bench, Better, Figure, Spec, spec};
use crate::measure::median;
use crate::memory::instructions;

/// The table.
pub const ROWS: &[Spec] = {
    use Better::{Higher, Lower};
    &[
        spec("100 Mb/s 100 ms 1 BDP queue CUBIC", Higher, 0.95, 0.985, "x", |b| {
            paths::share(b, &paths::path(100, 100, 1.0, "cubic"))
        }),
        spec("200 Mb/s 100 ms 0.25 BDP queue CUBIC", Higher, 0.82, 0.92, "x", |b| {
            paths::share(b, &paths::path(200, 100, 0.25, "cubic"))
        }),
        spec("200 Mb/s 100 ms 0.25 BDP queue BBR", Higher, 0.85, 0.93, "x", |b| {
            paths::share(b, &paths::path(200, 100, 0.25, "bbr"))
        }),
        spec("1 Gb/s 50 ms 1 BDP queue CUBIC", Higher, 0.93, 0.97, "x", |b| {
            paths::share(b, &paths::path(1_000, 50, 1.0, "cubic").slow())
        }),
        spec("10 Gb/s 20 ms 1 BDP queue CUBIC, 15 s, 3 seeds", Higher, 0.80, 0.90, "x", |b| {
            paths::share(b, &paths::path(10_000, 20, 1.0, "cubic").seconds(0, 15).seeds(3).slow())
        }),
        spec(
            "100 Mb/s 100 ms, 1 percent of packets 10 ms late, CUBIC",
            Higher,
            0.80,
            0.95,
            "x",
            |b| paths::share(b, &paths::path(100, 100, 1.0, "cubic").late_ms(10)),
        ),
        spec(
            "100 Mb/s 100 ms, 1 percent of packets 40 ms late, CUBIC",
            Higher,
            0.68,
            0.90,
            "x",
            |b| paths::share(b, &paths::path(100, 100, 1.0, "cubic").late_ms(40)),
        ),
        spec(
            "100 Mb/s 100 ms, 1 percent of packets 10 ms late, BBR",
            Higher,
            0.93,
            0.97,
            "x",
            |b| paths::share(b, &paths::path(100, 100, 1.0, "bbr").late_ms(10)),
        ),
        spec(
            "loss 0.01 percent CUBIC, last 240 of 300 s / RFC 9438 response function",
            Higher,
            1.0,
            1.25,
            "x",
            |b| paths::against_response(b, 1e-4),
        ),
        spec(
            "loss 0.1 percent CUBIC, last 240 of 300 s / RFC 9438 response function",
            Higher,
            1.0,
            1.15,
            "x",
            |b| paths::against_response(b, 1e-3),
        ),
        spec(
            "loss 1 percent CUBIC, last 240 of 300 s / RFC 9438 response function",
            Higher,
            0.95,
            1.05,
            "x",
            |b| paths::against_response(b, 1e-2),
        ),
        spec("loss 0.01 percent BBR", Higher, 0.92, 0.96, "x", |b| {
            paths::share(b, &paths::path(100, 100, 1.0, "bbr").loss(1e-4))
        }),
        spec("loss 0.1 percent BBR", Higher, 0.90, 0.95, "x", |b| {
            paths::share(b, &paths::path(100, 100, 1.0, "bbr").loss(1e-3))
        }),
        spec("loss 1 percent BBR", Higher, 0.82, 0.90, "x", |b| {
            paths::share(b, &paths::path(100, 100, 1.0, "bbr").loss(1e-2))
        }),
        spec("20 Mb/s 40 ms 150 KB queue, 4 flows CUBIC, total", Higher, 0.96, 0.99, "x", |b| {
            paths::share(b, &paths::four_flows())
        }),
        spec(
            "20 Mb/s 40 ms 150 KB queue, 4 flows CUBIC, Jain's index over the last 40 s",
            Higher,
            0.93,
            0.98,
            "x",
            |b| paths::fairness(b, &paths::four_flows().seconds(20, 60)),
        ),
        spec(
            "last segment of a 20 KB reply lost, 40 ms, warm connection: completion less the \
             peer's max ACK delay, in RTT",
            Lower,
            4.3,
            4.0,
            "RTT",
            lost_tail,
        ),
        spec(
            "peer's window shut 5 s, then opened: resume time in RTT",
            Lower,
            1.1,
            1.0,
            "RTT",
            window_opened,
        ),
        spec(
            "peer's window opened, update lost: resume time in probe intervals",
            Lower,
            1.1,
            1.0,
            "intervals",
            update_lost,
        ),
        spec(
            "instructions per received ACK, 100,000 segments outstanding / 100",
            Lower,
            1.2,
            1.05,
            "x",
            |_| ratio("ack"),
        ),
        spec(
            "instructions per SACK-bearing ACK in recovery, 100,000 outstanding / 100",
            Lower,
            3.0,
            1.5,
            "x",
            |_| ratio("sack"),
        ),
        spec(
            "simulated minute of 200 Mb/s 100 ms, seconds",
            Lower,
            3.0,
            1.0,
            "s",
            simulated_minute,
        ),
    ]
};

// Rows of instruction counts: the cost of an ACK with a large window divided by the cost with a
// small one. The cases are those of `icount`; `outstanding.rs` sets up their state.

/// The instructions of case `KIND-100000-outstanding` divided by those of `KIND-100-outstanding`.
fn ratio(kind: &str) -> Result<Figure> {
    let many = instructions(&format!("{kind}-100000-outstanding"))?;
    let few = instructions(&format!("{kind}-100-outstanding"))?;
    ensure!(few > 0.0, "an ACK cost nothing");
    let value = many / few;
    let note = format!("{many:.1} over {few:.1} instructions, by valgrind, the ACK's poll alone");
    Ok(Figure { value, samples: vec![value], note })
}

/// RFC 9438 section 4.6: beta_cubic.
const BETA: f64 = 0.7;
/// RFC 9438 section 5: C, in segments per second cubed.
const C: f64 = 0.4;

/// The payload rate in bits per second that RFC 9438's deterministic loss model gives a flow that
/// loses one packet in `1 / loss`. The round trip is `rtt_s` seconds, and a segment has `mss` bytes
/// of payload. The flow sends one window in each round trip. Its window, in segments, is the larger
/// of two: CUBIC's average window (section 5.1: the fourth root of `C (3 + beta) / (4 (1 - beta))`,
/// times the fourth root of `RTT^3 / p^3`), and the window of the Reno-friendly region (section
/// 4.3: the square root of `alpha (1 + beta) / (2 (1 - beta) p)` with `alpha = 3 (1 - beta) / (1 +
/// beta)`, which is the square root of `3 / (2 p)`).
fn rfc9438_bps(loss: f64, rtt_s: f64, mss: f64) -> f64 {
    let cubic = (C * (3.0 + BETA) / (4.0 * (1.0 - BETA)) * (rtt_s / loss).powi(3)).powf(0.25);
    let alpha = 3.0 * (1.0 - BETA) / (1.0 + BETA);
    let reno_friendly = (alpha * (1.0 + BETA) / (2.0 * (1.0 - BETA) * loss)).sqrt();
    cubic.max(reno_friendly) * mss * 8.0 / rtt_s
}

// Rows with one scripted event on one connection, and the only row that is measured in real time.
// `sim::scripted` defines when each time begins and ends.

/// The number of seeds of a row. Runs with different seeds differ in little more than their
/// sequence numbers.
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

/// The time from the write of the request to the read of the reply's last byte, minus the reader's
/// longest ACK delay.
fn lost_tail(b: &Bench) -> Result<Figure> {
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

/// The time from the read that opens the window to the read of the first byte that arrives after
/// that.
fn window_opened(b: &Bench) -> Result<Figure> {
    let note = "100 Mb/s, 40 ms there and back; from the read that opens the window until a byte \
                is read that arrived after it";
    over(b, note, |seed| {
        let resumed = scripted::window_opened(seed).map_err(|violation| anyhow!("{violation}"))?;
        Ok(rtts(resumed.took))
    })
}

/// The same time if the window update is lost at the worst moment, divided by the interval between
/// two probes.
fn update_lost(b: &Bench) -> Result<Figure> {
    let first = scripted::update_lost(1).map_err(|violation| anyhow!("{violation}"))?;
    let note = format!(
        "100 Mb/s, 40 ms there and back; the window opens a millisecond after a probe was \
         answered, and the sender learns it only from the answer to the next probe; {:.1} ms until \
         a byte is read that arrived after it, {:.1} ms from probe to probe",
        first.took.as_secs_f64() * 1e3,
        first.probe_interval.as_secs_f64() * 1e3,
    );
    over(b, &note, |seed| {
        let resumed = scripted::update_lost(seed).map_err(|violation| anyhow!("{violation}"))?;
        ensure!(resumed.probe_interval > Duration::ZERO, "seed {seed}: there was no other probe");
        Ok(resumed.took.as_secs_f64() / resumed.probe_interval.as_secs_f64())
    })
}

/// The wall time of 60 simulated seconds of one flow, on one thread and one core, while this
/// program does nothing else.
fn simulated_minute(b: &Bench) -> Result<Figure> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_gives_the_windows_of_the_rfc() {
        // The RFC's tables in section 5.1, at a round trip of 0.1 s, give 12 and 38 segments for
        // Reno at losses of 1e-2 and 1e-3, and 187 and 1054 segments for CUBIC with C = 0.4 at 1e-4
        // and 1e-5. At each of these losses that is the larger of the two windows.
        let window = |loss| rfc9438_bps(loss, 0.1, 1.0) * 0.1 / 8.0;
        for (loss, segments) in [(1e-2, 12.25), (1e-3, 38.7), (1e-4, 187.4), (1e-5, 1054.0)] {
            let off = window(loss) / segments - 1.0;
            assert!(off.abs() < 0.01, "{loss}: {} instead of {segments}", window(loss));
        }
    }

    #[test]
    fn a_shorter_round_trip_is_ruled_by_reno() {
        // Section 4.3: short paths are in the Reno-friendly region, where the rate is proportional
        // to 1 / RTT.
        let ratio = rfc9438_bps(1e-4, 0.005, 1448.0) / rfc9438_bps(1e-4, 0.01, 1448.0);
        assert!((ratio - 2.0).abs() < 1e-9, "{ratio}");
    }
}
