//! Makes many runs in parallel, on a thread for each job; the results keep the order of the runs.
//!
//! Called by: `wan`, `fair`, `mitigation`. Results in virtual time do not depend on parallel runs;
//! those in real time may.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use std::{io, thread};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::{Error, Run};

impl Run<'_> {
    /// Call `work` for each of `runs`; threads that become free take the runs in their order.
    /// `None` stands for a run that was stopped or not begun; `work` returns `None` if it is
    /// stopped.
    ///
    /// # Errors
    /// The first error of a run; the other runs are stopped.
    pub fn each<T: Sync, R: Send>(
        &self,
        runs: &[T],
        work: impl Fn(&T, &(dyn Fn() -> bool + Sync)) -> Result<Option<R>, Error> + Sync,
    ) -> Result<Vec<Option<R>>, Error> {
        self.each_on(self.common.jobs(), runs, work)
    }

    /// Like [`Run::each`], on this many threads.
    ///
    /// # Errors
    /// Those of [`Run::each`].
    pub(crate) fn each_on<T: Sync, R: Send>(
        &self,
        jobs: usize,
        runs: &[T],
        work: impl Fn(&T, &(dyn Fn() -> bool + Sync)) -> Result<Option<R>, Error> + Sync,
    ) -> Result<Vec<Option<R>>, Error> {
        let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let stop = || self.is_stopped() || failed.load(Ordering::Relaxed) > 0;
        let take = || {
            let index = next.fetch_add(1, Ordering::Relaxed);
            (index < runs.len() && !stop()).then_some(index)
        };
        let (sender, receiver) = channel();
        let mut results: Vec<Option<R>> = runs.iter().map(|_| None).collect();
        let mut progress = Progress::new(runs.len());
        let mut trouble = None;
        thread::scope(|scope| {
            for _ in 0..jobs.min(runs.len()) {
                let (sender, work, take, stop) = (sender.clone(), &work, &take, &stop);
                scope.spawn(move || {
                    while let Some(index) = take() {
                        if sender.send((index, work(&runs[index], stop))).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(sender);
            let mut done = 0;
            loop {
                match receiver.recv_timeout(Duration::from_millis(200)) {
                    Ok((index, Ok(result))) => {
                        done += usize::from(result.is_some());
                        results[index] = result;
                    }
                    Ok((_, Err(error))) => {
                        failed.store(1, Ordering::Relaxed);
                        trouble = trouble.take().or(Some(error));
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                progress.at(done);
            }
        });
        match trouble {
            Some(error) => Err(error),
            None => Ok(results),
        }
    }
}

/// Time between two lines of progress, if there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Shows progress: a bar on a terminal, else a line from time to time.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    begun: Instant,
    said: Instant,
    total: usize,
}

impl Progress {
    pub(crate) fn new(total: usize) -> Progress {
        // A dumb terminal cannot return to the beginning of a line.
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let bar = (io::stderr().is_terminal() && !dumb).then(|| {
            let bar = ProgressBar::new(total as u64);
            let shape = "{bar:40} {pos} of {len} runs, {elapsed}, about {eta} left";
            if let Ok(style) = ProgressStyle::with_template(shape) {
                bar.set_style(style);
            }
            bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
            bar
        });
        let now = Instant::now();
        Progress { bar, begun: now, said: now, total }
    }

    /// Report that `done` runs are done.
    pub(crate) fn at(&mut self, done: usize) {
        if let Some(bar) = &self.bar {
            bar.set_position(done as u64);
        } else if self.said.elapsed() >= LINE_EVERY {
            self.said = Instant::now();
            let seconds = self.begun.elapsed().as_secs();
            // A closed standard error is ignored.
            let _ = writeln!(io::stderr(), "{done} of {} runs after {seconds} s", self.total);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
