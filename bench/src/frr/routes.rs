//! The rows about 100,000 routes of zebra. Called by `mod.rs`.

use anyhow::{Result, bail};

use super::world;
use crate::harness::{Bench, Figure};

pub(super) fn replayed(b: &Bench) -> Result<Figure> {
    world(b)?;
    bail!("not built yet")
}

pub(super) fn by_bgp(b: &Bench) -> Result<Figure> {
    world(b)?;
    bail!("not built yet")
}
