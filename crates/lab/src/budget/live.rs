//! The budget of a running program, from outside: its threads are sampled by the kernel for a
//! while. Nothing in the program changes, and it pays for the samples alone.
//!
//! Called by: `wirespeed show budget`, the benchmarks.

use std::fs;
use std::time::{Duration, Instant};

use super::code::Code;
use super::estimate::{Mean, bar, largest};
use super::sampler::{Event, Pace, Sample, Sampler};
use super::stage::Stage;
use crate::Error;

/// Samples a second of a thread that runs. Few, because each may cost tens of microseconds where
/// the timer's interrupt is a virtual machine's.
pub const HZ: u64 = 97;

/// Bytes that the kernel keeps for a thread: the samples of several looks, of some 80 bytes each.
const RING_BYTES: usize = 32 << 10;
/// Time between two looks at the threads and their samples.
const LOOK: Duration = Duration::from_millis(100);
/// The most threads that are sampled, the first ones.
const THREADS_MAX: usize = 128;
/// The most samples that are kept: the newest are left out.
const SAMPLES_MAX: usize = 1 << 20;

/// What was seen of a program.
#[derive(Clone, Debug)]
pub struct Seen {
    /// How long it was looked at.
    pub seconds: f64,
    /// Samples of time.
    pub samples: u64,
    /// Samples that had no room.
    pub lost: u64,
    /// Threads that were sampled.
    pub threads: usize,
    /// There are more threads than are sampled.
    pub is_part: bool,
    /// The kernel's part is in the figures.
    pub has_kernel: bool,
    /// What the processor counts for us; time always.
    pub events: Vec<Event>,
    /// The stages, in their order.
    pub stages: Vec<Part>,
}

/// What a stage cost.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Which.
    pub stage: Stage,
    /// By the index of [`Event::ALL`].
    pub costs: [f64; Event::ALL.len()],
    /// Of its time, in the kernel; ns.
    pub kernel_ns: f64,
    /// Samples of time.
    pub samples: u64,
}

/// Look at threads of a process, all of them if none are named, until `stop`; `begun` is called
/// when the first sample may be taken.
///
/// # Errors
/// If that is not permitted, or the program has no line tables; the text says what helps.
pub fn look(
    process: u32,
    threads: Option<&[i32]>,
    begun: impl FnOnce(),
    stop: &dyn Fn(Duration) -> bool,
) -> Result<Seen, Error> {
    let mut code = Code::of(Some(process))?;
    let mut sampler = Sampler::new(Pace { hz: HZ, ring_bytes: RING_BYTES });
    let (mut samples, mut left_out, mut is_part) = (Vec::new(), 0, false);
    let start = Instant::now();
    let mut begun = Some(begun);
    loop {
        let all = match threads {
            Some(threads) => threads.to_vec(),
            None => threads_of(process),
        };
        let has_ended = all.is_empty();
        for thread in all {
            let known = sampler.threads().any(|id| id == thread);
            let has_room = sampler.threads().count() < THREADS_MAX;
            if !known && (!has_room || !sampler.add(thread, &Event::ALL, true)?) {
                is_part = true;
            }
        }
        if let Some(begun) = begun.take() {
            begun();
        }
        sampler.take(|sample| match samples.len() < SAMPLES_MAX {
            true => samples.push(sample),
            false => left_out += 1,
        });
        if has_ended || stop(start.elapsed()) {
            break;
        }
        std::thread::sleep(LOOK);
    }
    let seconds = start.elapsed().as_secs_f64();
    sampler.pause()?;
    sampler.take(|sample| samples.push(sample));
    Ok(Seen {
        seconds,
        samples: samples.iter().filter(|sample| sample.event == Event::Time).count() as u64,
        lost: sampler.lost() + left_out,
        threads: sampler.threads().count(),
        is_part,
        has_kernel: sampler.has_kernel(),
        events: sampler.events().collect(),
        stages: parts(&mut code, &samples),
    })
}

fn threads_of(process: u32) -> Vec<i32> {
    // A process that has ended has none.
    let entries = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn parts(code: &mut Code, samples: &[Sample]) -> Vec<Part> {
    let part = |stage| Part { stage, costs: [0.0; Event::ALL.len()], kernel_ns: 0.0, samples: 0 };
    let mut parts = Stage::ALL.map(part);
    for sample in samples {
        let part = &mut parts[code.stage(sample) as usize];
        part.costs[sample.event as usize] += sample.weight as f64;
        if sample.event == Event::Time {
            part.samples += 1;
            part.kernel_ns += if sample.in_kernel { sample.weight as f64 } else { 0.0 };
        }
    }
    parts.to_vec()
}

impl Seen {
    /// The share of a stage, and half the width of its 95 % interval, both of 1.
    pub fn share(&self, part: &Part) -> (f64, f64) {
        let n = self.samples.max(1) as f64;
        let share = part.samples as f64 / n;
        (share, 1.96 * (share * (1.0 - share) / n).sqrt())
    }

    /// A bar for a stage.
    pub fn bar(&self, part: &Part) -> String {
        bar(self.share(part).0)
    }

    /// Processor time of a stage, in ns.
    pub fn all_ns(&self) -> f64 {
        self.stages.iter().map(|part| part.costs[Event::Time as usize]).sum()
    }

    /// What to fix next, or why that is not said.
    pub fn next(&self) -> String {
        if self.samples == 0 {
            return "The program did not run while it was looked at: nothing is to be fixed."
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

    #[test]
    fn a_process_that_is_not_there_has_a_reason() {
        let error = look(u32::MAX, None, || {}, &|_| true).expect_err("no such process");
        assert!(error.to_string().contains("has mapped"), "{error}");
    }
}
