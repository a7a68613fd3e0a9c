//! The response: processor time of this thread, or its instructions.
//!
//! Called by: `transfer`.

use crate::Error;

/// What `--response` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Response {
    /// Processor time.
    Ns,
    /// Instructions of the program, which the processor counts (Linux).
    Instructions,
}

impl Response {
    /// The unit of a value.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Response::Ns => "ns",
            Response::Instructions => "instructions",
        }
    }
}

/// A counter that runs between `start` and `stop`.
pub(super) enum Meter {
    Time(f64),
    #[cfg(target_os = "linux")]
    Instructions(Box<perf_event::Counter>),
}

impl Meter {
    /// # Errors
    /// The processor or the system does not let this program count.
    pub(super) fn new(response: Response) -> Result<Meter, Error> {
        match response {
            Response::Ns => Ok(Meter::Time(0.0)),
            #[cfg(target_os = "linux")]
            Response::Instructions => {
                let event = perf_event::events::Hardware::INSTRUCTIONS;
                let counter = perf_event::Builder::new(event).build().map_err(|e| lacking(&e))?;
                Ok(Meter::Instructions(Box::new(counter)))
            }
            #[cfg(not(target_os = "linux"))]
            Response::Instructions => Err(lacking(&std::io::ErrorKind::Unsupported.into())),
        }
    }

    pub(super) fn start(&mut self) -> Result<(), Error> {
        match self {
            Meter::Time(begun) => *begun = time_ns(),
            #[cfg(target_os = "linux")]
            Meter::Instructions(counter) => {
                counter.reset().and_then(|()| counter.enable()).map_err(|e| lacking(&e))?;
            }
        }
        Ok(())
    }

    /// What was used since `start`.
    pub(super) fn stop(&mut self) -> Result<f64, Error> {
        match self {
            Meter::Time(begun) => Ok(time_ns() - *begun),
            #[cfg(target_os = "linux")]
            Meter::Instructions(counter) => {
                counter.disable().map_err(|e| lacking(&e))?;
                counter.read().map(|count| count as f64).map_err(|e| lacking(&e))
            }
        }
    }
}

fn lacking(error: &std::io::Error) -> Error {
    Error::Failed(format!(
        "this machine does not count instructions for this program ({error}): virtual machines \
         often have no counters; else try 'sysctl kernel.perf_event_paranoid=2', or --response ns"
    ))
}

/// Processor time of this thread.
#[cfg(target_os = "linux")]
fn time_ns() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

/// Elsewhere, time as it passes.
#[cfg(not(target_os = "linux"))]
fn time_ns() -> f64 {
    use std::sync::OnceLock;
    use std::time::Instant;
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    BEGUN.get_or_init(Instant::now).elapsed().as_nanos() as f64
}
