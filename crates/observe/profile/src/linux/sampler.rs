//! Samples of running threads: where each thread is, at regular intervals of its running time.
//!
//! Called by: `look.rs` for the threads of another process, the lab for its own thread. The kernel
//! takes the samples (perf_event_open); a thread that is not sampled pays nothing. Time can always
//! be sampled; cycles and instructions only if the processor's counters are available, which they
//! are in few virtual machines.

use std::io;

use perf_event::data::Record;
use perf_event::events::{Hardware, Software};
use perf_event::{Builder, Clock, SampleFlag, Sampler as Ring};

use crate::{Error, Event};

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The event that was sampled.
    pub event: Event,
    /// The thread, by the number that was given to [`Sampler::add`].
    pub thread: i32,
    /// How much of the event the sample stands for.
    pub weight: u64,
    /// When the sample was taken, by CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// Where the thread was.
    pub place: Location,
}

/// Where a thread was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    /// The address in the program: where the thread was, or where it called the kernel.
    pub address: u64,
    /// The value on top of the stack, which is the return address in a short function of the C
    /// library.
    pub top: u64,
    /// Was the thread in the kernel?
    pub in_kernel: bool,
}

/// How samples are taken.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Samples per second of running time.
    pub hz: u64,
    /// The size of the kernel's buffer for each thread, in bytes.
    pub ring_bytes: usize,
}

/// The samples of some threads.
pub struct Sampler {
    pace: Pace,
    rings: Vec<(Event, i32, Ring)>,
    /// Time in the kernel can be sampled.
    kernel: bool,
    /// The number of samples for which the kernel's buffers had no room.
    lost: u64,
}

impl Sampler {
    /// A sampler without threads yet; [`Sampler::add`] adds them.
    pub fn new(pace: Pace) -> Sampler {
        Sampler { pace, rings: Vec::new(), kernel: true, lost: 0 }
    }

    /// Add a thread, where 0 is the calling one. It is sampled from now on if `enabled`. An event
    /// that the processor does not count is left out. False if the system has no room for more
    /// threads.
    ///
    /// # Errors
    /// The system does not permit samples of the thread; the text gives advice. A thread that has
    /// ended is not an error.
    pub fn add(&mut self, thread: i32, events: &[Event], enabled: bool) -> Result<bool, Error> {
        for &event in events {
            match self.open(event, thread, enabled) {
                Ok(ring) => self.rings.push((event, thread, ring)),
                Err(error) if error.raw_os_error() == Some(NO_THREAD) => return Ok(true),
                Err(_) if event != Event::Time => {}
                // The memory that the user may lock for buffers is used up.
                Err(_) if !self.rings.is_empty() => return Ok(false),
                Err(error) => return Err(refused(&error)),
            }
        }
        Ok(true)
    }

