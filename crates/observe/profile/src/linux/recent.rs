//! Where the time of this program's own threads went in the last seconds.
//!
//! Called by: the live page, from a thread of its own. The kernel takes the samples; each turn
//! fetches them, finds the stage of each, and keeps only the counts of the last turns.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::time::{Duration, Instant};

use super::code::Code;
use super::look::{RING_BYTES, THREADS_MAX, threads_of};
use super::sampler::{Pace, Sample, Sampler};
use crate::{Error, Event, HZ, Part, Seen, Stage};

/// The number of turns that are kept.
const SLOTS: usize = 10;

/// Samples of the last five seconds: ten turns, one every [`Recent::EVERY`].
pub struct Recent {
    sampler: Sampler,
    code: Code,
    /// The names of threads that are not sampled.
    except: &'static [&'static str],
    slots: VecDeque<Slot>,
    turned: Instant,
    lost: u64,
    is_part: bool,
    /// No more threads will start, and nothing can be opened any more.
    is_closed: bool,
}

/// The counts of a turn.
struct Slot {
    seconds: f64,
    /// Samples for which the kernel had no room.
    lost: u64,
    stages: [Part; Stage::ALL.len()],
    /// The time of each thread, in ns.
    threads: BTreeMap<i32, u64>,
}

impl Slot {
    fn new() -> Slot {
        let stages = Stage::ALL.map(Part::of);
        Slot { seconds: 0.0, lost: 0, stages, threads: BTreeMap::new() }
    }

    fn count(&mut self, sample: &Sample, stage: Stage) {
        let part = &mut self.stages[stage as usize];
        let ns = sample.weight as f64;
        part.costs[Event::Time as usize] += ns;
        part.samples += 1;
        if sample.place.in_kernel {
            part.kernel_ns += ns;
        }
        *self.threads.entry(sample.thread).or_default() += sample.weight;
    }
}

impl Recent {
    /// The time between two turns.
    pub const EVERY: Duration = Duration::from_millis(500);

