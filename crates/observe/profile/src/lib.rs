//! A profiler for programs on the stack: the kernel samples where threads are, and line tables say
//! to which stage of packet processing the code there belongs. The profiled program contains
//! nothing of the profiler.
//!
//! Called by: `wirespeed lab budget`, with a [`Sampler`] of its own thread; `wirespeed show budget`
//! and the benchmarks, with a [`look`] at a running program; the live page, with the `Recent` of
//! its own program. `seen` is the result of a look, `linux` takes samples and reads symbols,
//! `elsewhere` reports that other systems cannot. docs/decisions/0095-budget.md,
//! docs/decisions/0101-profile-and-live.md.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
mod event;
#[cfg(target_os = "linux")]
mod linux;
mod seen;
mod stage;

#[cfg(not(target_os = "linux"))]
pub use elsewhere::{Look, look};
pub use event::{Event, Mean, bar, largest};
#[cfg(target_os = "linux")]
pub use linux::{Code, Location, Look, Pace, Recent, Sample, Sampler, look, of_symbol};
pub use seen::{Part, Seen};
pub use stage::{Kind, Stage};

/// Samples per second of each running thread of the profiled program. They are few, because each
/// may cost tens of microseconds in a virtual machine, where timer interrupts are expensive.
pub const HZ: u64 = 97;

/// Why a program cannot be profiled, with advice in the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);
