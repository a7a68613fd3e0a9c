//! The cost of passing a packet to a tap, compared with the model of STREAMS, and the cost in
//! instructions of the hook for taps when there is no tap. Called by `devices`. The first figure is
//! that of `wirespeed lab tap`, repeated.

use anyhow::{Context, Result, ensure};
use lab::tap::{Line, Method, lines};

use crate::harness::{Bench, Figure};
use crate::memory::instructions_with;

/// The intercepts of the lines through the times by size, less that of a loop that only copies: the
/// model's, allocated and freed, over ours.
pub(super) fn intercept(b: &Bench) -> Result<Figure> {
    let rounds = if b.is_quick { 15 } else { 101 };
    let (mut samples, mut figures) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let methods = [Method::OURS, Method::ALLOCATE_AND_FREE, Method::UNLOCKED];
        let [ours, model, unlocked] = lines(methods, rounds)?.map(|lines| lines.context(NO_LINE));
        let (ours, model, unlocked) = (ours?, model?, unlocked?);
        let Line { intercept, intercept_off, .. } = ours.above_copy;
        ensure!(intercept > intercept_off, "ours is {intercept:.2} ns, within {intercept_off:.2}");
        let ratio = model.above_copy.intercept / intercept;
        samples.push(ratio);
        let note = format!(
            "{:.1} ns over {intercept:.2} above a copy alone, least squares; nothing locked {:.1}, \
             {:.1} times; with the copy's own constant part {:.1} and {:.1} over {:.1}",
            model.above_copy.intercept,
            unlocked.above_copy.intercept,
            unlocked.above_copy.intercept / intercept,
            model.all.intercept,
            unlocked.all.intercept,
            ours.all.intercept,
        );
        figures.push((ratio, note));
    }
    figures.sort_by(|a, b| a.0.total_cmp(&b.0));
    let note = figures.swap_remove(figures.len() / 2).1;
    Ok(Figure { value: crate::measure::median(&samples), samples, note })
}

const NO_LINE: &str = "no line through the times";

/// Instructions of a predicted segment at both ends: with the hook for taps but no tap, less
/// without the hook.
pub(super) fn instructions_without_listener(_: &Bench) -> Result<Figure> {
    const CASE: &str = "predicted-segment-1500";
    let with = instructions_with(CASE, &[])?;
    let without = instructions_with(CASE, &["--untapped"])?;
    let value = with - without;
    let note = format!("{with:.1} with, {without:.1} without, by valgrind, both ends of a segment");
    Ok(Figure { value, samples: vec![value], note })
}
