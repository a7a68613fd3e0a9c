//! Finds the knee of a curve of throughput against size, the knee's confidence interval, and
//! whether the samples support the conclusion.
//!
//! Called by: `knee.rs`. The knee is the smallest size with [`SHARE`] of the highest throughput,
//! interpolated between two measured sizes by a straight line over the logarithm of the size. Its
//! interval is that of the percentile bootstrap (Efron, 1979): rounds are drawn with replacement,
//! and each draw has a knee. docs/decisions/0093-the-knee.md has the reasons.

use device::fault::Rng;

use crate::report::Span;

/// The share of the highest throughput that the knee has.
pub(super) const SHARE: f64 = 0.95;
/// The confidence of the knee's interval.
pub(super) const CONFIDENCE: f64 = 0.95;
/// Draws of the bootstrap.
const DRAWS: usize = 1_000;
/// The least number of rounds: fewer support no conclusion.
pub(super) const ROUNDS_MIN: usize = 5;
/// The widest interval: if its end is more than this many times its beginning, there is no
/// conclusion.
pub(super) const WIDEST: f64 = 4.0;

/// A measured curve.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    /// The sizes, in ascending order.
    pub(super) sizes: Vec<usize>,
    /// Bytes a second of each round, for each size.
    pub(super) rounds: Vec<Vec<f64>>,
}

/// A knee, and the interval that contains it with [`CONFIDENCE`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Knee {
    pub(super) at: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// The conclusion that the samples support.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    /// A knee.
    Found(Knee),
    /// The smallest size may be as good as any: the knee, if there is one, is below all sizes.
    LeftOfAll(Knee),
    /// Throughput still rises at the largest size: the knee, if there is one, is above all sizes.
    RightOfAll(Knee),
    /// The interval is too wide.
    TooWide(Knee),
    /// Not enough was measured.
    TooFew,
}

impl Verdict {
    pub(super) fn knee(self) -> Option<Knee> {
        match self {
            Verdict::Found(knee)
            | Verdict::LeftOfAll(knee)
            | Verdict::RightOfAll(knee)
            | Verdict::TooWide(knee) => Some(knee),
            Verdict::TooFew => None,
        }
    }

    /// The verdict's name in the document.
    pub(super) fn name(self) -> &'static str {
        match self {
            Verdict::Found(_) => "found",
            Verdict::LeftOfAll(_) => "left of all sizes",
            Verdict::RightOfAll(_) => "right of all sizes",
            Verdict::TooWide(_) => "interval too wide",
            Verdict::TooFew => "too few rounds",
        }
    }
}

impl Curve {
    /// The number of rounds that all sizes have.
    pub(super) fn complete(&self) -> usize {
        self.rounds.iter().map(Vec::len).min().unwrap_or(0)
    }

    /// The medians of the drawn rounds.
    fn medians(&self, drawn: &[usize]) -> Vec<f64> {
        let median = |rounds: &Vec<f64>| {
            Span::of(drawn.iter().map(|&round| rounds[round])).map_or(0.0, |span| span.mid)
        };
        self.rounds.iter().map(median).collect()
    }

    /// The knee, its interval, and whether they support a conclusion. The same seed gives the same
    /// interval.
    pub(super) fn verdict(&self, seed: u64) -> Verdict {
        let count = self.complete();
        let all: Vec<usize> = (0..count).collect();
        if count < ROUNDS_MIN {
            return Verdict::TooFew;
        }
        let Some(at) = knee(&self.sizes, &self.medians(&all)) else { return Verdict::TooFew };
        let mut rng = Rng::new(seed);
        let draw = |_| {
            let drawn: Vec<usize> = (0..count).map(|_| rng.below(count)).collect();
            knee(&self.sizes, &self.medians(&drawn))
        };
        let mut knees: Vec<f64> = (0..DRAWS).filter_map(draw).collect();
        knees.sort_by(f64::total_cmp);
        let outside = ((1.0 - CONFIDENCE) / 2.0 * knees.len() as f64) as usize;
        let (Some(&low), Some(&high)) = (knees.get(outside), knees.iter().rev().nth(outside))
        else {
            return Verdict::TooFew;
        };
        let knee = Knee { at, low: low.min(at), high: high.max(at) };
        if knee.high > WIDEST * knee.low {
            Verdict::TooWide(knee)
        } else if self.sizes.first().is_some_and(|&first| knee.low <= first as f64) {
            Verdict::LeftOfAll(knee)
        } else if self.sizes.iter().rev().nth(1).is_some_and(|&last| knee.high > last as f64) {
            Verdict::RightOfAll(knee)
        } else {
            Verdict::Found(knee)
        }
    }

