//! The one model of a path, for the simulator's virtual time and later for real time: a queue, a
//! transmitter with a rate, and then delay, loss, lateness, duplicates, flipped bits.
//!
//! Called by: `sim`; later a device between two devices. Must not know: protocols above the link
//! header (but for the two bits of ECN, `mark.rs`), who sends, what clock `now` comes from. It does
//! no I/O: [`Direction::send`] takes a packet, [`Direction::next_event`] says when to come back,
//! [`Direction::receive`] gives what has arrived. Counters: [`Counts`]. Sources: RFC 8289 (CoDel),
//! RFC 3168 (ECN), Gilbert 1960 and Elliott 1963.
//!
//! A link is two directions, each with [`Settings`] of its own. What it carries are wire packets: a
//! super-segment has to be cut before it comes here. Impairments act behind the queue, in the order
//! loss, corruption, lateness, duplication; so the transmitter has spent its time on a packet that
//! is then lost. The same seed, packets and times give the same results, however seldom the caller
//! looks: each transmission begins where the last one ended, not when somebody asked.

mod codel;
mod direction;
mod loss;
mod mark;
mod settings;

pub use direction::{CORRUPTED, Counts, Direction, Lost, Why};
pub use settings::{Aqm, Cut, Loss, Settings};

#[cfg(test)]
mod tests;
