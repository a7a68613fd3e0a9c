//! The line through the times of calls, and the points that are above it: elbows.
//!
//! Called by: `point.rs`. The fit has the least sum of absolute deviations, each as a share of the
//! point's own time, so that neither an elbow nor the longest calls decide it (Boscovich, 1757).
//! Such a line always goes through two of the points, so all pairs of points are tried.

/// A point that is more than this many times the line's value is an elbow.
pub const ELBOW: f64 = 1.2;

/// The most points of which all pairs are tried. If there are more, only every second one is used,
/// or every third, and so on.
const TRIED_MAX: usize = 160;

/// y = intercept + slope * x.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// y at x = 0: the time of a call without argument.
    pub intercept: f64,
    /// The change of y for each unit of x: the time of a byte.
    pub slope: f64,
}

impl Line {
    /// y at an x.
    pub fn at(&self, x: f64) -> f64 {
        self.intercept + self.slope * x
    }

    /// Fit a line to these points, whose y are above 0. `None` if there are fewer than three
    /// points, or all have the same x.
    pub fn through(points: &[(f64, f64)]) -> Option<Line> {
        if points.len() < 3 {
            return None;
        }
        let step = points.len().div_ceil(TRIED_MAX);
        let tried: Vec<(f64, f64)> = points.iter().copied().step_by(step).collect();
        let mut best: Option<(f64, Line)> = None;
        for (at, a) in tried.iter().enumerate() {
            for b in &tried[at + 1..] {
                if a.0 == b.0 {
                    continue;
                }
                let slope = (b.1 - a.1) / (b.0 - a.0);
                let line = Line { intercept: a.1 - slope * a.0, slope };
                // A call takes time, and a longer one does not take less.
                if line.intercept <= 0.0 || slope < 0.0 {
                    continue;
                }
                let missed = line.missed(points, best.map_or(f64::INFINITY, |best| best.0));
                if best.is_none_or(|(least, _)| missed < least) {
                    best = Some((missed, line));
                }
            }
        }
        best.map(|(_, line)| line)
    }

    /// The sum of deviations. Summing stops as soon as the sum is more than `most`.
    fn missed(&self, points: &[(f64, f64)], most: f64) -> f64 {
        let mut sum = 0.0;
        for &(x, y) in points {
            sum += (y - self.at(x)).abs() / y;
            if sum > most {
                break;
            }
        }
        sum
    }
}
