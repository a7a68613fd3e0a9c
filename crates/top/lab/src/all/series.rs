//! Plots as data for the page's script, with no more points and digits than a screen shows.
//!
//! Called by: `page`.

use serde_json::{Value, json};

use crate::plot::{Dots, Lines, Plot};

/// Points of a line: more could not be told apart on a screen.
const POINTS_MAX: usize = 600;

/// The data of a plot.
pub(super) fn of(name: &str, plot: &Plot) -> Value {
    match plot {
        Plot::Dots(plot) => dots(name, plot),
        Plot::Lines(plot) => lines(name, plot),
    }
}

fn dots(name: &str, plot: &Dots) -> Value {
    let panels = plot.panels.iter().map(|panel| {
        let points = panel.points.iter().map(|point| {
            let of = |value: fn(crate::Span) -> f64| point.span.map(value).map(short);
            json!([
                point.row,
                point.series,
                of(|span| span.low),
                of(|span| span.mid),
                of(|span| span.high),
                point.quoted.map(short),
            ])
        });
        let rows = if panel.rows.is_empty() { &plot.rows } else { &panel.rows };
        json!({ "title": panel.title, "rows": rows, "points": points.collect::<Vec<_>>() })
    });
    json!({
        "name": name,
        "kind": "dots",
        "axis": plot.axis,
        "series": plot.series,
        "quoted": plot.quoted,
        "panels": panels.collect::<Vec<_>>(),
    })
}

fn lines(name: &str, plot: &Lines) -> Value {
    let strips = plot.strips.iter().map(|strip| {
        let series = strip.series.iter().map(|series| {
            let (x, y): (Vec<f64>, Vec<f64>) =
                thinned(&series.points).into_iter().map(|(x, y)| (short(x), short(y))).unzip();
            json!({ "name": series.name, "x": x, "y": y })
        });
        json!({ "title": strip.title, "series": series.collect::<Vec<_>>() })
    });
    json!({
        "name": name,
        "kind": "lines",
        "across": plot.across,
        "up": plot.up,
        "strips": strips.collect::<Vec<_>>(),
    })
}

/// At most [`POINTS_MAX`] of these points: of each piece the lowest and the highest, so that no
/// peak is lost.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= POINTS_MAX {
        return points.to_vec();
    }
    let piece = points.len().div_ceil(POINTS_MAX / 2);
    let pieces = points.chunks(piece).flat_map(|piece| {
        let by = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let ends = [piece.iter().min_by(by), piece.iter().max_by(by)];
        let mut ends: Vec<(f64, f64)> = ends.into_iter().flatten().copied().collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        ends.dedup();
        ends
    });
    pieces.collect()
}

/// Five digits. A value that JSON has no number for, which no experiment gives, becomes 0.
fn short(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    format!("{value:.4e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_keeps_its_peaks_and_a_short_one_its_points() {
        let few = vec![(0.0, 1.0), (1.0, 2.0)];
        assert_eq!(thinned(&few), few);
        let mut many: Vec<(f64, f64)> = (0..10_000).map(|n| (f64::from(n), 1.0)).collect();
        many[7_777].1 = 9.0;
        many[3_333].1 = -9.0;
        let thin = thinned(&many);
        assert!(thin.len() <= POINTS_MAX, "{}", thin.len());
        assert!(thin.contains(&(7_777.0, 9.0)) && thin.contains(&(3_333.0, -9.0)));
        assert!(thin.is_sorted_by(|a, b| a.0 <= b.0), "from left to right");
    }

    #[test]
    fn five_digits_are_kept() {
        assert_eq!(short(1234567.0), 1234600.0);
        assert_eq!(short(0.000_123_456_78), 0.000_123_46);
        assert_eq!(short(f64::NAN), 0.0);
        assert_eq!(short(-2.5), -2.5);
    }
}
