//! A straight line fitted by least squares, with confidence intervals.
//!
//! Called by: `tap.rs`, `budget`. Source: any textbook of statistics; the intervals are
//! Student's t.

/// The confidence of the intervals.
pub(crate) const CONFIDENCE: f64 = 0.95;

/// Two-sided 95 % points of Student's t by degrees of freedom, from 1 on; beyond the last, 1.96.
const STUDENT_95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// The two-sided 95 % point of Student's t for this many degrees of freedom, 1 or more.
pub(crate) fn student(freedom: usize) -> f64 {
    let point = freedom.checked_sub(1).and_then(|at| STUDENT_95.get(at));
    point.copied().unwrap_or(1.96)
}

/// y = intercept + slope * x, each with half the width of its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// y at x = 0.
    pub intercept: f64,
    /// Half the width of its interval.
    pub intercept_off: f64,
    /// The change of y for each unit of x.
    pub slope: f64,
    /// Half the width of its interval.
    pub slope_off: f64,
}

impl Line {
    /// Fit a line to these points. `None` if there are fewer than three points, or all have the
    /// same x.
    pub(crate) fn through(points: &[(f64, f64)]) -> Option<Line> {
        let alike: Vec<_> = points.iter().map(|&(x, y)| (x, y, 1.0)).collect();
        Line::weighted(&alike)
    }

    /// Fit a line to points that each have a weight, which is proportional to one over the square
    /// of the point's error.
    pub(crate) fn weighted(points: &[(f64, f64, f64)]) -> Option<Line> {
        let n: f64 = points.iter().map(|(_, _, w)| w).sum();
        if points.len() < 3 {
            return None;
        }
        let mean_x = points.iter().map(|(x, _, w)| w * x).sum::<f64>() / n;
        let mean_y = points.iter().map(|(_, y, w)| w * y).sum::<f64>() / n;
        let spread: f64 = points.iter().map(|(x, _, w)| w * (x - mean_x).powi(2)).sum();
        // The spread is not a number if the weights are not.
        if spread.is_nan() || spread <= 0.0 {
            return None;
        }
        let together: f64 = points.iter().map(|(x, y, w)| w * (x - mean_x) * (y - mean_y)).sum();
        let slope = together / spread;
        let intercept = mean_y - slope * mean_x;
        let missed: f64 =
            points.iter().map(|(x, y, w)| w * (y - intercept - slope * x).powi(2)).sum();
        let freedom = points.len() - 2;
        let variance = missed / freedom as f64;
        let t = student(freedom);
        Some(Line {
            intercept,
            intercept_off: t * (variance * (1.0 / n + mean_x * mean_x / spread)).sqrt(),
            slope,
            slope_off: t * (variance / spread).sqrt(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_noise_is_found_exactly() {
        let points: Vec<(f64, f64)> =
            (1..6).map(|x| (f64::from(x), 3.0 + 2.0 * f64::from(x))).collect();
        let line = Line::through(&points).expect("five points");
        assert!((line.intercept - 3.0).abs() < 1e-9 && (line.slope - 2.0).abs() < 1e-9);
        assert!(line.intercept_off < 1e-6 && line.slope_off < 1e-6);
    }

    /// Anscombe's first set ("Graphs in Statistical Analysis", 1973): 3.00 + 0.500 x, with standard
    /// errors 1.125 and 0.118 and nine degrees of freedom.
    #[test]
    fn the_intervals_are_those_of_the_books() {
        let x = [10.0, 8.0, 13.0, 9.0, 11.0, 14.0, 6.0, 4.0, 12.0, 7.0, 5.0];
        let y = [8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68];
        let points: Vec<(f64, f64)> = x.into_iter().zip(y).collect();
        let line = Line::through(&points).expect("eleven points");
        assert!((line.intercept - 3.0001).abs() < 1e-3 && (line.slope - 0.5001).abs() < 1e-3);
        assert!((line.intercept_off - 2.262 * 1.1247).abs() < 0.01);
        assert!((line.slope_off - 2.262 * 0.1179).abs() < 0.001);
    }

    /// Points of weight three give the same line as points that are there three times.
    #[test]
    fn a_weight_is_as_many_points() {
        let (a, b, c) = ((1.0, 2.0), (4.0, 9.0), (6.0, 3.0));
        let many = Line::through(&[a, a, a, b, c, c, c]).expect("points");
        let few = [(a.0, a.1, 3.0), (b.0, b.1, 1.0), (c.0, c.1, 3.0)];
        let few = Line::weighted(&few).expect("points");
        assert!((many.intercept - few.intercept).abs() < 1e-9);
        assert!((many.slope - few.slope).abs() < 1e-9);
        assert_eq!(Line::weighted(&[(1.0, 1.0, 0.0); 4]), None);
    }

    #[test]
    fn too_few_points_and_points_above_each_other_have_no_line() {
        assert_eq!(Line::through(&[(1.0, 1.0), (2.0, 2.0)]), None);
        assert_eq!(Line::through(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]), None);
    }
}