    fn open(&mut self, event: Event, thread: i32, enabled: bool) -> io::Result<Ring> {
        if self.kernel {
            match self.open_with(event, thread, enabled, true) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    let ring = self.open_with(event, thread, enabled, false)?;
                    self.kernel = false;
                    return Ok(ring);
                }
                done => return done,
            }
        }
        self.open_with(event, thread, enabled, false)
    }

    fn open_with(
        &self,
        event: Event,
        thread: i32,
        enabled: bool,
        kernel: bool,
    ) -> io::Result<Ring> {
        let mut builder = match event {
            Event::Time => Builder::new(Software::CPU_CLOCK),
            Event::Cycles => Builder::new(Hardware::CPU_CYCLES),
            Event::Instructions => Builder::new(Hardware::INSTRUCTIONS),
            Event::Stalled => Builder::new(Hardware::STALLED_CYCLES_BACKEND),
        };
        match event {
            Event::Time => builder.sample_period(1_000_000_000 / self.pace.hz.max(1)),
            _ => builder.sample_frequency(self.pace.hz.max(1)),
        };
        let what = SampleFlag::IP
            | SampleFlag::TIME
            | SampleFlag::PERIOD
            | SampleFlag::CALLCHAIN
            | SampleFlag::STACK_USER;
        builder
            .observe_pid(thread)
            .any_cpu()
            .exclude_kernel(!kernel)
            .exclude_hv(true)
            .sample(what)
            .exclude_callchain_kernel(true)
            .sample_max_stack(1)
            .sample_stack_user(8)
            .clockid(Clock::MONOTONIC)
            .enabled(enabled);
        builder.build()?.sampled(self.pace.ring_bytes)
    }

    /// Begin to sample the threads that were not enabled.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn begin(&mut self) -> Result<(), Error> {
        let mut rings = self.rings.iter_mut();
        rings.try_for_each(|(_, _, ring)| ring.enable()).map_err(|error| refused(&error))
    }

    /// Stop sampling, until [`Sampler::begin`].
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn pause(&mut self) -> Result<(), Error> {
        let mut rings = self.rings.iter_mut();
        rings.try_for_each(|(_, _, ring)| ring.disable()).map_err(|error| refused(&error))
    }

    /// Take the samples that the kernel has put into the buffers.
    pub fn take(&mut self, mut each: impl FnMut(Sample)) {
        for (event, thread, ring) in &mut self.rings {
            // The kernel adds samples meanwhile: take at most about as many as the buffer holds.
            let mut left = self.pace.ring_bytes / 32;
            while left > 0 {
                let Some(record) = ring.next_record() else { break };
                left -= 1;
                let in_kernel = record.misc() & CPU_MODE == IN_KERNEL;
                match record.parse_record() {
                    Ok(Record::Sample(sample)) => {
                        let top = sample.stack_user().and_then(|bytes| bytes.first_chunk());
                        let chain = sample.callchain().unwrap_or(&[]);
                        let user = chain.iter().copied().find(|&a| !is_marker(a));
                        let ip = sample.ip().filter(|_| !in_kernel);
                        each(Sample {
                            event: *event,
                            thread: *thread,
                            weight: sample.period().unwrap_or(0),
                            time_ns: sample.time().unwrap_or(0),
                            place: Location {
                                address: ip.or(user).unwrap_or(0),
                                top: top.map_or(0, |top| u64::from_ne_bytes(*top)),
                                in_kernel,
                            },
                        });
                    }
                    Ok(Record::Lost(lost)) => self.lost += lost.lost,
                    Ok(Record::LostSamples(lost)) => self.lost += lost.lost,
                    Ok(_) | Err(_) => {}
                }
            }
        }
    }

    /// Stop sampling threads that have ended.
    pub fn forget(&mut self, has_ended: impl Fn(i32) -> bool) {
        self.rings.retain(|(_, thread, _)| !has_ended(*thread));
    }

    /// The events that are sampled.
    pub fn events(&self) -> impl Iterator<Item = Event> + '_ {
        let has = |event: &Event| self.rings.iter().any(|(of, _, _)| of == event);
        Event::ALL.into_iter().filter(has)
    }

    /// The threads that are sampled.
    pub fn threads(&self) -> impl Iterator<Item = i32> + '_ {
        self.rings.iter().filter(|(event, _, _)| *event == Event::Time).map(|(_, id, _)| *id)
    }

    /// Do the samples include time in the kernel?
    pub fn has_kernel(&self) -> bool {
        self.kernel
    }

    /// The number of samples for which the kernel's buffers had no room.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

/// PERF_RECORD_MISC_CPUMODE_MASK and PERF_RECORD_MISC_KERNEL.
const CPU_MODE: u16 = 7;
const IN_KERNEL: u16 = 1;

/// ESRCH: the thread has ended.
const NO_THREAD: i32 = 3;

/// A call chain has context markers between its addresses: small negative numbers.
fn is_marker(address: u64) -> bool {
    address >= u64::MAX - 4_095
}

fn refused(error: &io::Error) -> Error {
    let advice = match error.raw_os_error() {
        // EPERM, EACCES
        Some(1 | 13) => {
            "permitted to root, and to the program's own user with `sudo sysctl \
             kernel.perf_event_paranoid=2` or less; a container needs CAP_PERFMON, and a seccomp \
             profile that has perf_event_open"
        }
        // ENOSYS, ENOENT
        Some(38 | 2) => "this kernel has no perf events: use one with CONFIG_PERF_EVENTS",
        // EMFILE
        Some(24) => "too many files are open: raise the limit, `ulimit -n 4096`",
        _ => "try as root",
    };
    Error(format!("no samples can be taken: {error}; {advice}"))
}
