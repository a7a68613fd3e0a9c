//! The rows of bench `lab`. Called by `main.rs`. `budget` measures the cost of sampling a stack,
//! and whether the sum of the stages is the whole cost. This file measures `lab all`, and the time
//! until a browser shows the live page.

mod budget;

use std::cell::RefCell;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use testbed::{Browser, Need, Running};

use crate::harness::{Bench, Better, Figure, Spec, spec};
use crate::measure::{median, pin};
use crate::strangers::idle::built;

/// The table.
pub const ROWS: &[Spec] = {
    use Better::Lower;
    &[
        spec(
            "instructions per predicted segment, instrumentation off / before this issue",
            Lower,
            1.0,
            1.0,
            "x",
            budget::instrumentation_off,
        ),
        spec("cost of live budget, percent", Lower, 2.0, 0.5, "%", budget::live),
        spec("lab all --quick, seconds", Lower, 300.0, 150.0, "s", seconds),
        spec("report size, MB", Lower, 3.0, 1.0, "MB", size),
        spec("first paint of the live page, ms", Lower, 1000.0, 300.0, "ms", first_paint),
        spec(
            "budget's sum / end-to-end cost, distance from 1",
            Lower,
            0.10,
            0.03,
            "",
            budget::distance,
        ),
    ]
};

// The rows about the report: how long `lab all --quick` takes, and how large its page is. Both rows
// come from one run, in this process, on both cores.

/// The seconds that the run took, and the bytes of its page.
type Made = (f64, usize);

/// How long the run takes, in seconds.
fn seconds(bench: &Bench) -> Result<Figure> {
    let (seconds, bytes) = made(bench)?;
    let note = format!("a page of {} kB, on both cores", bytes / 1000);
    Ok(Figure { value: seconds, samples: vec![seconds], note })
}

/// The size of the page, in megabytes.
fn size(bench: &Bench) -> Result<Figure> {
    let (seconds, bytes) = made(bench)?;
    let value = bytes as f64 / 1e6;
    let note = format!("{bytes} bytes, with uPlot; made in {seconds:.0} s with --quick");
    Ok(Figure { value, samples: vec![value], note })
}

/// Runs the lab once, for both rows.
fn made(bench: &Bench) -> Result<Made> {
    thread_local! {
        static KNOWN: RefCell<Option<Made>> = const { RefCell::new(None) };
    }
    if let Some(made) = KNOWN.with_borrow(|known| *known) {
        return Ok(made);
    }
    // A row's thread is pinned to one core, but the lab should use both cores, as it does for a
    // user.
    let both = bench.cores.both();
    let made = thread::scope(|scope| {
        let run = || -> Result<Made> {
            pin(&both)?;
            let begun = Instant::now();
            let page = ::lab::page(true, &|| false)?;
            Ok((begun.elapsed().as_secs_f64(), page.len()))
        };
        scope.spawn(run).join().map_err(|_| anyhow!("the lab panicked"))?
    })?;
    KNOWN.set(Some(made));
    Ok(made)
}

// The row about the live page: the time from a browser's request for the page to its first paint.
// It needs Chromium and the program `wirespeed`. Each run starts a new browser, so that nothing of
// the page is in its cache.

/// The paint timing entry of the first text or picture (W3C Paint Timing): milliseconds since the
/// page was requested.
const PAINTED: &str = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0";

/// The row about the live page.
fn first_paint(b: &Bench) -> Result<Figure> {
    ensure!(Need::CHROMIUM.is_there(), "chromium is missing (Debian package chromium)");
    let mut program = Command::new(built()?);
    // The transfer uses one core, so that the browser can use the other.
    program.args(["ttcp", "--seconds", "600", "--http", "127.0.0.1:0"]);
    let program = program.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut running = Running(program.context("starting `wirespeed ttcp`")?);
    let mut line = String::new();
    let said = running.0.stderr.take().context("reading wirespeed's standard error")?;
    BufReader::new(said).read_line(&mut line).context("reading what wirespeed says")?;
    let url = line
        .trim()
        .strip_prefix("live page: ")
        .context("wirespeed does not say where its page is")?;
    let mut samples = Vec::new();
    for _ in 0..if b.is_quick { 3 } else { 9 } {
        // The browser's functions panic if they fail, because they are made for tests.
        let measured = std::thread::scope(|scope| scope.spawn(|| painted(url)).join());
        samples.push(measured.map_err(|_| anyhow!("chromium did not show the page"))??);
    }
    let note = format!(
        "first contentful paint in headless Chromium, a new browser for each run, while `wirespeed \
         ttcp` runs on one core; {} runs, {:.0} to {:.0} ms",
        samples.len(),
        samples.iter().copied().fold(f64::MAX, f64::min),
        samples.iter().copied().fold(0.0, f64::max)
    );
    Ok(Figure { value: median(&samples), samples, note })
}

fn painted(url: &str) -> Result<f64> {
    let mut browser = Browser::start();
    browser.open(url);
    let is_painted = browser.until(Duration::from_secs(20), &format!("({PAINTED}) > 0"));
    ensure!(is_painted, "nothing was painted in 20 s: {:?}", browser.complaints());
    browser.evaluate(PAINTED).as_f64().context("the paint timing is not a number")
}
