//! The figures of a row (a stage, the sum of all stages, or the clock), and the lines that fit them
//! over the sizes.
//!
//! Called by: `results.rs`, `conclusions`.

use profile::{Event, Mean, Stage};

use crate::budget::experiment::work::Role;
use crate::budget::experiment::{Case, Measured};
use crate::tap::Line;

/// The size of packet that the table is about, in bytes: Ethernet's MTU.
pub(super) const SIZE: usize = 1_500;

/// The subject of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Stage(Stage),
    /// All stages.
    Sum,
    /// The time by the thread's clock, in the rounds with samples.
    Clock,
    /// The same, in the rounds without samples.
    Unsampled,
}

impl What {
    pub(super) fn all() -> impl Iterator<Item = What> {
        Stage::ALL.into_iter().map(What::Stage).chain([What::Sum, What::Clock, What::Unsampled])
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            What::Stage(stage) => stage.name(),
            What::Sum => "all stages",
            What::Clock => "by the clock",
            What::Unsampled => "no samples",
        }
    }
}

impl Case {
    /// The figures of each round; none for an event that was not sampled.
    pub(super) fn figures(&self, what: What, event: Event) -> Vec<f64> {
        let of = |costs: &[f64; Stage::ALL.len()]| match what {
            What::Stage(stage) => costs[stage as usize],
            _ => costs.iter().sum(),
        };
        match (what, event) {
            (What::Clock, Event::Time) => self.clock_ns.clone(),
            (What::Unsampled, Event::Time) => self.unsampled_ns.clone(),
            (What::Clock | What::Unsampled, _) => Vec::new(),
            _ => self.sampled.iter().map(|costs| of(&costs[event as usize])).collect(),
        }
    }
}

impl Measured {
    pub(super) fn has(&self, event: Event) -> bool {
        self.events.contains(&event)
    }

    /// The figures at a size.
    pub(super) fn mean(&self, role: Role, size: usize, what: What, event: Event) -> Option<Mean> {
        if what != What::Unsampled && !self.has(event) {
            return None;
        }
        super::super::of(&self.case(role, size)?.figures(what, event))
    }

    /// The line that fits the figures of all sizes. Errors are proportional to the whole cost at a
    /// size, so each size has a weight of one over the square of that cost.
    pub(super) fn line(&self, role: Role, what: What, event: Event) -> Option<Line> {
        if what != What::Unsampled && !self.has(event) {
            return None;
        }
        let mut points = Vec::new();
        for case in self.cases.iter().filter(|case| case.role == role) {
            let whole = super::super::of(&case.figures(What::Sum, event)).map_or(1.0, |m| m.value);
            let weight = 1.0 / whole.max(1.0).powi(2);
            let figures = case.figures(what, event).into_iter();
            points.extend(figures.map(|y| (case.size as f64, y, weight)));
        }
        Line::weighted(&points)
    }

    /// Instructions a packet, sampled or counted by the simulator, and the line that fits them.
    pub(super) fn instructions(&self, role: Role, what: What) -> Option<(f64, Option<Line>)> {
        if self.has(Event::Instructions) {
            let mean = self.mean(role, SIZE, what, Event::Instructions)?;
            return Some((mean.value, self.line(role, what, Event::Instructions)));
        }
        let counted = self.counted.as_ref()?.as_ref().ok()?;
        let of = |stages: &[f64; Stage::ALL.len()]| match what {
            What::Stage(stage) => Some(stages[stage as usize]),
            What::Sum => Some(stages.iter().sum()),
            What::Clock | What::Unsampled => None,
        };
        let of_role = counted.iter().filter(|counted| counted.role == role);
        let mut points = Vec::new();
        for counted in of_role {
            let weight = 1.0 / counted.stages.iter().sum::<f64>().max(1.0).powi(2);
            points.push((counted.size as f64, of(&counted.stages)?, weight));
        }
        let at = points.iter().find(|(size, _, _)| *size == SIZE as f64)?.1;
        Some((at, Line::weighted(&points)))
    }
}
