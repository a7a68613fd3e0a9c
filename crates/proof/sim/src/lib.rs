//! Simulated worlds in virtual time: real stacks, modelled links, applications, and laws that must
//! hold for every seed. A failure is reproduced by its seed.
//!
//! Called by: `cargo xtask sim`, tests, experiments. A simulation reads no clock. `events.rs`
//! contains the main loop, `scenario.rs` the choices that a seed makes, `oracle/` the laws.
//! docs/sim.md describes the use of the program.

mod adversaries;
mod adversary;
pub mod app;
mod applications;
pub mod background;
mod between;
mod event_queue;
mod events;
mod flow;
mod gateway;
pub mod goodput;
pub mod hand;
mod host;
pub mod interrupts;
mod misbehave;
mod misbehaviour;
mod oracle;
mod pattern;
mod router;
pub mod run;
mod scenario;
pub mod scripted;
mod scripts;
pub mod seen;
mod trace;
pub mod units;
mod violation;
mod world;

pub use adversaries::AdversaryFlow;
pub use adversary::AdversarySettings;
pub use flow::{Flow, FlowSettings};
pub use gateway::{Beyond, Socket, Tokens};
pub use host::{Cost, HostSettings, PortSettings};
pub use misbehaviour::Misbehaviour;
pub use router::RouterCounts;
pub use scenario::Scenario;
pub use trace::Trace;
pub use violation::Violation;
pub use world::{Hook, RouterLeg, ScheduledEvent, World, address, mac};

#[cfg(test)]
mod adversaries_tests;
#[cfg(test)]
mod tests;
