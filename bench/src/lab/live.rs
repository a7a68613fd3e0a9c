//! The row of the live page: how long after it was asked for a browser has painted it first.
//! Called by the table of bench `lab`. It needs Chromium and the program `wirespeed`; each run has
//! a new browser, so that nothing of the page is in its memory.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use testbed::{Browser, Need, Running};

use crate::harness::{Bench, Figure};
use crate::measure::median;
use crate::strangers::idle::built;

/// The paint timing entry of the first text or picture (W3C Paint Timing), in milliseconds since
/// the page was asked for.
const PAINTED: &str = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0";

/// The row.
pub(super) fn first_paint(b: &Bench) -> Result<Figure> {
    ensure!(Need::CHROMIUM.is_there(), "no chromium here (Debian package chromium)");
    let mut program = Command::new(built()?);
    // The transfer leaves a core to the browser.
    program.args(["ttcp", "--seconds", "600", "--http", "127.0.0.1:0"]);
    let program = program.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut running = Running(program.context("starting `wirespeed ttcp`")?);
    let mut line = String::new();
    let said = running.0.stderr.take().context("its standard error")?;
    BufReader::new(said).read_line(&mut line).context("what it says")?;
    let url =
        line.trim().strip_prefix("live page: ").context("it does not say where its page is")?;
    let mut samples = Vec::new();
    for _ in 0..if b.is_quick { 3 } else { 9 } {
        // The browser panics where a test would fail.
        let measured = std::thread::scope(|scope| scope.spawn(|| painted(url)).join());
        samples.push(measured.map_err(|_| anyhow!("chromium did not show the page"))??);
    }
    let note = format!(
        "first contentful paint in Chromium without a window, a new browser each, beside \
         `wirespeed ttcp` on one core; {} runs, {:.0} to {:.0} ms",
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
    browser.evaluate(PAINTED).as_f64().context("the paint timing is no number")
}
