//! [`World`]: the seed and the settings of runs.
//!
//! Called by: tests of programs. A run owns its runtime, whose hooks report to `idle.rs` and to the
//! clock.

use core::time::Duration;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use crate::error::RunError;
use crate::network::Network;
use crate::pump;
use crate::state::Core;

/// How much virtual time a run may take, unless [`World::limit`] says otherwise: a year.
const LIMIT: Duration = Duration::from_secs(365 * 24 * 3600);

/// The seed and the settings of runs.
#[derive(Clone, Debug)]
pub struct World {
    seed: u64,
    limit: Duration,
    digest: bool,
    captures: Option<PathBuf>,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Run<T> {
    /// What the main future returned.
    pub output: T,
    /// How much virtual time has passed.
    pub elapsed: Duration,
    /// Frames that the hosts sent and received, if [`World::digest`] or [`World::captures`] is set.
    pub frames: u64,
    /// A hash of all frames and their times, of every host, if [`World::digest`] or
    /// [`World::captures`] is set. Equal digests of two runs of one program say that all bytes
    /// were equal. Another build may have another digest.
    pub digest: u64,
}

impl World {
    /// A world in which everything random, such as losses and initial sequence numbers, is drawn
    /// from `seed`.
    pub fn new(seed: u64) -> World {
        World { seed, limit: LIMIT, digest: false, captures: None }
    }

    /// End a run that has taken this much virtual time with [`crate::Stuck`]. By default a year.
    #[must_use]
    pub fn limit(self, limit: Duration) -> World {
        World { limit, ..self }
    }

    /// Hash all frames. Costs about as much as sending them.
    #[must_use]
    pub fn digest(self, on: bool) -> World {
        World { digest: on, ..self }
    }

    /// Write the frames of each host's end of each link to a file of this directory, such as
    /// `client-server.pcapng`, and after a restart of one of the two `client-server-1.pcapng`. The
    /// directory is made if there is none. Files of earlier runs are replaced.
    #[must_use]
    pub fn captures(self, directory: impl AsRef<FilePath>) -> World {
        World { captures: Some(directory.as_ref().to_owned()), ..self }
    }

    /// Run `main`, and the network that it makes, until `main` returns. All tasks run on this
    /// thread. At the end the tasks that still run are dropped.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn run<T>(&self, main: impl AsyncFnOnce(Network) -> T) -> Result<Run<T>, RunError> {
        if tokio::runtime::Handle::try_current().is_ok() {
            return Err(RunError::Nested);
        }
        let core = Arc::new(Core::new(self.seed, self.digest, self.captures.clone()));
        let (before, after) = (core.clone(), core.clone());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .on_thread_park(move || before.idle.report())
            .on_thread_unpark(move || after.follow_tokio())
            .build()
            .map_err(RunError::Runtime)?;
        let output = runtime.block_on(async {
            core.begin();
            let network = tokio::spawn(pump::run(core.clone(), self.limit));
            tokio::select! {
                biased;
                output = main(Network::new(core.clone())) => Ok(output),
                stuck = network => match stuck {
                    Ok(stuck) => Err(RunError::Stuck(stuck)),
                    Err(error) => std::panic::resume_unwind(error.into_panic()),
                }
            }
        })?;
        let elapsed = Duration::from_nanos(core.clock.now().as_nanos() - 1);
        let (frames, digest) = core.end().map_err(RunError::Capture)?;
        drop(runtime);
        Ok(Run { output, elapsed, frames, digest })
    }
}
