//! The simulated interface: gaps, padding, rings, interrupts and collisions, each to the nanosecond
//! of a clock that the test sets.

mod half;
mod host;
mod rings;
mod threads;
mod wakes;