    /// The smallest measured size that is not below the end of a knee's interval.
    pub(super) fn right_of(&self, knee: Knee) -> Option<usize> {
        self.sizes.iter().copied().find(|&size| size as f64 >= knee.high)
    }
}

/// The smallest size with [`SHARE`] of the highest throughput.
fn knee(sizes: &[usize], throughput: &[f64]) -> Option<f64> {
    let wanted = SHARE * throughput.iter().copied().fold(0.0, f64::max);
    let right = throughput.iter().position(|&value| value >= wanted)?;
    let size = |at: usize| (sizes[at] as f64).log2();
    let Some(left) = right.checked_sub(1) else { return Some(sizes[right] as f64) };
    let part = (wanted - throughput[left]) / (throughput[right] - throughput[left]);
    Some((size(left) + part * (size(right) - size(left))).exp2())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A curve with a fixed cost of 1,000 and a cost of 1 a byte, with noise of this many percent.
    fn curve(percent: f64, rounds: usize, seed: u64) -> Curve {
        let sizes: Vec<usize> = (6..19).map(|bits| 1 << bits).collect();
        let mut rng = Rng::new(seed);
        let mut noise = || 1.0 + percent / 100.0 * (rng.below(2_001) as f64 / 1_000.0 - 1.0);
        let throughput = |size: f64, noise: f64| 1e9 * size / (1_000.0 + size) * noise;
        let rounds = sizes
            .iter()
            .map(|&size| (0..rounds).map(|_| throughput(size as f64, noise())).collect())
            .collect();
        Curve { sizes, rounds }
    }

    #[test]
    fn without_noise_the_knee_is_where_the_fixed_cost_is_a_nineteenth() {
        let Verdict::Found(knee) = curve(0.0, 7, 1).verdict(1) else { panic!("no knee") };
        // The highest throughput is at 256 KB, 0.4 % below the limit for an infinite size.
        assert!((16_000.0..19_500.0).contains(&knee.at), "{knee:?}");
        assert_eq!((knee.low, knee.high), (knee.at, knee.at));
        assert_eq!(curve(0.0, 7, 1).right_of(knee), Some(32_768));
    }

    #[test]
    fn noise_widens_the_interval_until_there_is_no_conclusion() {
        let width = |percent| {
            let knee = curve(percent, 15, 3).verdict(1).knee().expect("enough rounds");
            knee.high / knee.low
        };
        assert!(width(1.0) < width(10.0) && width(10.0) < width(60.0));
        assert!(matches!(curve(1.0, 15, 3).verdict(1), Verdict::Found(_)));
        assert!(matches!(curve(60.0, 15, 3).verdict(1), Verdict::TooWide(_)));
    }

    /// Noisy curves: the interval contains the true knee in about 95 of 100.
    #[test]
    fn the_interval_covers_the_knee_as_often_as_it_says() {
        let truth = curve(0.0, 5, 1).verdict(1).knee().expect("a knee").at;
        let covers = |seed: &u64| {
            let knee = curve(4.0, 15, 100 + seed).verdict(1).knee().expect("a knee");
            // The highest of noisy medians is a little too high, so that the knee found is a little
            // too large.
            knee.low <= truth * 1.25 && truth * 0.8 <= knee.high
        };
        let covered = (0..30).filter(covers).count();
        assert!(covered >= 26, "{covered} of 30");
    }

    #[test]
    fn a_curve_that_still_rises_at_its_end_has_no_knee() {
        let mut rising = curve(1.0, 9, 1);
        rising.sizes.truncate(6);
        rising.rounds.truncate(6);
        assert!(matches!(rising.verdict(1), Verdict::RightOfAll(_)));
    }

    #[test]
    fn a_flat_curve_and_a_short_one_have_no_knee() {
        let flat = Curve { sizes: vec![1, 2, 4], rounds: vec![vec![5.0; 9]; 3] };
        assert!(matches!(flat.verdict(1), Verdict::LeftOfAll(knee) if knee.at == 1.0));
        assert_eq!(curve(1.0, ROUNDS_MIN - 1, 1).verdict(1), Verdict::TooFew);
        let stopped = Curve { sizes: vec![1, 2], rounds: vec![vec![5.0; 9], Vec::new()] };
        assert_eq!(stopped.verdict(1), Verdict::TooFew);
        assert_eq!(Curve { sizes: vec![], rounds: vec![] }.verdict(1), Verdict::TooFew);
    }
}
