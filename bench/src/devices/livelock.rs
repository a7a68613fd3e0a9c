//! A receiver under ten times its capacity: the figures of `wirespeed lab livelock`. Called by
//! `devices`. Medians over rounds of all loads.

use std::time::Duration;

use anyhow::{Context, Result};
use lab::livelock::{Step, peak_pps, sweep};

use crate::harness::{Bench, Figure};

/// The work of the application on each datagram.
const WORK: Duration = Duration::from_micros(3);

fn steps(b: &Bench) -> Result<Vec<Step>> {
    let (seconds, rounds) = if b.is_quick { (0.2, 3) } else { (0.5, 9) };
    Ok(sweep(WORK, seconds, rounds, &|| false)?)
}

fn of_last(steps: &[Step], figure: impl Fn(f64, f64) -> f64, value: f64) -> Result<Figure> {
    let last = steps.last().context("there are loads")?;
    let offered = last.offered(peak_pps(steps)).context("the last load was offered")?;
    let outcomes = last.outcomes.iter();
    let samples = outcomes.map(|o| figure(o.delivered_pps(), o.application_share)).collect();
    let note = format!(
        "{:.0} datagrams/s delivered, {offered:.1} times the peak offered, {} ns of work each",
        last.delivered_pps(),
        WORK.as_nanos()
    );
    Ok(Figure { value, samples, note })
}

pub(super) fn delivered(b: &Bench) -> Result<Figure> {
    let steps = steps(b)?;
    let peak = peak_pps(&steps);
    let value = steps.last().context("there are loads")?.delivered_pps() / peak;
    of_last(&steps, |pps, _| pps / peak, value)
}

pub(super) fn applications_share(b: &Bench) -> Result<Figure> {
    let steps = steps(b)?;
    let value = steps.last().context("there are loads")?.share() * 100.0;
    of_last(&steps, |_, share| share * 100.0, value)
}
