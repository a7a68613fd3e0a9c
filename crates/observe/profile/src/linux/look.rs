//! A look at a running program from outside: the kernel samples its threads for a while. The
//! program is not changed, and pays only for the samples. The thread that looks fetches samples
//! rarely, and counts them by location; symbols are read when stages are asked for.
//!
//! Called by: `wirespeed show budget`, the benchmarks.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

use super::code::Code;
use super::mapped::Mapped;
use super::sampler::{Location, Pace, Sample, Sampler};
use crate::{Error, Event, HZ, Part, Seen, Stage};

/// The size in bytes of the kernel's buffer for a thread: it holds the samples of several rounds,
/// at about 80 bytes each.
pub(super) const RING_BYTES: usize = 32 << 10;
/// The time between two rounds, each of which lists the threads and fetches their samples.
const LOOK: Duration = Duration::from_millis(500);
/// The time between two checks whether to stop.
const ASK: Duration = Duration::from_millis(50);
/// The most threads that are sampled; further threads are left out.
pub(super) const THREADS_MAX: usize = 128;
/// The most locations that are counted; samples at further locations are left out.
const PLACES_MAX: usize = 1 << 16;
/// The initial capacity for locations.
const PLACES: usize = 1 << 10;

/// Samples of a program, by the locations of its threads.
pub struct Look {
    mapped: Mapped,
    places: Locations,
    seconds: f64,
    /// Samples for which the kernel had no room.
    lost: u64,
    threads: usize,
    is_part: bool,
    has_kernel: bool,
    events: Vec<Event>,
}

