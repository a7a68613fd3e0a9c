//! Plots of reports, as SVG. No system fonts are read, so that a plot is the same on every machine.
//!
//! Called by: the lab, for `--plot`. Experiments provide the data ([`Dots`], [`Lines`]); the layout
//! is the same for all.

mod dots;
mod ink;
mod lines;
mod tints;

pub use dots::{Dots, Panel, Point};
pub use lines::{Lines, Series, Strip};
pub(crate) use tints::{Tint, Tints};

use crate::Error;
use crate::envelope::{Envelope, VERSION};

/// The kinds of plot.
#[derive(Clone, Debug)]
pub enum Plot {
    /// Values with their spread, side by side.
    Dots(Dots),
    /// Values over time.
    Lines(Lines),
}

impl Plot {
    /// The plot as the text of an SVG file.
    pub(crate) fn svg(&self, envelope: &Envelope) -> Result<String, Error> {
        let stopped = if envelope.interrupted { " · stopped before its end" } else { "" };
        let name = envelope.lab;
        let foot = format!("wirespeed {VERSION} · wirespeed lab {name}{stopped}");
        match self {
            Plot::Dots(dots) => dots.svg(&foot),
            Plot::Lines(lines) => lines.svg(&foot),
        }
    }
}

/// The distance of grid lines: 1, 2, 2.5 or 5 times a power of ten, at most eight steps.
fn tick(max: f64) -> f64 {
    let power = 10.0_f64.powf((max / 8.0).log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0];
    let step = steps.into_iter().find(|step| max / (step * power) <= 8.0);
    step.unwrap_or(10.0) * power
}

/// The label of a grid line: 3 x 0.2 is 0.6, not 0.6000000000000001.
fn tick_label(value: f64) -> String {
    format!("{}", (value * 1e9).round() / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_at_a_grid_is_short() {
        let labels: Vec<_> = (0..=5).map(|n| tick_label(f64::from(n) * tick(1.0))).collect();
        assert_eq!(labels, ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
    }
}
