//! Samples by Linux's perf events, and the symbols of the ELF files that a process runs.
//!
//! Called by: `lib.rs`. `sampler` takes samples; `look` collects those of another process, `recent`
//! those of this process. `mapped` has the files that a process runs, `code` their symbols, `owner`
//! the table from files to stages.

mod code;
mod look;
mod mapped;
mod owner;
mod recent;
mod sampler;

pub use code::Code;
pub use look::{Look, look};
pub use owner::of_symbol;
pub use recent::Recent;
pub use sampler::{Location, Pace, Sample, Sampler};
