//! The rows about a million routes from a recorded FPM stream. Called by `mod.rs`.

use anyhow::{Result, bail};

use super::world;
use crate::harness::{Bench, Figure};

pub(super) fn seconds(b: &Bench) -> Result<Figure> {
    world(b)?;
    bail!("not built yet")
}

pub(super) fn memory(b: &Bench) -> Result<Figure> {
    world(b)?;
    bail!("not built yet")
}

pub(super) fn pause(b: &Bench) -> Result<Figure> {
    world(b)?;
    bail!("not built yet")
}
