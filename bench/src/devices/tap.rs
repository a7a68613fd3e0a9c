//! What it costs to show a packet to a tap, beside the model of STREAMS.
//! And what the place for taps costs where nobody listens, in instructions.
//! Called by `devices`. The first figure is that of `wirespeed lab tap`, repeated.

use anyhow::{Context, Result};
use lab::tap::{Way, lines};

use crate::harness::{Bench, Figure};
use crate::memory::instructions_with;

/// What is left without the copying: the model's, allocated and freed, over ours.
pub(super) fn intercept(b: &Bench) -> Result<Figure> {
    let rounds = if b.is_quick { 15 } else { 101 };
    let mut samples = Vec::new();
    let mut note = String::new();
    for _ in 0..5 {
        let [ours, model] = lines([Way::OURS, Way::ALLOCATE_AND_FREE], rounds)?;
        let (ours, model) = ours.zip(model).context("no line through the times")?;
        samples.push(model.intercept / ours.intercept);
        note = format!(
            "{:.1} ns over {:.2} ns above a copy alone, least squares",
            model.intercept, ours.intercept
        );
    }
    Ok(Figure { value: crate::measure::median(&samples), samples, note })
}

/// Of a predicted segment at both ends: with the place for taps, and nobody in it, less without.
pub(super) fn instructions_without_listener(_: &Bench) -> Result<Figure> {
    const CASE: &str = "predicted-segment-1500";
    let with = instructions_with(CASE, &[])?;
    let without = instructions_with(CASE, &["--untapped"])?;
    let value = with - without;
    let note = format!("{with:.1} with, {without:.1} without, by valgrind, both ends of a segment");
    Ok(Figure { value, samples: vec![value], note })
}
