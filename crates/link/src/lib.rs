//! The one model of a path, for the simulator's virtual time and for real time: a queue, a
//! transmitter with a rate, and then delay, loss, lateness, duplicates, flipped bits.
//!
//! Called by: `sim`; `wirespeed wire` and the lab, by a [`Bridge`] between two devices. It knows
//! nothing above the link header but the two bits of ECN (`mark.rs`) and what a card does before
//! its wire (`cut.rs`); `now` is an argument. The model does no I/O: [`Direction::send`] takes a
//! packet, [`Direction::next_event`] says when to come back, [`Direction::receive`] gives what has
//! arrived. Counters: [`Counts`]. Sources: RFC 8289 (CoDel), RFC 3168 (ECN), Gilbert 1960 and
//! Elliott 1963.
//!
//! A link is two directions, each with [`Settings`] of its own. What it carries are wire packets: a
//! super-segment is segmented ([`cut`]) before. Impairments act behind the queue, in the order
//! loss, corruption, lateness, duplication; so the transmitter has spent its time on a packet that
//! is then lost. The same seed, packets and times give the same results, however rarely the caller
//! polls: each transmission begins where the last one ended, not when the caller polls.

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

pub use bridge::{Bridge, BridgeDirection, Carried, Mismatch};
pub use cut::cut;
pub use direction::{CORRUPTED, Counts, Direction, Lost, Why};
pub use lateness::Lateness;
pub use settings::{Aqm, Loss, Outage, Settings};

#[cfg(test)]
mod tests;
