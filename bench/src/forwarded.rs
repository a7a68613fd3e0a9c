//! Forwards packets for `cargo xtask icount`, which counts the instructions that a packet costs.
//! Called by `icount.rs`. It runs in virtual time. Only instructions inside [`counted_turn`] count:
//! in it the router takes bursts of plain packets from one wire in memory and puts them onto
//! another. So the cost of these two devices is included.

use anyhow::{Context, Result, ensure};
use base::Instant;
use lab::forward::{Rig, Shape};

/// The function whose instructions are counted.
pub const COUNTED: &str = "counted_turn";

/// How many frames the router is offered in a turn.
const ROUND: usize = 256;

/// Forwards at least `count` packets of a shape, in whole turns.
///
/// # Errors
/// If the router forwards fewer packets than it was offered.
pub fn packets(shape: Shape, count: u64) -> Result<()> {
    by(Rig::new(shape).context("making a router for packets of this shape")?, count)
}

/// Like [`packets`], with an existing router.
///
/// # Errors
/// If the router forwards fewer packets than it was offered.
pub fn by(mut rig: Rig, count: u64) -> Result<()> {
    let (mut passed, mut now_ns) = (0, 1_000_000_000);
    while passed < count {
        now_ns += 10_000;
        let offered = rig.offer(ROUND);
        counted_turn(&mut rig, Instant::from_nanos(now_ns));
        let drained = rig.drain();
        ensure!(
            drained == offered,
            "the router forwarded {drained} of {offered} frames: {:?}",
            rig.lost()
        );
        passed += drained as u64;
    }
    Ok(())
}

#[inline(never)]
fn counted_turn(rig: &mut Rig, now: Instant) {
    rig.turn(now);
}
