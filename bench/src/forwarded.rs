//! The cost of forwarding a packet, in instructions. Called by `icount.rs`, in virtual time. Only
//! [`counted_turn`] is counted: a turn of the router, its devices included, that takes bursts of
//! plain packets from one wire in memory and puts them onto another.

use anyhow::{Context, Result, ensure};
use base::Instant;
use lab::forward::{Rig, Shape};

/// The function whose instructions are counted.
pub const COUNTED: &str = "counted_turn";

/// Frames of a turn.
const ROUND: usize = 256;

/// Forwards `count` packets of a shape, or a few more.
///
/// # Errors
/// If one is lost.
pub fn packets(shape: Shape, count: u64) -> Result<()> {
    let mut rig = Rig::new(shape).context("no router of this shape")?;
    let (mut passed, mut now_ns) = (0, 1_000_000_000);
    while passed < count {
        now_ns += 10_000;
        let offered = rig.offer(ROUND);
        counted_turn(&mut rig, Instant::from_nanos(now_ns));
        let drained = rig.drain();
        ensure!(drained == offered, "{drained} of {offered} frames passed: {:?}", rig.lost());
        passed += drained as u64;
    }
    Ok(())
}

#[inline(never)]
fn counted_turn(rig: &mut Rig, now: Instant) {
    rig.turn(now);
}
