//! Dots with their spread: panels side by side, each panel with named rows, each row with a lane
//! for each series. The value is printed beside the dot.
//!
//! Called by: `plot`.

use plotters::style::RGBColor;

use super::ink::{Anchor, BAND, BLACK, GREY, Ink, LIGHT, SERIES, for_text};
use super::{tick, tick_label};
use crate::Error;
use crate::report::Span;

/// The data. The axis begins at 0 or below the least value, and ends at 1 or above the largest; if
/// all values are below 0, it ends at 0.
#[derive(Clone, Debug)]
pub struct Dots {
    /// The title.
    pub title: String,
    /// How the values were measured, in a line below the title.
    pub subtitle: String,
    /// The quantity and its unit.
    pub axis: String,
    /// The heading of the rows.
    pub row_title: String,
    /// The rows of each panel without rows of its own.
    pub rows: Vec<String>,
    /// The lanes of each row.
    pub series: Vec<String>,
    /// The panels.
    pub panels: Vec<Panel>,
    /// The source of the quoted values.
    pub quoted: String,
}

/// One panel.
#[derive(Clone, Debug)]
pub struct Panel {
    /// The property that the panel's points have in common.
    pub title: String,
    /// The panel's own rows; if there are none, the plot's rows are used.
    pub rows: Vec<String>,
    /// The panel's points.
    pub points: Vec<Point>,
}

/// A value.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Index of the row.
    pub row: usize,
    /// Index of the series.
    pub series: usize,
    /// Median, minimum and maximum; `None` if the point was not measured.
    pub span: Option<Span>,
    /// A published value of the same quantity.
    pub quoted: Option<f64>,
}

/// Pixels.
const WIDTH: i32 = 1280;
const EDGE: i32 = 28;
const HEAD: i32 = 128;
const LANE: i32 = 15;
const ROW_GAP: i32 = 10;
const PANEL_HEAD: i32 = 44;
const PANEL_FOOT: i32 = 58;
const FOOT: i32 = 30;
/// Space between panels, and space for the figures at the right of each panel.
const GUTTER: i32 = 24;
const FIGURES: i32 = 46;
/// The most panels side by side.
const ABREAST: usize = 3;

/// The computed layout.
struct Layout {
    /// Width for the names of rows: left of the first panel, or of each panel if panels have rows
    /// of their own.
    names: i32,
    own_names: bool,
    panel_width: i32,
    row_height: i32,
    panel_height: i32,
    abreast: usize,
    min: f64,
    max: f64,
}

impl Dots {
    fn layout(&self) -> Layout {
        let own = self.panels.iter().flat_map(|panel| &panel.rows);
        let names = self.rows.iter().chain(own).chain([&self.row_title]);
        let longest = names.map(|name| name.chars().count());
        let names = (longest.max().unwrap_or(0) as i32 * 8 + 16).min(260);
        // Four panels are placed two by two.
        let abreast = if self.panels.len() == 4 { 2 } else { self.panels.len().clamp(1, ABREAST) };
        let own_names = self.panels.iter().any(|panel| !panel.rows.is_empty());
        let with_names = if own_names { abreast as i32 } else { 1 };
        let room = WIDTH - 2 * EDGE - names * with_names - GUTTER * (abreast as i32 - 1);
        let row_height = self.series.len() as i32 * LANE + ROW_GAP;
        let rows = self.panels.iter().map(|panel| self.rows(panel).len()).max();
        let body = row_height * rows.unwrap_or(0) as i32;
        let spans = self.panels.iter().flat_map(|panel| &panel.points).filter_map(|p| p.span);
        let least = spans.clone().map(|span| span.low).fold(0.0, f64::min);
        let least = if least < 0.0 { least * 1.02 } else { 0.0 };
        let most = spans.map(|span| span.high).fold(if least < 0.0 { 0.0 } else { 1.0 }, f64::max);
        let most = most.max(-least * 0.02);
        Layout {
            names,
            own_names,
            panel_width: room / abreast as i32,
            row_height,
            panel_height: PANEL_HEAD + body + PANEL_FOOT,
            abreast,
            min: least,
            max: match most {
                most if most > 1.02 => (most * 10.0).ceil() / 10.0,
                most if least < 0.0 => most.max(least + 1.0),
                _ => 1.0,
            },
        }
    }

    /// The plot; `foot` is printed below it.
    pub(super) fn svg(&self, foot: &str) -> Result<String, Error> {
        let layout = self.layout();
        let lines = self.panels.len().div_ceil(layout.abreast).max(1) as i32;
        let height = HEAD + lines * layout.panel_height + FOOT;
        let mut text = String::new();
        let ink = Ink::new(&mut text, WIDTH, height)?;
        ink.bold(&self.title, (EDGE, 36), 26)?;
        ink.text(&self.subtitle, (EDGE, 66), 15, GREY, Anchor::Left)?;
        self.legend(&ink)?;
        for (index, panel) in self.panels.iter().enumerate() {
            let column = (index % layout.abreast) as i32;
            let apart =
                layout.panel_width + GUTTER + if layout.own_names { layout.names } else { 0 };
            let x = EDGE + layout.names + column * apart;
            let y = HEAD + (index / layout.abreast) as i32 * layout.panel_height;
            if column == 0 || layout.own_names {
                self.names(&ink, &layout, self.rows(panel), (x - 14, y))?;
            }
            self.panel(&ink, &layout, panel, (x, y))?;
        }
        ink.text(foot, (WIDTH - EDGE, height - 20), 12, GREY, Anchor::Right)?;
        ink.finish()?;
        Ok(text)
    }

