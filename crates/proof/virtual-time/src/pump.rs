//! The task that moves packets and lets the time pass.
//!
//! Called by: `world.rs`, which spawns it.
//!
//! Two clocks show the same time: tokio's, which is paused and which the programs' timers use, and
//! the virtual clock of the stacks and links, with one nanosecond more. tokio's own auto-advance
//! moves by whole milliseconds. It is used while nothing happens in the network; the hook after
//! each wait then sets the other clock. Within the millisecond of an event of the network, this
//! task advances both clocks itself, to the nanosecond. Afterwards it advances them to the next
//! whole millisecond, because auto-advance adds whole milliseconds to whatever time it finds.

use core::time::Duration;
use std::sync::Arc;

use base::Instant;
use tokio::time::{advance, sleep};

use crate::error::Stuck;
use crate::state::Core;

/// The unit of tokio's timers.
const TICK_NS: u64 = 1_000_000;

/// Run the network until the main future ends and drops this one.
pub(crate) async fn run(core: Arc<Core>, limit: Duration) -> Stuck {
    let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
    let mut since = Duration::ZERO;
    loop {
        // A program may have advanced tokio's clock itself.
        core.follow_tokio();
        let (has_worked, next) = core.settle();
        if has_worked {
            since = Duration::from_nanos(core.elapsed_ns());
        }
        core.idle.idle().await;
        let now_ns = core.elapsed_ns();
        let next_ns = if next == Instant::NEVER { u64::MAX } else { next.as_nanos() - 1 };
        if core.idle.take_woken() || next_ns <= now_ns {
            // The programs have answered, or an event is due.
            continue;
        }
        let tick_ns = now_ns.next_multiple_of(TICK_NS);
        if tick_ns > now_ns || next_ns - now_ns < TICK_NS {
            let at_ns = if tick_ns > now_ns { next_ns.min(tick_ns) } else { next_ns };
            if at_ns > limit_ns {
                return Stuck { limit, since };
            }
            core.clock.advance_to(Instant::from_nanos(at_ns + 1));
            // Yields until the timers of this time have been run.
            advance(Duration::from_nanos(at_ns - now_ns)).await;
            continue;
        }
        // The time is a whole millisecond. Let tokio advance its clock from timer to timer, up to
        // the millisecond of the network's next event.
        let until_ns = next_ns.min(limit_ns) / TICK_NS * TICK_NS;
        tokio::select! {
            biased;
            () = core.idle.idle_and_woken() => {}
            () = sleep(Duration::from_nanos(until_ns.saturating_sub(now_ns))) => {
                if next_ns > limit_ns {
                    return Stuck { limit, since };
                }
            }
        }
        core.idle.cancel();
    }
}
