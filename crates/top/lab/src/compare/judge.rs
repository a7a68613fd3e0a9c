//! Two figures: their ratio, its interval, and whether they differ.
//!
//! Called by: `pair`. The interval is that of the ratio of medians, by resampling (bootstrap;
//! Efron, 1979), if there are single runs; else the lowest and the highest ratio that the bounds of
//! both figures allow.

/// The share of intervals that contain the true ratio. Many figures are compared at a time: with 95
/// %, one of twenty unchanged figures would be reported as changed.
pub(super) const CONFIDENCE: f64 = 0.99;
/// Resamples of the single runs.
const RESAMPLES: usize = 2_000;
/// The number of single runs of a side: fewer say nothing about their spread, and more are not
/// used.
const RUNS: std::ops::RangeInclusive<usize> = 3..=1_000;

/// A figure in a document.
#[derive(Clone, Debug, Default)]
pub(super) struct Side {
    pub(super) value: f64,
    /// Single runs.
    pub(super) runs: Vec<f64>,
    /// The lowest and the highest value.
    pub(super) spread: Option<(f64, f64)>,
    /// How much wider its interval is made, as a share.
    pub(super) wider: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Same,
    Noise,
    Changed,
    /// The figures differ, and nothing says how much they vary.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Judged {
    pub(super) verdict: Verdict,
    /// B / A, if that is a number.
    pub(super) ratio: Option<f64>,
    pub(super) interval: Option<(f64, f64)>,
}

/// Compare two sides. With `is_exact` the figures would repeat to the last digit if nothing had
/// changed.
pub(super) fn judge(a: &Side, b: &Side, is_exact: bool) -> Judged {
    let ratio = Some(b.value / a.value).filter(|ratio| ratio.is_finite() && *ratio >= 0.0);
    if a.value == b.value {
        return Judged { verdict: Verdict::Same, ratio, interval: None };
    }
    let interval = ratio.and_then(|_| resampled(a, b).or_else(|| spread(a, b)));
    let interval = interval.map(|(low, high)| {
        let wider = (1.0 + a.wider) * (1.0 + b.wider);
        (low / wider, high * wider)
    });
    let verdict = match interval {
        Some((low, high)) if low <= 1.0 && 1.0 <= high => Verdict::Noise,
        Some(_) => Verdict::Changed,
        None if is_exact => Verdict::Changed,
        None => Verdict::Unknown,
    };
    Judged { verdict, ratio, interval }
}

/// The interval of the ratio of medians, from single runs.
fn resampled(a: &Side, b: &Side) -> Option<(f64, f64)> {
    if !RUNS.contains(&a.runs.len()) || !RUNS.contains(&b.runs.len()) {
        return None;
    }
    // A fixed seed: the same documents give the same interval.
    let mut state = 1_u64;
    let mut draw = |runs: &[f64]| {
        let drawn: Vec<f64> = runs.iter().map(|_| runs[below(&mut state, runs.len())]).collect();
        median(drawn)
    };
    let mut ratios: Vec<f64> = (0..RESAMPLES).map(|_| draw(&b.runs) / draw(&a.runs)).collect();
    if ratios.iter().any(|ratio| !ratio.is_finite()) {
        return None;
    }
    ratios.sort_by(f64::total_cmp);
    let outside = (1.0 - CONFIDENCE) / 2.0;
    let at = |share: f64| ratios[((RESAMPLES - 1) as f64 * share).round() as usize];
    Some((at(outside), at(1.0 - outside)))
}

/// The next number below `most` (SplitMix64).
fn below(state: &mut u64, most: usize) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed ^ (mixed >> 31)) % most as u64) as usize
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() % 2 {
        0 => f64::midpoint(values[half - 1], values[half]),
        _ => values[half],
    }
}

/// The lowest and the highest ratio that the bounds of both figures allow.
fn spread(a: &Side, b: &Side) -> Option<(f64, f64)> {
    let ((low_a, high_a), (low_b, high_b)) = (a.spread?, b.spread?);
    // A figure of one run has no spread: its bounds are equal.
    if low_a <= 0.0 || low_b < 0.0 || (low_a == high_a && low_b == high_b) {
        return None;
    }
    Some((low_b / high_a, high_b / low_a))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(value: f64, runs: &[f64]) -> Side {
        Side { value, runs: runs.to_vec(), ..Side::default() }
    }

    #[test]
    fn single_runs_decide_where_there_are_enough() {
        let a = runs(10.0, &[9.9, 10.0, 10.1, 10.0, 9.95]);
        let b = runs(12.0, &[11.9, 12.0, 12.1, 12.0, 11.95]);
        let judged = judge(&a, &b, false);
        assert_eq!(judged.verdict, Verdict::Changed);
        let (low, high) = judged.interval.expect("from runs");
        assert!(low > 1.15 && low <= 1.2 && (1.2..1.25).contains(&high), "{judged:?}");
        assert_eq!(judged, judge(&a, &b, false), "the same documents, the same word");
        let near = runs(10.05, &[9.8, 10.05, 10.3, 10.1, 9.9]);
        assert_eq!(judge(&a, &near, false).verdict, Verdict::Noise);
        assert_eq!(judge(&a, &runs(12.0, &[12.0]), false).verdict, Verdict::Unknown);
    }

    #[test]
    fn else_the_spread_of_the_rows_decides_and_a_noisy_machine_widens_it() {
        let side = |value: f64, wider| Side {
            value,
            spread: Some((value * 0.95, value * 1.05)),
            wider,
            ..Side::default()
        };
        assert_eq!(judge(&side(10.0, 0.0), &side(12.0, 0.0), false).verdict, Verdict::Changed);
        assert_eq!(judge(&side(10.0, 0.0), &side(10.5, 0.0), false).verdict, Verdict::Noise);
        assert_eq!(judge(&side(10.0, 0.3), &side(12.0, 0.0), false).verdict, Verdict::Noise);
    }

    #[test]
    fn a_figure_that_repeats_exactly_has_changed_if_it_differs_at_all() {
        let of = |value| Side { value, ..Side::default() };
        assert_eq!(judge(&of(3.0), &of(3.0), true).verdict, Verdict::Same);
        assert_eq!(judge(&of(3.0), &of(3.1), true).verdict, Verdict::Changed);
        assert_eq!(judge(&of(3.0), &of(3.1), false).verdict, Verdict::Unknown);
        let from_zero = judge(&of(0.0), &of(3.1), true);
        assert_eq!((from_zero.verdict, from_zero.ratio), (Verdict::Changed, None));
    }
}
