//! The first of all rare deadlines: those of TIME-WAIT, neighbours, fragments, lifetimes, groups
//! and a router's links. A poll compares one time in place of theirs.
//!
//! Called by: `Stack::poll` and `Stack::next_deadline`; whoever sets a deadline of those notes it
//! here. A note may only lower the time. One that is cleared or moves back leaves it too early:
//! [`expire`] then finds nothing due, and finds the time anew. Never too late: debug builds assert
//! it at every poll. The connections' own timers are in `timers.rs`.

use base::Instant;

use crate::forward::links;
use crate::{Stack, addresses, frag, groups, resolve};

/// The earliest of them, or earlier.
pub(crate) struct RareTimers {
    first: Instant,
}

impl Default for RareTimers {
    fn default() -> RareTimers {
        RareTimers { first: Instant::NEVER }
    }
}

impl RareTimers {
    /// A deadline was set to `at`.
    #[inline(always)]
    pub(crate) fn note(&mut self, at: Instant) {
        self.first = self.first.min(at);
    }

    /// May one be due?
    #[inline(always)]
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.first <= now
    }

    #[inline(always)]
    pub(crate) fn next_deadline(&self) -> Instant {
        self.first
    }
}

/// Act on what is due; returns how many kinds of timers were.
#[cold]
#[inline(never)]
pub(crate) fn expire(stack: &mut Stack) -> usize {
    let now = stack.core.cx.now;
    let mut due = 0;
    stack.connections.expire_time_wait(now, &stack.core.secret);
    if stack.neighbours.next_deadline() <= now {
        resolve::expire(stack);
        due += 1;
    }
    if stack.frags.next_deadline() <= now {
        frag::expire(stack);
        due += 1;
    }
    if stack.lifetimes.next_deadline() <= now {
        addresses::expire(stack);
        due += 1;
    }
    if stack.groups.next_deadline() <= now {
        groups::expire(stack);
        due += 1;
    }
    if stack.forwarding.next_look() <= now {
        // It is no work: a poll that does nothing else may sleep.
        links::look(stack);
    }
    renew(stack);
    due
}

/// Find the time anew: exact, where a change that is rare itself may have cleared deadlines.
pub(crate) fn renew(stack: &mut Stack) {
    stack.rare_timers.first = first(stack);
}

/// The earliest of all.
pub(crate) fn first(stack: &Stack) -> Instant {
    let waits = stack.connections.next_time_wait().min(stack.neighbours.next_deadline());
    let rest = stack.frags.next_deadline().min(stack.lifetimes.next_deadline());
    waits.min(rest).min(stack.groups.next_deadline()).min(stack.forwarding.next_look())
}

/// In debug builds: has everybody noted what he set?
#[inline(always)]
pub(crate) fn check(stack: &Stack) {
    debug_assert!(
        stack.rare_timers.first <= first(stack)
            && stack.lifetimes.next_deadline() <= addresses::ahead(stack),
        "a rare deadline was set and not noted"
    );
}
