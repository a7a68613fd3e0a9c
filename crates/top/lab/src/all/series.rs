//! Plots as data for the page's script, with no more points and digits than a screen shows.
//!
//! Called by: `page`.

use serde_json::{Value, json};

use crate::plot::{Dots, Lines, Plot, Strip, Tint, Tints};

/// The most points of a line: more could not be told apart on a screen.
const POINTS_MAX: usize = 600;

/// The data of a plot; a series has the tint that it has in the other plots of the page.
pub(super) fn of(name: &str, plot: &Plot, tints: &mut Tints) -> Value {
    match plot {
        Plot::Dots(plot) => dots(name, plot, tints),
        Plot::Lines(plot) => lines(name, plot, tints),
    }
}

/// A colour of the theme, and whether lines are dashed and dots hollow.
fn tint(tint: Tint) -> Value {
    json!([tint.colour, tint.hollow])
}

fn dots(name: &str, plot: &Dots, tints: &mut Tints) -> Value {
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
    let own = tints.of(plot.series.iter().map(String::as_str));
    let own: Vec<Value> = own.into_iter().map(tint).collect();
    json!({
        "name": name,
        "kind": "dots",
        "axis": plot.axis,
        "series": plot.series,
        "tints": own,
        "quoted": plot.quoted,
        "panels": panels.collect::<Vec<_>>(),
    })
}

fn lines(name: &str, plot: &Lines, tints: &mut Tints) -> Value {
    let strips = plot.strips.iter().map(|strip| {
        let own = tints.of(strip.series.iter().map(|series| series.name.as_str()));
        let common = common(strip);
        let series = strip.series.iter().zip(own).map(|(series, own)| {
            let (x, y): (Vec<f64>, Vec<f64>) =
                thinned(&series.points).into_iter().map(|(x, y)| (short(x), short(y))).unzip();
            let name = series.name.get(common..).unwrap_or_default();
            json!({ "name": name, "tint": tint(own), "x": x, "y": y })
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

/// The length of a prefix such as `wire: ` that the names of all series of a strip share; 0 if they
/// share none. The strip's title says it already.
fn common(strip: &Strip) -> usize {
    let prefix = |name: &str| name.find(": ").map(|at| name[..at + 2].to_owned());
    let first = strip.series.first().and_then(|series| prefix(&series.name));
    let Some(first) = first else { return 0 };
    match strip.series.iter().all(|series| series.name.starts_with(&first)) {
        true => first.len(),
        false => 0,
    }
}

/// At most [`POINTS_MAX`] of these points: the lowest and the highest of each piece of the line, so
/// that no peak is lost.
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

/// A value in five digits. Infinity and NaN, which JSON has no numbers for, become 0; no experiment
/// gives them.
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
    fn what_all_names_of_a_strip_begin_with_is_left_out() {
        let strip = |names: &[&str]| Strip {
            title: String::new(),
            series: names
                .iter()
                .map(|&name| crate::Series { name: name.to_owned(), points: Vec::new() })
                .collect(),
        };
        assert_eq!(common(&strip(&["wire: 1989 TCP", "wire: ours TCP"])), 6);
        assert_eq!(common(&strip(&["wire: 1989 TCP", "tap: ours TCP"])), 0);
        assert_eq!(common(&strip(&["cubic", "cubic"])), 0);
    }

    #[test]
    fn five_digits_are_kept() {
        assert_eq!(short(1234567.0), 1234600.0);
        assert_eq!(short(0.000_123_456_78), 0.000_123_46);
        assert_eq!(short(f64::NAN), 0.0);
        assert_eq!(short(-2.5), -2.5);
    }
}
