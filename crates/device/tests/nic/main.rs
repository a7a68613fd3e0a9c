//! An interface with a wire that takes time: gaps, padding, rings, interrupts and collisions, each
//! to the nanosecond of a clock that the test tells.
#![cfg(not(loom))]

mod half;
mod host;
mod rings;
mod threads;
mod wakes;