    /// Begin to sample all threads of this program except those with these names.
    ///
    /// # Errors
    /// Samples are not permitted, or the program has no line tables; the text gives advice.
    pub fn begin(except: &'static [&'static str]) -> Result<Recent, Error> {
        let mut recent = Recent::open(except, true)?;
        recent.turned = Instant::now();
        Ok(recent)
    }

    /// Open everything that is needed to sample the threads that this program has now, but sample
    /// nothing until [`Recent::resume`]. This is for a program that starts no more threads and
    /// gives up its right to open files.
    ///
    /// # Errors
    /// As of [`Recent::begin`].
    pub fn prepare(except: &'static [&'static str]) -> Result<Recent, Error> {
        let mut recent = Recent::open(except, false)?;
        recent.is_closed = true;
        Ok(recent)
    }

    fn open(except: &'static [&'static str], enabled: bool) -> Result<Recent, Error> {
        let mut recent = Recent {
            code: Code::of(None)?,
            sampler: Sampler::new(Pace { hz: HZ, ring_bytes: RING_BYTES }),
            except,
            slots: VecDeque::with_capacity(SLOTS),
            turned: Instant::now(),
            lost: 0,
            is_part: false,
            is_closed: false,
        };
        recent.look_for_threads(enabled)?;
        Ok(recent)
    }

    /// Begin to sample, or begin again. Earlier counts are forgotten.
    ///
    /// # Errors
    /// The kernel refuses; the text gives advice.
    pub fn resume(&mut self) -> Result<(), Error> {
        self.sampler.take(|_| {});
        self.slots.clear();
        (self.turned, self.lost) = (Instant::now(), self.sampler.lost());
        self.sampler.begin()
    }

    /// Sample nothing until [`Recent::resume`].
    ///
    /// # Errors
    /// The kernel refuses; the text gives advice.
    pub fn pause(&mut self) -> Result<(), Error> {
        self.sampler.pause()
    }

    /// Take the samples since the last turn, and look for threads that began or ended.
    ///
    /// # Errors
    /// A new thread may not be sampled; the text gives advice.
    pub fn turn(&mut self) -> Result<(), Error> {
        let mut slot = Slot::new();
        let code = &mut self.code;
        self.sampler.take(|sample| slot.count(&sample, code.stage(&sample.place)));
        let (now, lost) = (Instant::now(), self.sampler.lost());
        slot.seconds = now.duration_since(self.turned).as_secs_f64();
        slot.lost = lost - self.lost;
        (self.turned, self.lost) = (now, lost);
        if self.slots.len() == SLOTS {
            self.slots.pop_front();
        }
        self.slots.push_back(slot);
        if self.is_closed {
            return Ok(());
        }
        self.look_for_threads(true)
    }

    fn look_for_threads(&mut self, enabled: bool) -> Result<(), Error> {
        let own = threads_of(std::process::id());
        self.sampler.forget(|thread| !own.contains(&thread));
        self.is_part = false;
        for thread in own {
            if self.sampler.threads().any(|known| known == thread) || self.is_excepted(thread) {
                continue;
            }
            let has_room = self.sampler.threads().count() < THREADS_MAX;
            if !has_room || !self.sampler.add(thread, &[Event::Time], enabled)? {
                self.is_part = true;
            }
        }
        Ok(())
    }

    fn is_excepted(&self, thread: i32) -> bool {
        let name = fs::read_to_string(format!("/proc/self/task/{thread}/comm"));
        // A thread that has ended has no name, and is not sampled either.
        name.map_or(true, |name| self.except.contains(&name.trim_end()))
    }

    /// The figures of the last turns.
    pub fn seen(&self) -> Seen {
        let mut stages = Stage::ALL.map(Part::of);
        for slot in &self.slots {
            for (part, of) in stages.iter_mut().zip(&slot.stages) {
                part.costs[Event::Time as usize] += of.costs[Event::Time as usize];
                part.kernel_ns += of.kernel_ns;
                part.samples += of.samples;
            }
        }
        Seen {
            seconds: self.seconds(),
            samples: stages.iter().map(|part| part.samples).sum(),
            lost: self.slots.iter().map(|slot| slot.lost).sum(),
            threads: self.sampler.threads().count(),
            is_part: self.is_part,
            has_kernel: self.sampler.has_kernel(),
            events: vec![Event::Time],
            stages: stages.to_vec(),
        }
    }

    /// The share of the last turns in which the busiest thread ran, from 0 to 1.
    pub fn busiest(&self) -> f64 {
        let mut threads = BTreeMap::<i32, u64>::new();
        for (&thread, ns) in self.slots.iter().flat_map(|slot| &slot.threads) {
            *threads.entry(thread).or_default() += ns;
        }
        let most = threads.into_values().max().unwrap_or(0) as f64 * 1e-9;
        (most / self.seconds().max(1e-3)).min(1.0)
    }

    fn seconds(&self) -> f64 {
        self.slots.iter().map(|slot| slot.seconds).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    fn named(name: &str, run: impl FnOnce() + Send + 'static) -> thread::JoinHandle<()> {
        thread::Builder::new().name(name.to_owned()).spawn(run).expect("a thread")
    }

    /// A prepared `Recent` samples the threads that existed at `prepare`, only between `resume` and
    /// `pause`, and forgets earlier counts.
    #[test]
    fn what_is_prepared_samples_between_resume_and_pause() {
        let stop = Arc::new(AtomicBool::new(false));
        let spins = stop.clone();
        let thread = named("prepared", move || while !spins.load(Ordering::Relaxed) {});
        if let Ok(mut recent) = Recent::prepare(&[]) {
            let has_seen = |recent: &mut Recent| {
                let until = Instant::now() + Duration::from_secs(60);
                while recent.busiest() < 0.05 && Instant::now() < until {
                    thread::sleep(Duration::from_millis(50));
                    recent.turn().expect("nothing is opened");
                }
                recent.seen().samples > 0
            };
            for _ in 0..2 {
                thread::sleep(Duration::from_millis(50));
                recent.turn().expect("nothing is opened");
                assert_eq!(recent.seen().samples, 0, "samples were taken before `resume`");
                recent.resume().expect("sampling begins");
                assert!(has_seen(&mut recent), "{:?}", recent.seen());
                recent.pause().expect("sampling stops");
                recent.sampler.take(|_| {});
                recent.slots.clear();
            }
        }
        stop.store(true, Ordering::Relaxed);
        thread.join().expect("it ends");
    }

    /// A running thread is seen, an excepted one is not, and old turns are forgotten.
    #[test]
    fn the_last_turns_are_of_the_threads_that_run() {
        let mut recent = match Recent::begin(&["looks-away"]) {
            Ok(recent) => recent,
            Err(error) => {
                let said = error.to_string();
                assert!(said.contains("no samples") || said.contains("line tables"), "{said}");
                return;
            }
        };
        let stop = Arc::new(AtomicBool::new(false));
        let spins = |stop: Arc<AtomicBool>| move || while !stop.load(Ordering::Relaxed) {};
        let threads = ["runs", "looks-away"].map(|name| named(name, spins(stop.clone())));
        let until = Instant::now() + Duration::from_secs(60);
        // Other threads of this process may run as well, and the figures do not tell threads apart.
        while recent.busiest() < 0.05 && Instant::now() < until {
            thread::sleep(Duration::from_millis(50));
            recent.turn().expect("a turn succeeds as the first one did");
        }
        let seen = recent.seen();
        assert!(recent.busiest() >= 0.05 && recent.busiest() <= 1.0, "{seen:?}");
        assert!(seen.samples > 0 && seen.all_ns() > 0.0 && seen.threads > 0, "{seen:?}");
        let names = recent.sampler.threads().map(|thread| {
            fs::read_to_string(format!("/proc/self/task/{thread}/comm")).unwrap_or_default()
        });
        let names: Vec<String> = names.collect();
        assert!(names.iter().any(|name| name.trim_end() == "runs"), "{names:?}");
        assert!(!names.iter().any(|name| name.trim_end() == "looks-away"), "{names:?}");
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
        for _ in 0..2 * SLOTS {
            recent.turn().expect("a turn succeeds as the first one did");
        }
        assert_eq!(recent.slots.len(), SLOTS);
        let seen = recent.seen();
        let of_slots: u64 = recent.slots.iter().flat_map(|slot| slot.threads.values()).sum();
        assert!((seen.all_ns() - of_slots as f64).abs() < 1.0, "{seen:?}");
    }
}
