//! The rows about `lab budget`: what the budget costs the packet path while nobody samples, what
//! live sampling costs, and how far the sum of the stages' costs is from the whole cost. Called by
//! `mod.rs`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use lab::budget;

use crate::drive::Bulk;
use crate::harness::{Bench, Figure, paired};
use crate::measure::{Measurement, median, pin, thread_cpu_s};
use crate::{memory, ours};

/// The value of `predicted-segment-1500` in docs/icount-baseline.json before `lab budget` existed.
const BEFORE: f64 = 379.7;

/// Samples are taken from outside the program, so the packet path has no instrumentation that could
/// be switched off. This row shows that the cost of the packet path has not changed.
pub(super) fn instrumentation_off(_: &Bench) -> Result<Figure> {
    let now = memory::predicted_segment_instructions()?;
    let note = format!("{now} now, {BEFORE} before, by icount; the packet path has no code for it");
    Ok(Figure { value: now / BEFORE, samples: vec![now], note })
}

/// By how many percent sampling this thread reduces the bytes carried in a second of processor
/// time, from pairs of a run with samples and a run without. Interrupts that take samples count as
/// the thread's time; other work of the machine does not. The thread that collects the samples may
/// use the other core, as with `show budget`.
pub(super) fn live(b: &Bench) -> Result<Figure> {
    // Pairs are short, because other load on the machine changes the speed by more than samples do.
    let (pairs, seconds) = (5 * b.pairs, b.seconds / 5.0);
    let (mut samples_taken, mut used_s, mut looked_s) = (0, 0.0, 0.0);
    let plain = || bytes_per_cpu_s(&ours::bulk(Bulk::default(), seconds)?);
    let looked_at = || {
        let (measured, looked) = while_looked_at(b, || ours::bulk(Bulk::default(), seconds))?;
        samples_taken += looked.samples;
        used_s += looked.cpu_s;
        looked_s += looked.wall_s;
        bytes_per_cpu_s(&measured)
    };
    plain()?;
    let ratios = paired(pairs, looked_at, plain)?;
    ensure!(samples_taken > 0, "no samples were taken");
    let samples: Vec<f64> = ratios.iter().map(|ratio| (1.0 - ratio) * 100.0).collect();
    let mut sorted = samples.clone();
    sorted.sort_by(f64::total_cmp);
    let quarter = sorted.len() / 4;
    let note = format!(
        "a bulk transfer in memory, MTU 1500, both ends on one thread, of which {} samples a \
         second are taken; bytes in a second of its processor time; {samples_taken} samples in \
         all; the thread that collects them used {:.2} % of the other core; half of the {} pairs \
         are between {:.2} and {:.2} %",
        profile::HZ,
        used_s / looked_s * 100.0,
        samples.len(),
        sorted[quarter],
        sorted[sorted.len() - 1 - quarter]
    );
    Ok(Figure { value: median(&samples), samples, note })
}

fn bytes_per_cpu_s(measured: &Measurement) -> Result<f64> {
    ensure!(measured.cpu_s > 0.0, "no time was used");
    Ok(measured.bytes as f64 / measured.cpu_s)
}

/// The number of samples, and the processor time of the thread that collected them.
struct Looked {
    samples: u64,
    cpu_s: f64,
    wall_s: f64,
}

/// Does work on this thread while another thread samples it.
fn while_looked_at<T>(b: &Bench, work: impl FnOnce() -> Result<T>) -> Result<(T, Looked)> {
    let thread = rustix::thread::gettid().as_raw_nonzero().get();
    let (is_done, (begun, begins)) = (AtomicBool::new(false), mpsc::channel());
    let both = b.cores.both();
    thread::scope(|scope| {
        let looking = scope.spawn(|| {
            pin(&both)?;
            let (started, cpu_s) = (Instant::now(), thread_cpu_s());
            let begun = move || {
                // If nobody waits for this message, the work has already failed.
                let _ = begun.send(());
            };
            let stop = |_| is_done.load(Ordering::Relaxed);
            let look = profile::look(std::process::id(), Some(&[thread]), begun, &stop)?;
            let cpu_s = thread_cpu_s() - cpu_s;
            let wall_s = started.elapsed().as_secs_f64();
            anyhow::Ok(Looked { samples: look.samples(), cpu_s, wall_s })
        });
        // If the sampling could not begin, its thread ends, and its error says why.
        let done = begins.recv().ok().map(|()| work());
        is_done.store(true, Ordering::Relaxed);
        let looked = looking.join().map_err(|_| anyhow!("the sampling thread panicked"))??;
        Ok((done.context("the sampling did not begin")??, looked))
    })
}

/// How far the sum of the stages' costs is from the processor time that the thread used in the same
/// period: for the worst role, at 1,500 bytes. All rounds are added up, because a single round has
/// few samples.
pub(super) fn distance(b: &Bench) -> Result<Figure> {
    const BYTES: usize = 1_500;
    let (rounds, seconds) = if b.is_quick { (15, 0.2) } else { (40, 0.25) };
    let sums = budget::sums(BYTES, rounds, seconds)?;
    let far = |sum: &budget::Sum| (sum.ratio - 1.0).abs();
    let by_distance = |a: &&budget::Sum, b: &&budget::Sum| far(a).total_cmp(&far(b));
    let worst = sums.iter().max_by(by_distance).context("nothing was measured")?;
    let said: Vec<String> =
        sums.iter().map(|sum| format!("{} {:.3}", sum.role.name(), sum.ratio)).collect();
    let rest = sums.iter().map(|sum| sum.rest * 100.0);
    let added: Vec<f64> = sums.iter().flat_map(|sum| sum.added.iter().copied()).collect();
    let note = format!(
        "the {} at {BYTES} bytes; sum divided by the thread's processor time in the same {rounds} \
         rounds: {}; {} samples; at most {:.1} % of a sum is in code of no stage; compared with \
         rounds without samples a packet costs {:.1} % more",
        worst.role.name(),
        said.join(", "),
        worst.samples,
        rest.fold(0.0, f64::max),
        median(&added) * 100.0
    );
    let samples = worst.ratios.iter().map(|ratio| (ratio - 1.0).abs()).collect();
    Ok(Figure { value: far(worst), samples, note })
}