/// Sample the named threads of a process, or all if none are named, until `stop` returns true.
/// `begun` is called when sampling has begun.
///
/// # Errors
/// Samples are not permitted, or the program has no line tables; the text gives advice.
pub fn look(
    process: u32,
    threads: Option<&[i32]>,
    begun: impl FnOnce(),
    stop: &dyn Fn(Duration) -> bool,
) -> Result<Look, Error> {
    let mapped = Mapped::of(Some(process))?;
    let mut sampler = Sampler::new(Pace { hz: HZ, ring_bytes: RING_BYTES });
    let (mut places, mut is_part) = (Locations::new(), false);
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
        sampler.take(|sample| places.count(&sample, &mapped));
        if has_ended || is_enough(start, stop) {
            break;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    sampler.pause()?;
    sampler.take(|sample| places.count(&sample, &mapped));
    Ok(Look {
        mapped,
        places,
        seconds,
        lost: sampler.lost(),
        threads: sampler.threads().count(),
        is_part,
        has_kernel: sampler.has_kernel(),
        events: sampler.events().collect(),
    })
}

/// Wait for the next round. True if `stop` says that the look shall end.
fn is_enough(start: Instant, stop: &dyn Fn(Duration) -> bool) -> bool {
    let next = Instant::now() + LOOK;
    loop {
        if stop(start.elapsed()) {
            return true;
        }
        let left = next.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        std::thread::sleep(left.min(ASK));
    }
}

pub(super) fn threads_of(process: u32) -> Vec<i32> {
    // A process that has ended has no threads to list.
    let entries = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

impl Look {
    /// The number of samples of time.
    pub fn samples(&self) -> u64 {
        self.places.at.values().map(|count| count.samples).sum()
    }

    /// The figures by stage. This call reads the symbols.
    ///
    /// # Errors
    /// The symbols cannot be read; the text gives advice.
    pub fn seen(self) -> Result<Seen, Error> {
        let samples = self.samples();
        let lost = self.lost + self.places.left_out;
        let stages = self.places.parts(&mut Code::read(self.mapped)?);
        Ok(Seen {
            seconds: self.seconds,
            samples,
            lost,
            threads: self.threads,
            is_part: self.is_part,
            has_kernel: self.has_kernel,
            events: self.events,
            stages,
        })
    }
}

/// Samples by location. A sample at a known location allocates nothing.
struct Locations {
    at: HashMap<Location, Count>,
    /// Samples of time at further locations.
    left_out: u64,
}

/// The samples at a location.
#[derive(Clone, Copy, Default)]
struct Count {
    /// The weights of the samples, by the index in [`Event::ALL`].
    weights: [u64; Event::ALL.len()],
    /// The number of samples of time.
    samples: u64,
}

impl Locations {
    fn new() -> Locations {
        Locations { at: HashMap::with_capacity(PLACES), left_out: 0 }
    }

    fn count(&mut self, sample: &Sample, mapped: &Mapped) {
        let mut place = sample.place;
        // The value on top of the stack is kept only if it is a return address.
        if place.in_kernel || !mapped.is_code(place.top.wrapping_sub(1)) {
            place.top = 0;
        }
        let is_time = u64::from(sample.event == Event::Time);
        if self.at.len() >= PLACES_MAX && !self.at.contains_key(&place) {
            self.left_out += is_time;
            return;
        }
        let count = self.at.entry(place).or_default();
        let weight = &mut count.weights[sample.event as usize];
        *weight = weight.saturating_add(sample.weight);
        count.samples += is_time;
    }

    fn parts(&self, code: &mut Code) -> Vec<Part> {
        let mut parts = Stage::ALL.map(Part::of);
        for (place, count) in &self.at {
            let part = &mut parts[code.stage(place) as usize];
            for (cost, weight) in part.costs.iter_mut().zip(count.weights) {
                *cost += weight as f64;
            }
            part.samples += count.samples;
            if place.in_kernel {
                part.kernel_ns += count.weights[Event::Time as usize] as f64;
            }
        }
        parts.to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::super::mapped::Range;
    use super::*;

    /// Code from 0x1000 on.
    fn mapped() -> Mapped {
        let ranges = vec![Range { from: 0x1000, to: 0x2000, offset: 0, file: 0 }];
        Mapped { ranges, files: Vec::new() }
    }

    fn sample(event: Event, address: u64, top: u64, in_kernel: bool) -> Sample {
        let place = Location { address, top, in_kernel };
        Sample { event, thread: 1, weight: 10, time_ns: 0, place }
    }

    #[test]
    fn samples_at_one_place_are_counted_together_whatever_lies_on_the_stack() {
        let (mapped, here) = (mapped(), 0x1234);
        let mut places = Locations::new();
        for top in 0..100 {
            places.count(&sample(Event::Time, here, top, false), &mapped);
        }
        places.count(&sample(Event::Cycles, here, 7, false), &mapped);
        assert_eq!(places.at.len(), 1);
        places.count(&sample(Event::Time, here, here + 1, false), &mapped);
        places.count(&sample(Event::Time, here, 7, true), &mapped);
        assert_eq!(places.at.len(), 3, "a return address, and the kernel");
        let place = Location { address: here, top: 0, in_kernel: false };
        let count = places.at[&place];
        assert_eq!((count.samples, count.weights), (100, [1_000, 10, 0, 0]));
    }

    #[test]
    fn places_are_bounded_and_what_has_no_room_is_counted() {
        let mapped = mapped();
        let mut places = Locations::new();
        for address in 0..PLACES_MAX as u64 + 5 {
            places.count(&sample(Event::Time, address, 0, false), &mapped);
        }
        places.count(&sample(Event::Time, 3, 0, false), &mapped);
        assert_eq!((places.at.len(), places.left_out), (PLACES_MAX, 5));
        assert_eq!(places.at.values().map(|count| count.samples).sum::<u64>(), (1 << 16) + 1);
    }

    #[test]
    fn a_process_that_is_not_there_has_a_reason() {
        let error = look(u32::MAX, None, || {}, &|_| true).err().expect("no such process");
        assert!(error.to_string().contains("has mapped"), "{error}");
    }
}
