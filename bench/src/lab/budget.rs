//! The rows about `lab budget`: what the packet path pays for it while nobody looks, what a live
//! look costs, and how far the stages' sum is from the whole. Called by `mod.rs`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};
use lab::budget::{self, live};

use crate::drive::Bulk;
use crate::harness::{Bench, Figure, paired};
use crate::measure::{Measurement, median, pin};
use crate::{memory, ours};

/// `predicted-segment-1500` of docs/icount-baseline.json before there was a budget.
const BEFORE: f64 = 379.7;

/// A look is from outside, so that nothing is to be switched off; this shows it.
pub(super) fn instrumentation_off(_: &Bench) -> Result<Figure> {
    let now = memory::predicted_segment_instructions()?;
    let note = format!("{now} now, {BEFORE} before, by icount; no code of the path is for it");
    Ok(Figure { value: now / BEFORE, samples: vec![now], note })
}

/// Throughput lost while this thread is looked at, in percent: pairs of a run with and one without.
/// The one who looks is on the other core, as `show budget` is.
pub(super) fn live(b: &Bench) -> Result<Figure> {
    // Short ones, because other load on the machine changes the speed by more than a look does.
    let (pairs, seconds) = (5 * b.pairs, b.seconds / 5.0);
    let mut samples_taken = 0;
    let plain = || bytes_per_s(&ours::bulk(Bulk::default(), seconds)?);
    let looked_at = || {
        let (measured, seen) = while_looked_at(b, || ours::bulk(Bulk::default(), seconds))?;
        samples_taken += seen.samples;
        bytes_per_s(&measured)
    };
    plain()?;
    let ratios = paired(pairs, looked_at, plain)?;
    ensure!(samples_taken > 0, "no samples were taken");
    let samples: Vec<f64> = ratios.iter().map(|ratio| (1.0 - ratio) * 100.0).collect();
    let mut sorted = samples.clone();
    sorted.sort_by(f64::total_cmp);
    let quarter = sorted.len() / 4;
    let note = format!(
        "a bulk transfer in memory, MTU 1500, both ends on one thread, {} samples a second of it; \
         {samples_taken} samples in all; half of the {} pairs are between {:.2} and {:.2} %",
        live::HZ,
        samples.len(),
        sorted[quarter],
        sorted[sorted.len() - 1 - quarter]
    );
    Ok(Figure { value: median(&samples), samples, note })
}

fn bytes_per_s(measured: &Measurement) -> Result<f64> {
    ensure!(measured.wall_s > 0.0, "no time passed");
    Ok(measured.bytes as f64 / measured.wall_s)
}

/// Work of this thread, looked at by another.
fn while_looked_at<T>(b: &Bench, work: impl FnOnce() -> Result<T>) -> Result<(T, live::Seen)> {
    let thread = rustix::thread::gettid().as_raw_nonzero().get();
    let (is_done, (begun, begins)) = (AtomicBool::new(false), mpsc::channel());
    let both = b.cores.both();
    thread::scope(|scope| {
        let looking = scope.spawn(|| {
            pin(&both)?;
            let begun = move || {
                // Nobody waits any more if the work failed.
                let _ = begun.send(());
            };
            let stop = |_| is_done.load(Ordering::Relaxed);
            live::look(std::process::id(), Some(&[thread]), begun, &stop)
                .map_err(|error| anyhow!(error))
        });
        // If it could not begin it ends, and says why.
        let done = begins.recv().ok().map(|()| work());
        is_done.store(true, Ordering::Relaxed);
        let seen = looking.join().map_err(|_| anyhow!("the look panicked"))??;
        Ok((done.context("the look did not begin")??, seen))
    })
}

/// How far the stages' sum is from what the clock says: the worst role, at 1,500 bytes.
pub(super) fn distance(b: &Bench) -> Result<Figure> {
    const BYTES: usize = 1_500;
    let (rounds, seconds) = if b.is_quick { (5, 0.1) } else { (15, 0.2) };
    let sums = budget::sums(rounds, seconds)?;
    let far = |sum: &budget::Sum| (median(&sum.ratios) - 1.0).abs();
    let at = sums.iter().filter(|sum| sum.bytes == BYTES);
    let worst = at.max_by(|a, b| far(a).total_cmp(&far(b))).context("nothing was measured")?;
    let said = sums
        .iter()
        .map(|sum| format!("{} {} B {:.3}", sum.role.name(), sum.bytes, median(&sum.ratios)));
    let said: Vec<String> = said.collect();
    let rest = sums.iter().filter(|sum| sum.bytes == BYTES).map(|sum| sum.rest * 100.0);
    let note = format!(
        "the {} at {BYTES} bytes; sum over clock: {}; of the sums at {BYTES} bytes at most {:.1} % \
         is code of no stage",
        worst.role.name(),
        said.join(", "),
        rest.fold(0.0, f64::max)
    );
    let samples = worst.ratios.iter().map(|ratio| (ratio - 1.0).abs()).collect();
    Ok(Figure { value: far(worst), samples, note })
}