    fn legend(&self, ink: &Ink<'_>) -> Result<(), Error> {
        let (mut x, y) = (EDGE, 98);
        for (index, name) in self.series.iter().enumerate() {
            ink.dot((x + 6, y), 6, colour(index))?;
            ink.text(name, (x + 18, y), 15, BLACK, Anchor::Left)?;
            x += 18 + name.chars().count() as i32 * 9 + 26;
        }
        if self.panels.iter().flat_map(|p| &p.points).any(|point| point.quoted.is_some()) {
            ink.diamond((x + 6, y), 6, BLACK)?;
            ink.text(&self.quoted, (x + 20, y), 15, BLACK, Anchor::Left)?;
        }
        Ok(())
    }

    /// The rows of a panel.
    fn rows<'a>(&'a self, panel: &'a Panel) -> &'a [String] {
        if panel.rows.is_empty() { &self.rows } else { &panel.rows }
    }

    fn names(
        &self,
        ink: &Ink<'_>,
        layout: &Layout,
        rows: &[String],
        (right, y): (i32, i32),
    ) -> Result<(), Error> {
        ink.text(&self.row_title, (right, y + PANEL_HEAD - 14), 13, GREY, Anchor::Right)?;
        for (index, name) in rows.iter().enumerate() {
            let top = y + PANEL_HEAD + index as i32 * layout.row_height;
            let middle = top + layout.row_height / 2;
            ink.text(name, (right, middle), 15, BLACK, Anchor::Right)?;
        }
        Ok(())
    }

    fn panel(
        &self,
        ink: &Ink<'_>,
        layout: &Layout,
        panel: &Panel,
        (x, y): (i32, i32),
    ) -> Result<(), Error> {
        let width = layout.panel_width - FIGURES;
        let top = y + PANEL_HEAD;
        let rows = self.rows(panel).len() as i32;
        let bottom = top + rows * layout.row_height;
        let whole = layout.max - layout.min;
        let at = |value: f64| x + ((value - layout.min) / whole * f64::from(width)).round() as i32;
        let (first, rest) = panel.title.split_once(", queue").unwrap_or((&panel.title, ""));
        let left = if layout.own_names { x - layout.names + 14 } else { x };
        ink.bold(first, (left, y + 10), 15)?;
        if !rest.is_empty() {
            ink.text(&format!("queue{rest}"), (x, y + 29), 13, GREY, Anchor::Left)?;
        }
        for row in (0..rows).step_by(2) {
            let from = top + row * layout.row_height;
            ink.fill((x, from), (x + layout.panel_width, from + layout.row_height), BAND)?;
        }
        let step = tick(whole);
        let first_line = (layout.min / step - 0.001).ceil() as i32;
        for number in first_line..=(layout.max / step + 0.001).floor() as i32 {
            let value = f64::from(number) * step;
            ink.line((at(value), top), (at(value), bottom), 1, LIGHT, 1.0)?;
            let label = tick_label(value);
            ink.text(&label, (at(value), bottom + 13), 12, GREY, Anchor::Centre)?;
        }
        ink.text(&self.axis, (x + width / 2, bottom + 33), 13, GREY, Anchor::Centre)?;
        for point in &panel.points {
            let lane = top + point.row as i32 * layout.row_height + ROW_GAP / 2;
            let middle = lane + point.series as i32 * LANE + LANE / 2;
            self::point(ink, point, middle, &at, x + layout.panel_width - 4)?;
        }
        Ok(())
    }
}

fn point(
    ink: &Ink<'_>,
    point: &Point,
    y: i32,
    at: &dyn Fn(f64) -> i32,
    right: i32,
) -> Result<(), Error> {
    let colour = colour(point.series);
    if let Some(span) = point.span {
        ink.line((at(0.0), y), (at(span.mid), y), 1, colour, 0.45)?;
        ink.line((at(span.low), y), (at(span.high), y), 5, colour, 0.4)?;
    }
    match point.span {
        Some(span) => {
            ink.dot((at(span.mid), y), 5, colour)?;
            let figure = format!("{:.3}", span.mid);
            ink.text(&figure, (right, y), 12, for_text(colour), Anchor::Right)?;
        }
        None => ink.text("not run", (right, y), 11, GREY, Anchor::Right)?,
    }
    match point.quoted {
        Some(quoted) => ink.diamond((at(quoted), y), 6, BLACK),
        None => Ok(()),
    }
}

fn colour(series: usize) -> RGBColor {
    SERIES[series % SERIES.len()]
}
