//! Lines over time: strips one below the other, each with a line for each series, all with the same
//! axes.
//!
//! Called by: `plot`.

use plotters::style::RGBColor;

use super::ink::{Anchor, BLACK, GREY, Ink, LIGHT, SERIES, for_text};
use super::{tick, tick_label};
use crate::Error;

/// The data. Values are 0 or more.
#[derive(Clone, Debug)]
pub struct Lines {
    /// The title.
    pub title: String,
    /// How the values were measured.
    pub subtitle: String,
    /// Unit of the horizontal axis.
    pub across: String,
    /// Unit of the vertical axis.
    pub up: String,
    /// The strips.
    pub strips: Vec<Strip>,
}

/// One strip.
#[derive(Clone, Debug)]
pub struct Strip {
    /// The property that the strip's lines have in common.
    pub title: String,
    /// The strip's lines.
    pub series: Vec<Series>,
}

/// One line.
#[derive(Clone, Debug)]
pub struct Series {
    /// The line's name.
    pub name: String,
    /// The points, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// Pixels.
const WIDTH: i32 = 1280;
const EDGE: i32 = 28;
const HEAD: i32 = 96;
const AXIS: i32 = 52;
const STRIP_HEAD: i32 = 30;
const STRIP: i32 = 150;
const STRIP_FOOT: i32 = 34;
const FOOT: i32 = 36;

impl Lines {
    /// The plot; `foot` is printed below it.
    pub(super) fn svg(&self, foot: &str) -> Result<String, Error> {
        let each = STRIP_HEAD + STRIP + STRIP_FOOT;
        let height = HEAD + each * self.strips.len().max(1) as i32 + FOOT;
        let mut text = String::new();
        let ink = Ink::new(&mut text, WIDTH, height)?;
        ink.bold(&self.title, (EDGE, 36), 26)?;
        ink.text(&self.subtitle, (EDGE, 66), 15, GREY, Anchor::Left)?;
        let points = || self.strips.iter().flat_map(|s| &s.series).flat_map(|s| &s.points);
        let most = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(0.0, f64::max).max(1e-9);
        let max = (most(|point| point.0), most(|point| point.1));
        for (strip, top) in self.strips.iter().zip((0..).map(|n| HEAD + n * each)) {
            self.strip(&ink, strip, top, max)?;
        }
        ink.text(foot, (WIDTH - EDGE, height - 20), 12, GREY, Anchor::Right)?;
        ink.finish()?;
        Ok(text)
    }

    fn strip(&self, ink: &Ink<'_>, strip: &Strip, y: i32, max: (f64, f64)) -> Result<(), Error> {
        let (left, right) = (EDGE + AXIS, WIDTH - EDGE);
        let (top, bottom) = (y + STRIP_HEAD, y + STRIP_HEAD + STRIP);
        let at = |(x, y): (f64, f64)| {
            let across = (x / max.0 * f64::from(right - left)).round() as i32;
            let up = (y / max.1 * f64::from(bottom - top)).round() as i32;
            (left + across, bottom - up)
        };
        for (value, label) in steps(max.0) {
            let (x, _) = at((value, 0.0));
            ink.line((x, top), (x, bottom), 1, LIGHT, 1.0)?;
            let label = if value == 0.0 { format!("0 {}", self.across) } else { label };
            ink.text(&label, (x, bottom + 13), 12, GREY, Anchor::Centre)?;
        }
        // Strips are low: every other grid line is enough.
        for (value, label) in steps(max.1).into_iter().step_by(2) {
            let (_, y) = at((0.0, value));
            ink.line((left, y), (right, y), 1, LIGHT, 1.0)?;
            ink.text(&label, (left - 8, y), 12, GREY, Anchor::Right)?;
        }
        ink.text(&self.up, (left - 8, top - 14), 12, GREY, Anchor::Right)?;
        let mut x = left;
        for (index, series) in strip.series.iter().enumerate() {
            let colour = colour(index);
            let words = series.name.chars().count() as i32 * 9;
            ink.line((x, top - 14), (x + 22, top - 14), 3, colour, 1.0)?;
            ink.text(&series.name, (x + 28, top - 14), 14, for_text(colour), Anchor::Left)?;
            x += 28 + words + 20;
            for pair in series.points.windows(2) {
                ink.line(at(pair[0]), at(pair[1]), 2, colour, 1.0)?;
            }
            if series.points.is_empty() {
                ink.text("not run", (x, top - 14), 12, BLACK, Anchor::Left)?;
            }
        }
        Ok(())
    }
}

/// The values of grid lines, with their labels.
fn steps(max: f64) -> Vec<(f64, String)> {
    let step = tick(max);
    let count = (max / step + 0.001) as i32;
    (0..=count).map(|n| f64::from(n) * step).map(|value| (value, tick_label(value))).collect()
}

fn colour(series: usize) -> RGBColor {
    SERIES[series % SERIES.len()]
}
