//! Suite `frr`: `wirespeed up` with the daemons of FRR beside it as its control plane. Each case
//! compares our routes with those that the same daemons write into a kernel's table.
//!
//! docs/frr.md. Needed: Debian's frr.

pub(super) mod daemons;
mod fpm;
mod tables;

use super::ip::PING;
use super::outside::{IP, TUN};
use super::router::SS;
use super::{Case, Need};

/// FRR's shell, which Debian's package brings beside the daemons.
pub(super) const VTYSH: Need = Need::Program { program: "vtysh", package: "frr" };

pub(super) const CASES: &[Case] = &[Case {
    name: "zebra's routes by FPM: added, changed, withdrawn; zebra killed, and back with others",
    needs: &[Need::Root, TUN, IP, SS, PING, VTYSH],
    run: fpm::routes,
}];
