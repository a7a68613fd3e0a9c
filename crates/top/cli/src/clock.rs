//! Clocks, cores and Ctrl-C, which the stack itself must not read.
//!
//! Called by: the loops of all commands that run a stack.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant as Monotone, SystemTime};

use anyhow::{Context, Result};
use rustix::event::{EventfdFlags, PollFlags, eventfd};
#[cfg(target_os = "linux")]
use rustix::event::{PollFd, poll};
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use wirespeed::Instant;

/// The clock that all stacks of a run share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Monotone);

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock(Monotone::now())
    }

    #[inline]
    pub(crate) fn now(self) -> Instant {
        Instant::from_nanos(self.0.elapsed().as_nanos() as u64 + 1)
    }
}

/// The time of day since 1970, UTC.
pub(crate) fn since_1970() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Nanoseconds since 1970.
pub(crate) fn now_ns() -> u64 {
    u64::try_from(since_1970().as_nanos()).unwrap_or(u64::MAX)
}

/// CPU time of this thread in seconds, user and system.
pub(crate) fn thread_cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Wall and CPU time of one thread, less the time spent beside the transfer (files and hashes).
#[derive(Debug)]
pub(crate) struct Stopwatch {
    clock: Clock,
    started: Instant,
    cpu_started_s: f64,
    beside_s: f64,
    beside_cpu_s: f64,
    pub(crate) slept_s: f64,
}

impl Stopwatch {
    pub(crate) fn start(clock: Clock) -> Stopwatch {
        Stopwatch {
            clock,
            started: clock.now(),
            cpu_started_s: thread_cpu_s(),
            beside_s: 0.0,
            beside_cpu_s: 0.0,
            slept_s: 0.0,
        }
    }

    /// Do something whose time does not count.
    pub(crate) fn beside<T>(&mut self, what: impl FnOnce() -> T) -> T {
        let (wall, cpu) = (self.clock.now(), thread_cpu_s());
        let result = what();
        self.beside_cpu_s += thread_cpu_s() - cpu;
        self.beside_s += self.clock.now().since(wall).as_secs_f64();
        result
    }

    /// The times so far.
    pub(crate) fn lap(&self) -> Lap {
        let wall_s = self.clock.now().since(self.started).as_secs_f64();
        Lap {
            wall_s,
            counted_s: (wall_s - self.beside_s).max(0.0),
            busy_s: (wall_s - self.beside_s - self.slept_s).max(0.0),
            cpu_s: (thread_cpu_s() - self.cpu_started_s - self.beside_cpu_s).max(0.0),
        }
    }
}

/// The readings of a stopwatch, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lap {
    /// Wall time.
    pub(crate) wall_s: f64,
    /// Wall time less files and hashes.
    pub(crate) counted_s: f64,
    /// Wall time less files, hashes and sleep.
    pub(crate) busy_s: f64,
    /// CPU time less files and hashes.
    pub(crate) cpu_s: f64,
}

/// Up to `wanted` cores that this process may use, the current one first.
pub(crate) fn cores(wanted: usize) -> Vec<usize> {
    let Ok(allowed) = sched_getaffinity(None) else { return Vec::new() };
    let here = sched_getcpu();
    let others = (0..CpuSet::MAX_CPU).filter(|&cpu| cpu != here && allowed.is_set(cpu));
    std::iter::once(here).filter(|&cpu| allowed.is_set(cpu)).chain(others).take(wanted).collect()
}

/// Pin this thread to one core; `false` if the system refuses.
pub(crate) fn pin(core: Option<usize>) -> bool {
    let Some(core) = core else { return false };
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).is_ok()
}

/// Whether Ctrl-C was pressed; the tool then ends early, and cleanly.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt {
    noted: Arc<AtomicBool>,
    /// Readable after Ctrl-C.
    event: Arc<OwnedFd>,
}

impl Interrupt {
    /// Catch SIGINT, SIGTERM and SIGHUP from now on; a second one ends the process.
    pub(crate) fn install() -> Result<Interrupt> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let event = Arc::new(event.context("cannot make an event descriptor")?);
        let noted = Arc::new(AtomicBool::new(false));
        let (flag, wake) = (noted.clone(), event.clone());
        ctrlc::set_handler(move || {
            if flag.swap(true, Ordering::Relaxed) {
                #[cfg(target_os = "linux")]
                crate::terminal::restore();
                std::process::exit(130);
            }
            let _ = rustix::io::write(&*wake, &1_u64.to_ne_bytes());
        })
        .context("cannot catch Ctrl-C")?;
        Ok(Interrupt { noted, event })
    }

    pub(crate) fn noted(&self) -> bool {
        self.noted.load(Ordering::Relaxed)
    }

    /// For tasks: completes after Ctrl-C. A thread waits for it until the process ends.
    ///
    /// # Errors
    /// The system has no thread left.
    #[cfg(target_os = "linux")]
    pub(crate) fn pressed(&self) -> Result<tokio::sync::oneshot::Receiver<()>> {
        let (tell, told) = tokio::sync::oneshot::channel();
        let event = self.event.clone();
        let wait = move || {
            let mut asked = [PollFd::new(&*event, PollFlags::IN)];
            while let Err(rustix::io::Errno::INTR) = poll(&mut asked, None) {}
            let _ = tell.send(());
        };
        std::thread::Builder::new().spawn(wait).context("cannot start a thread")?;
        Ok(told)
    }

    /// For poll(2): readable after Ctrl-C.
    pub(crate) fn descriptor(&self) -> (BorrowedFd<'_>, PollFlags) {
        (self.event.as_fd(), PollFlags::IN)
    }
}
