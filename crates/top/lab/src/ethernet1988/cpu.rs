//! The processor of a workstation: a process, which interrupts interrupt unless it masks them.
//!
//! Called by: `world.rs`.

use std::collections::VecDeque;

use super::world::Job;

/// Who has the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// A process.
    Process,
    /// A process that masks interrupts (`splnet`).
    Masked,
    /// An interrupt.
    Interrupt,
}

/// Work, and the nanoseconds that it takes still.
type Work = (u64, Job);

/// What runs.
#[derive(Clone, Copy)]
struct Running {
    level: Level,
    job: Job,
    end: u64,
}

/// A processor.
#[derive(Default)]
pub(super) struct Cpu {
    running: Option<Running>,
    /// Distinguishes what runs from what ran when an event was made.
    number: u64,
    is_scheduled: bool,
    interrupts: VecDeque<Work>,
    /// What the process does next or goes on with, and whether it masks interrupts.
    process: Option<(Work, bool)>,
    pub(super) busy_ns: u64,
}

impl Cpu {
    /// An interrupt has come.
    pub(super) fn interrupt(&mut self, cost: u64, job: Job, now: u64) {
        self.interrupts.push_back((cost, job));
        if let Some(running) = self.running.filter(|running| running.level == Level::Process) {
            let left = running.end.saturating_sub(now);
            self.busy_ns -= left;
            self.process = Some(((left, running.job), false));
            self.running = None;
        }
    }

    /// Work that follows what is done, before anything else of its level.
    pub(super) fn follow(&mut self, level: Level, cost: u64, job: Job) {
        match level {
            Level::Interrupt => self.interrupts.push_front((cost, job)),
            level => self.process = Some(((cost, job), level == Level::Masked)),
        }
    }

    /// Begin the next job if nothing runs; when it ends, and its number, unless they are known.
    pub(super) fn next(&mut self, now: u64) -> Option<(u64, u64)> {
        if self.running.is_none() {
            let masked = self.process.filter(|(_, masks)| *masks);
            let (level, (cost, job)) = if let Some((work, _)) = masked {
                self.process = None;
                (Level::Masked, work)
            } else if let Some(work) = self.interrupts.pop_front() {
                (Level::Interrupt, work)
            } else {
                (Level::Process, self.process.take()?.0)
            };
            self.running = Some(Running { level, job, end: now + cost });
            self.busy_ns += cost;
            self.number += 1;
            self.is_scheduled = false;
        }
        if self.is_scheduled {
            return None;
        }
        self.is_scheduled = true;
        self.running.map(|running| (running.end, self.number))
    }

    /// The job of this number is done, if it is what runs.
    pub(super) fn done(&mut self, number: u64, now: u64) -> Option<(Level, Job)> {
        let running = self.running.filter(|r| self.number == number && r.end <= now)?;
        self.running = None;
        Some((running.level, running.job))
    }
}
