//! One round: a fraction of a second of work, with or without samples. Both kinds of round record
//! when each role begins, so that only the samples differ.
//!
//! There are two clocks. The thread's processor time says what the round cost, whatever else ran
//! meanwhile. Reading it is a system call, so the roles' shares of it are by the monotonic clock,
//! which is read without one.
//!
//! Called by: `experiment.rs`.

use std::time::{Duration, Instant as Clock};

use profile::{Code, Event, Sampler, Stage};
use rustix::time::{ClockId, clock_gettime};

use super::work::{Role, Work};
use crate::Error;

/// Costs by event and stage.
pub(super) type Costs = [[f64; Stage::ALL.len()]; Event::ALL.len()];

/// The cost of a role, for each packet.
#[derive(Clone, Debug)]
pub(super) struct Cost {
    /// The thread's processor time, in ns.
    pub(super) clock_ns: f64,
    /// Costs from samples; zeros in a round without samples.
    pub(super) stages: Costs,
}

/// A round.
pub(super) struct Round {
    /// The costs of the roles that took part.
    pub(super) costs: [Option<Cost>; Role::ALL.len()],
    /// Samples that fell into the part of a role.
    pub(super) samples: u64,
}

/// The most marks of a round.
const MARKS_MAX: usize = 1 << 20;
/// Turns between two readings of the clock.
const TURNS: usize = 64;
/// A part that takes this many times as long as 99 of 100 parts was interrupted by another thread.
const INTERRUPTED: u64 = 10;

/// The clock that the samples' times are from.
fn now_ns() -> u64 {
    ns(ClockId::Monotonic)
}

fn ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Work for `length`, and take samples if there is a sampler.
pub(super) fn round(
    work: &mut Work,
    length: Duration,
    mut sampler: Option<(&mut Sampler, &mut Code)>,
    marks: &mut Vec<(u64, Option<Role>)>,
) -> Result<Round, Error> {
    marks.clear();
    let mut packets = 0.0;
    if let Some((sampler, _)) = &mut sampler {
        sampler.begin().map_err(failed)?;
    }
    let (begun, before_ns) = (Clock::now(), ns(ClockId::ThreadCPUTime));
    while begun.elapsed() < length && marks.len() < MARKS_MAX {
        for _ in 0..TURNS {
            packets += work.turn(&mut |role| marks.push((now_ns(), role)))?;
        }
    }
    let cpu_ns = ns(ClockId::ThreadCPUTime).saturating_sub(before_ns) as f64;
    let mut stages = [Costs::default(); Role::ALL.len()];
    let mut samples = 0;
    if let Some((sampler, code)) = &mut sampler {
        sampler.pause().map_err(failed)?;
        sampler.take(|sample| {
            let at = marks.partition_point(|(begun, _)| *begun <= sample.time_ns);
            let role = at.checked_sub(1).and_then(|at| marks.get(at)).and_then(|(_, role)| *role);
            let Some(role) = role else { return };
            let stage = code.stage(&sample.place);
            samples += u64::from(sample.event == Event::Time);
            stages[role as usize][sample.event as usize][stage as usize] += sample.weight as f64;
        });
    }
    let per_packet = |cost: f64| cost / packets.max(1.0);
    let shares = shares(marks);
    let costs = Role::ALL.map(|role| {
        let stages = stages[role as usize].map(|costs| costs.map(per_packet));
        Some(Cost { clock_ns: per_packet(cpu_ns * shares[role as usize]?), stages })
    });
    Ok(Round { costs, samples })
}

/// The share of each role in the whole time: that of all roles and of the work between them.
fn shares(marks: &[(u64, Option<Role>)]) -> [Option<f64>; Role::ALL.len()] {
    let of_roles = Role::ALL.map(|role| spent(marks, Some(role)));
    let between = spent(marks, None).unwrap_or(0.0);
    let all = of_roles.iter().flatten().sum::<f64>() + between;
    of_roles.map(|ns| Some(ns? / all.max(1.0)))
}

/// The time in ns that a role took, or with `None` the work between roles. Interruptions of the
/// thread are taken out: an interrupted part counts as much as the other parts do on average. The
/// result is `None` if there are no parts of that role.
fn spent(marks: &[(u64, Option<Role>)], role: Option<Role>) -> Option<f64> {
    let parts = marks.windows(2).filter(|pair| pair[0].1 == role);
    let mut parts: Vec<u64> = parts.map(|pair| pair[1].0.saturating_sub(pair[0].0)).collect();
    parts.sort_unstable();
    let most = INTERRUPTED * parts.get(parts.len() * 99 / 100)?.max(&1);
    let kept = &parts[..parts.partition_point(|&ns| ns <= most)];
    let mean = kept.iter().sum::<u64>() as f64 / kept.len().max(1) as f64;
    Some(mean * parts.len() as f64)
}

/// The profiler's message says what to do.
pub(super) fn failed(error: profile::Error) -> Error {
    Error::Failed(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_was_interrupted_counts_as_the_others_do() {
        let mut marks = Vec::new();
        let mut at = 0;
        for turn in 0..1_000 {
            marks.push((at, Some(Role::Sender)));
            at += if turn % 400 == 4 { 1_000_000 } else { 100 };
            marks.push((at, Some(Role::Receiver)));
            // Most turns have nothing to do; the long ones must not count as interrupted because of
            // that.
            at += if turn % 4 == 0 { 2_000 } else { 50 };
            marks.push((at, None));
            at += 7;
        }
        let (sender, receiver) = (100_000.0, 250.0 * 2_000.0 + 750.0 * 50.0);
        let all = sender + receiver + 999.0 * 7.0;
        assert_eq!(spent(&marks, Some(Role::Sender)), Some(sender));
        assert_eq!(spent(&marks, Some(Role::Receiver)), Some(receiver));
        assert_eq!(spent(&marks, Some(Role::Forwarder)), None);
        assert_eq!(shares(&marks), [Some(sender / all), Some(receiver / all), None]);
    }
}
