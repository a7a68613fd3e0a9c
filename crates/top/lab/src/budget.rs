//! `wirespeed lab budget`: where the cost of a packet goes, stage by stage, for a sender, a
//! receiver and a router. No probe is in the packet path: the kernel samples the thread, and the
//! line tables of the program say which stage's code a sample is in
//! ([docs/decisions/0095](../../../docs/decisions/0095-budget.md)).
//!
//! Called by: the lab; the benchmarks. The crate `profile` samples.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod experiment;

#[cfg(not(target_os = "linux"))]
use elsewhere as experiment;

pub(crate) use experiment::run;
#[cfg(target_os = "linux")]
pub use experiment::{Role, Sum, sums};

/// The options.
#[derive(clap::Args, Clone, Debug)]
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "nothing is sampled"))]
pub(crate) struct Options {
    /// Seconds that a round lasts
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    /// Samples a second
    #[arg(long, value_name = "N", default_value_t = 499)]
    hz: u64,
    /// Do only the work that a simulator counts from outside
    #[arg(long, hide = true)]
    counted: bool,
}
