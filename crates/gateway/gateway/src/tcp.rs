//! TCP flows.
//!
//! Called by: `gateway.rs`.

mod begin;
mod down;
mod end;
mod hello;
mod published;
mod run;
mod up;

/// How far a direction came in a turn.
pub(crate) enum Step {
    /// As far as both sides let it.
    Idle,
    /// To the end of its budget.
    UsedUp,
    /// There was no buffer.
    NoBuffer,
    /// The guest's connection has failed.
    GuestFailed,
    /// The outside's connection has failed.
    HostFailed(crate::outside::Failure),
}
