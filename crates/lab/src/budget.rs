//! `wirespeed lab budget`: where the cost of a packet goes, stage by stage, for a sender, a
//! receiver and a router. No probe is in the packet path: the kernel samples the threads, and line
//! tables say whose code a sample is in
//! ([docs/decisions/0095](../../../docs/decisions/0095-budget.md)).
//!
//! Called by: the lab; `wirespeed show budget`, which samples a running program ([`live`]); the
//! benchmarks.

#[cfg(target_os = "linux")]
mod code;
#[cfg(target_os = "linux")]
mod counted;
#[cfg(target_os = "linux")]
mod estimate;
#[cfg(target_os = "linux")]
mod experiment;
#[cfg(target_os = "linux")]
pub mod live;
#[cfg(target_os = "linux")]
mod results;
#[cfg(target_os = "linux")]
mod round;
#[cfg(target_os = "linux")]
mod sampler;
#[cfg(target_os = "linux")]
mod stage;
#[cfg(target_os = "linux")]
mod work;

#[cfg(target_os = "linux")]
pub(crate) use experiment::run;
#[cfg(target_os = "linux")]
pub use experiment::{Sum, sums};
#[cfg(target_os = "linux")]
pub use sampler::Event;
#[cfg(target_os = "linux")]
pub use stage::{Kind, Stage};
#[cfg(target_os = "linux")]
pub use work::Role;

/// The options.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Options {
    /// Seconds of a round
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    /// Samples a second
    #[arg(long, value_name = "N", default_value_t = 499)]
    hz: u64,
    /// Work to be counted from outside, and nothing else
    #[arg(long, hide = true)]
    counted: bool,
}

/// Only Linux samples threads for us.
#[cfg(not(target_os = "linux"))]
pub(crate) fn run(
    _matches: &clap::ArgMatches,
    _run: &crate::Run<'_>,
) -> Result<crate::Report, crate::Error> {
    let _ = |options: Options| (options.seconds, options.hz, options.counted);
    Err(crate::Error::Failed("the budget is sampled by Linux: run it there".to_owned()))
}
