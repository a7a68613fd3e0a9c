//! The model of a path, in virtual time (simulator) and in real time: a queue, a transmitter with a
//! rate, then delay, loss, late packets, duplicates, bit errors.
//!
//! Called by: `sim`; `wirespeed wire` and the lab, by a [`Bridge`] between two devices; programs
//! whose stack has a device behind a path, by [`Shaped`]. `Switch` joins devices without a model,
//! for a gateway of several machines. It parses nothing above the link header except the ECN field
//! (`mark.rs`) and what offloads need (`cut.rs`); `now` is an argument. The model does no I/O:
//! [`Direction::send`] takes a packet, [`Direction::next_event`] is the time of the next call,
//! [`Direction::receive`] returns arrived packets. Counters: [`Counts`]. Sources: RFC 8289 (CoDel),
//! RFC 3168 (ECN), Gilbert 1960 and Elliott 1963.
//!
//! A link is two directions, each with its own [`Settings`]. It carries wire packets:
//! super-segments are segmented first ([`cut`]). Impairments act after the queue and the
//! transmission, in the order loss, corruption, lateness, duplication; so a lost packet has taken
//! transmission time. The same seed, packets and times give the same results, however rarely the
//! caller polls: each transmission begins where the last one ended, not when the caller polls.

mod bridge;
mod codel;
mod cut;
mod direction;
mod lateness;
mod loss;
mod mark;
#[cfg(all(feature = "linux", target_os = "linux"))]
pub mod real;
mod settings;
mod shaped;
mod stations;
#[cfg(all(feature = "linux", target_os = "linux"))]
mod switch;
pub mod units;

pub use bridge::{Bridge, BridgeDirection, Carried, Mismatch};
pub use cut::cut;
pub use direction::{CORRUPTED, Counts, Direction, Lost, Why};
pub use lateness::Lateness;
pub use settings::{Aqm, Loss, Outage, Settings};
pub use shaped::{Shape, Shaped};
#[cfg(all(feature = "linux", target_os = "linux"))]
pub use switch::{Switch, SwitchNews};

#[cfg(test)]
mod tests;
