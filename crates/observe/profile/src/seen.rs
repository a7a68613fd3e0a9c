//! The result of a look at a running program: the cost of each stage, and which one to improve
//! next.
//!
//! Called by: `wirespeed show budget` and the live page, which show it.

use crate::{Event, Mean, Stage, bar, largest};

/// The result of a look at a program.
#[derive(Clone, Debug)]
pub struct Seen {
    /// How long the look took.
    pub seconds: f64,
    /// The number of samples of time.
    pub samples: u64,
    /// The number of samples for which the kernel's buffers had no room.
    pub lost: u64,
    /// The number of threads that were sampled.
    pub threads: usize,
    /// The program has more threads than were sampled.
    pub is_part: bool,
    /// The figures include time in the kernel.
    pub has_kernel: bool,
    /// The events that were sampled: time, and those that the processor counts.
    pub events: Vec<Event>,
    /// The stages, in their order.
    pub stages: Vec<Part>,
}

/// The cost of a stage.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The stage.
    pub stage: Stage,
    /// The costs, by the index in [`Event::ALL`].
    pub costs: [f64; Event::ALL.len()],
    /// The part of the stage's time in the kernel, in ns.
    pub kernel_ns: f64,
    /// The number of samples of time.
    pub samples: u64,
}

impl Part {
    /// A stage that has cost nothing so far.
    pub const fn of(stage: Stage) -> Part {
        Part { stage, costs: [0.0; Event::ALL.len()], kernel_ns: 0.0, samples: 0 }
    }
}

impl Seen {
    /// The share of a stage and half the width of its 95 % interval, both from 0 to 1.
    pub fn share(&self, part: &Part) -> (f64, f64) {
        let n = self.samples.max(1) as f64;
        let share = part.samples as f64 / n;
        (share, 1.96 * (share * (1.0 - share) / n).sqrt())
    }

    /// A bar for a stage.
    pub fn bar(&self, part: &Part) -> String {
        bar(self.share(part).0)
    }

    /// Processor time of all stages, in ns.
    pub fn all_ns(&self) -> f64 {
        self.stages.iter().map(|part| part.costs[Event::Time as usize]).sum()
    }

    /// The stage to improve next, or why none is named.
    pub fn next(&self) -> String {
        if self.samples == 0 {
            return "The program did not run during the look: there is nothing to improve."
                .to_owned();
        }
        let parts = self.stages.iter().filter(|part| part.stage != Stage::Other);
        let parts: Vec<(Stage, Mean)> = parts
            .map(|part| {
                let (value, off) = self.share(part);
                (part.stage, Mean { value, off })
            })
            .collect();
        match largest(&parts).as_slice() {
            [] => "All samples are outside of the stack: look at the program itself.".to_owned(),
            [stage] => {
                let of = parts.iter().find(|(of, _)| of == stage);
                let percent = of.map_or(0.0, |(_, mean)| mean.value * 100.0);
                let (name, remedy) = (stage.name(), stage.remedy());
                format!("To go faster, fix this next: {name}, {percent:.0} %: {remedy}.")
            }
            several => {
                let names: Vec<&str> = several.iter().take(3).map(|stage| stage.name()).collect();
                let names = names.join(", ");
                format!(
                    "To go faster, fix one of {names}: {} samples do not tell which is the \
                     largest; a longer look does (--seconds).",
                    self.samples
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(samples: &[(Stage, u64)]) -> Seen {
        let of = |stage| samples.iter().find(|(s, _)| *s == stage).map_or(0, |(_, n)| *n);
        let part = |stage| Part {
            stage,
            costs: [of(stage) as f64 * 1e6, 0.0, 0.0, 0.0],
            kernel_ns: 0.0,
            samples: of(stage),
        };
        Seen {
            seconds: 1.0,
            samples: samples.iter().map(|(_, n)| n).sum(),
            lost: 0,
            threads: 1,
            is_part: false,
            has_kernel: true,
            events: vec![Event::Time],
            stages: Stage::ALL.map(part).to_vec(),
        }
    }

    #[test]
    fn few_samples_conclude_nothing_and_many_do() {
        let few = seen(&[(Stage::Copy, 6), (Stage::Tcp, 5)]).next();
        assert!(few.contains("one of copy, tcp: 11 samples do not tell"), "{few}");
        let many = seen(&[(Stage::Copy, 600), (Stage::Tcp, 500), (Stage::Other, 900)]).next();
        assert!(many.contains("fix this next: copy, 30 %"), "{many}");
        assert!(seen(&[]).next().contains("did not run"));
        assert!(seen(&[(Stage::Other, 10)]).next().contains("outside of the stack"));
    }
}
