//! A pair of routers that share addresses by VRRP. Called by the table of bench `frr`.

use anyhow::{Result, bail};

use crate::harness::{Bench, Figure};

/// The longest silence of a flow while the pair switches.
pub(super) fn switch(_: &Bench) -> Result<Figure> {
    bail!(
        "cannot be measured: the router does not take the addresses yet that keepalived moves to \
         a mirror"
    )
}
